//! Checks that servers write only where the run may change, wipe and remove data: in memory, in the containers, and in
//! volumes created for the run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::docker::{Container, Mount, docker};

/// Output of `docker volume inspect`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Volume {
    name: String,
    /// Options of the driver. If `device` is set, the data is stored there and outlives the volume.
    options: Option<BTreeMap<String, String>>,
}

impl Volume {
    fn device(&self) -> Option<&str> {
        let device = self.options.as_ref()?.get("device")?;
        (device != "tmpfs").then_some(device.as_str())
    }
}

pub async fn volume_names() -> Result<BTreeSet<String>, String> {
    let told = docker(&["volume", "ls", "--quiet"]).await?;
    Ok(told.lines().map(str::to_owned).collect())
}

/// Inspects the volumes of these containers.
pub async fn volumes_of(made: &[Container]) -> Result<Vec<Volume>, String> {
    let mounts = made.iter().flat_map(|one| &one.mounts).filter(|mount| mount.kind == "volume");
    let names: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let told = docker(&[&["volume", "inspect"], &names[..]].concat()).await?;
    serde_json::from_str(&told)
        .map_err(|error| format!("cannot parse the output of `docker volume inspect`: {error}"))
}

/// Checks that servers can write only to storage that belongs to the project. `before` contains the names of
/// the volumes that existed before the containers.
pub fn check(
    made: &[Container],
    volumes: &[Volume],
    project: &str,
    before: &BTreeSet<String>,
) -> Result<(), String> {
    for container in made {
        for mount in &container.mounts {
            if let Some(place) = place_outside(mount, volumes, project, before) {
                return Err(format!(
                    "the service `{}` stores {} in {place}, and the run would change or wipe data there: remove \
                     the mount from a copy of the file, or add `:ro` if the server only reads it",
                    container.service(),
                    mount.destination
                ));
            }
        }
    }
    Ok(())
}

/// Describes where a mount stores data, if a server can write there and the location does not belong to the project.
fn place_outside(
    mount: &Mount,
    volumes: &[Volume],
    project: &str,
    before: &BTreeSet<String>,
) -> Option<String> {
    if !mount.is_writable || is_configuration(mount) {
        return None;
    }
    let name = &mount.name;
    match mount.kind.as_str() {
        "tmpfs" => None,
        "volume" => {
            let volume = volumes.iter().find(|volume| volume.name == *name);
            if let Some(device) = volume.and_then(Volume::device) {
                return Some(format!("{device} (volume `{name}`)"));
            }
            // Compose prefixes names with the project, unless the file contains the complete name.
            let is_own = name.starts_with(project) || (is_random(name) && !before.contains(name));
            (!is_own).then(|| format!("the volume `{name}`, whose name is not specific to this run"))
        }
        _ => Some(format!("{} on this host", mount.source)),
    }
}

/// Returns whether Docker chose the name of a volume.
fn is_random(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a mount is a single file on this host or a configuration directory, neither of which holds data.
fn is_configuration(mount: &Mount) -> bool {
    let is_file = std::fs::metadata(&mount.source).is_ok_and(|found| !found.is_dir());
    is_file || ["/conf", "/config"].iter().any(|end| mount.destination.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::super::docker::tests::container;
    use super::*;

    #[test]
    fn servers_may_write_only_to_the_runs_own_storage() {
        let project = "zklockbench-0123456789ab";
        let [new, old] = ["0f", "a1"].map(|digits| digits.repeat(32));
        let [own, device] = ["data", "disk"].map(|name| format!("{project}_{name}"));
        let before = BTreeSet::from([old.clone(), "zoodata".to_owned()]);
        let volumes = format!(
            r#"[{{"Name": "{own}", "Options": null}}, {{"Name": "{device}", "Options": {{"device": "/srv/zk"}}}}]"#
        );
        let volumes: Vec<Volume> = serde_json::from_str(&volumes).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = file.path().to_str().unwrap();
        let cases: [(&str, &str, &str, Option<&str>); 12] = [
            ("volume", &new, "/data", None),
            ("volume", &own, "/data", None),
            ("tmpfs", "", "/datalog", None),
            ("bind", file, "/opt/zoo.cfg", None),
            ("bind", "/srv/conf", "/conf", None),
            ("bind", "/srv/zoo1", "/data", Some("stores /data in /srv/zoo1 on this host")),
            ("bind", "/srv/zoo1", "/data/version-2", Some("stores /data/version-2 in /srv/zoo1 on")),
            ("bind", "/srv", "/bitnami/zookeeper", Some("stores /bitnami/zookeeper in /srv on this host")),
            ("volume", "zoodata", "/data", Some("in the volume `zoodata`")),
            ("volume", "new-name", "/data", Some("in the volume `new-name`")),
            ("volume", &old, "/data", Some("in the volume `a1a1")),
            ("volume", &device, "/data", Some("in /srv/zk (volume `zklockbench-")),
        ];
        let checked = |mount: &str| {
            let mut made = container(&[], &["2181/tcp"]);
            made.mounts = vec![serde_json::from_str(mount).unwrap()];
            check(&[made], &volumes, project, &before)
        };
        for (kind, from, to, refused) in cases {
            let mount = format!(
                r#"{{"Type": "{kind}", "Name": "{from}", "Source": "{from}", "Destination": "{to}", "RW": true}}"#
            );
            match (checked(&mount), refused) {
                (Ok(()), None) => {}
                (Err(why), Some(words)) => {
                    assert!(why.starts_with("the service `zoo1` stores ") && why.contains(words), "{why}");
                }
                (checked, _) => panic!("{mount}: {checked:?}"),
            }
            // Servers cannot change what they can only read
            assert_eq!(checked(&mount.replace("true", "false")), Ok(()), "{mount}");
        }
    }
}
