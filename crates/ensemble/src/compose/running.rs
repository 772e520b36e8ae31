//! A Compose project created for one run, and the logs of its containers.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::docker::{
    Container, NO_COMPOSE, command, docker, find_compose, inspect, inspect_now, installed_compose, run,
    stderr_in,
};
use super::member::{HOST_NETWORK, Member};
use super::mounts;
use super::project::{Project, remove_left_projects};
use crate::ports::ClaimedPorts;
use crate::state::Role;
use crate::{network, state};
use zklockbench_core::error::Error;

/// Timeout for the servers to become ready. On two otherwise idle cores, this takes 3 to 5 s.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// Interval between notes on servers that are not ready.
const NOTED_EVERY: Duration = Duration::from_secs(10);
/// Interval between checks for servers that exit during the start.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Largest number of servers, limited by the size of a port block.
const MOST: usize = 5;
/// Maximum number of address ranges to try if one is in use.
const ATTEMPTS: usize = 5;
const TAKEN: &str = "Pool overlaps";

/// An ensemble of containers, removed with its data when closed or dropped.
#[derive(Debug)]
pub struct Compose {
    pub(super) members: Vec<Member>,
    pub(super) project: Project,
    file: PathBuf,
    /// Numbers of the voting servers, known once started.
    pub(super) voters: OnceLock<Vec<usize>>,
    _ports: ClaimedPorts,
}

impl Compose {
    /// Creates the containers of a Compose file without starting them, so that their capabilities can be
    /// checked first.
    ///
    /// # Errors
    /// A usage error if the file is not a Compose file of ZooKeeper servers, or a server can write to data that is
    /// not the run's own; an environment error if Docker or an image is missing, or the daemon does not respond.
    /// Nothing is left behind, except directories that Docker creates for mounts.
    pub async fn create(file: &Path) -> Result<Self, Error> {
        readable(file)?;
        let program = find_compose().await?;
        remove_left_projects().map_err(|why| {
            Error::environment(format!("cannot remove containers that a killed run left in Docker: {why}"))
        })?;
        let path = file.to_string_lossy();
        let ports = ClaimedPorts::new(services(program, file).await?, 0)?;
        let project = Project::create()
            .map_err(|error| Error::environment(format!("cannot record a Compose project: {error}")))?;
        let before = mounts::volume_names().await.map_err(Error::environment)?;
        make(program, &path, &project, &ports).await?;
        let made = containers(&project).await.map_err(Error::environment)?;
        if made.len() > MOST {
            return Err(too_many(file, made.len()));
        }
        let volumes = mounts::volumes_of(&made).await.map_err(Error::environment)?;
        let wrong = |why: String| Error::usage(format!("{}: {why}", file.display()));
        // Before checking mounts, reject services that are not servers, because they need different advice.
        let members = Member::all_of(made.clone()).map_err(wrong)?;
        mounts::check(&made, &volumes, project.name(), &before).map_err(wrong)?;
        Ok(Self { members, project, file: file.to_path_buf(), voters: OnceLock::new(), _ports: ports })
    }

    /// Checks a Compose file without creating anything. If this machine cannot check it, returns the reason.
    ///
    /// # Errors
    /// A usage error if `file` is not a Compose file or has too many services.
    pub async fn check(file: &Path) -> Result<Option<String>, Error> {
        readable(file)?;
        match installed_compose().await {
            Some(program) => services(program, file).await.map(|_| None),
            None => Ok(Some(format!("cannot check {}: {NO_COMPOSE}", file.display()))),
        }
    }

    /// Starts the containers, and waits until the ensemble is healthy. Calls `note` with the cause of a long wait.
    pub async fn start(&self, note: &dyn Fn(&str)) -> Result<(), Error> {
        let ids: Vec<&str> = self.members.iter().map(Member::id).collect();
        let failed = |why: String| {
            Error::environment(format!("{} did not start: {why}{}", self.file.display(), remedy(&why)))
        };
        docker(&[&["start"], &ids[..]].concat()).await.map_err(failed)?;
        let ready = async {
            let deadline = Instant::now() + READY_WITHIN;
            self.learn_ports().await?;
            state::become_whole(&self.addresses(), deadline, noting(NOTED_EVERY, note)).await
        };
        let why = tokio::select! {
            ready = ready => match ready {
                Ok(()) => {
                    self.learn().await;
                    return Ok(());
                }
                Err(why) => why,
            },
            why = self.until_one_ended() => why,
        };
        let tail = self.guilty().await.log_tail().await;
        Err(Error::environment(format!("{} did not start: {why}\n{tail}", self.file.display())))
    }

    /// Waits until the host ports are known. A container that Docker is about to restart has no ports.
    async fn learn_ports(&self) -> Result<(), String> {
        let learnt = state::eventually(READY_WITHIN, || async {
            for (member, now) in self.members.iter().zip(self.look().await?) {
                let Some(binding) = now.binding() else {
                    return Err(format!("Docker has published no port of {}", member.name()));
                };
                let _ = member.bound.set(binding.clone());
            }
            Ok(())
        });
        learnt.await
    }

    /// Determines the data directories and the voters, which only running servers reveal.
    async fn learn(&self) {
        join_all(self.members.iter().map(Member::find_directories)).await;
        let roles = state::roles(&self.addresses()).await;
        let _ = self.voters.set(state::voters(&roles));
    }

    /// Returns the reason why the servers' transaction logs cannot be read; `None` if they can.
    pub fn without_logs(&self) -> Option<String> {
        self.members.iter().find_map(|member| Some(format!("{}: {}", member.name(), member.without_logs()?)))
    }

    async fn until_one_ended(&self) -> String {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if let Some(why) = self.look().await.ok().and_then(|now| self.ended_in(&now)) {
                return why;
            }
        }
    }

    /// Returns the server whose log is reported: one that exited, else one that does not answer, else server 1.
    async fn guilty(&self) -> &Member {
        let now = self.look().await.unwrap_or_default();
        let ended = self.members.iter().zip(&now).find(|(member, now)| member.ended(now).is_some());
        let roles = state::roles(&self.addresses()).await;
        let silent = self.members.iter().zip(&roles).find(|(_, role)| role.state.is_err());
        ended.map(|(member, _)| member).or(silent.map(|(member, _)| member)).unwrap_or(&self.members[0])
    }

    pub(super) async fn look(&self) -> Result<Vec<Container>, String> {
        inspect(&self.members.iter().map(Member::id).collect::<Vec<_>>()).await
    }

    pub(super) fn member(&self, number: usize) -> Result<&Member, String> {
        state::numbered(&self.members, number)
    }

    pub(super) async fn look_at(&self, number: usize) -> Result<Container, String> {
        let mut told = inspect(&[self.member(number)?.id()]).await?;
        told.pop().ok_or_else(|| format!("Docker reports nothing about server {number}"))
    }

    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(Member::address).collect()
    }

    pub fn connect(&self) -> String {
        self.addresses().join(",")
    }

    /// Returns the name of the Compose project, which `docker ps` shows as a prefix of container names.
    pub fn project(&self) -> &str {
        self.project.name()
    }

    pub fn can_be_ended(&self) -> Result<(), String> {
        self.members.iter().try_for_each(Member::can_be_ended)
    }

    pub fn can_be_isolated(&self) -> Result<(), String> {
        self.members.iter().try_for_each(Member::can_be_isolated)
    }

    pub fn placement(&self) -> String {
        self.members.first().map(Member::placement).unwrap_or_default()
    }

    pub async fn config(&self) -> Vec<(String, String)> {
        let engine = docker(&["version", "--format", "{{.Server.Version}}"]).await;
        let mut images: Vec<_> = self
            .members
            .iter()
            .map(|one| format!("{} ({})", one.made.config.image, one.made.image))
            .collect();
        images.dedup();
        let pairs = [
            ("compose file", self.file.display().to_string()),
            ("image", images.join(", ")),
            ("docker", engine.map_or_else(|_| "not known".into(), |told| told.trim().to_owned())),
            ("clients connect through", "published ports that Docker forwards".into()),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Describes a server that exited unexpectedly, if any.
    pub fn ended(&self) -> Option<String> {
        let now = inspect_now(&self.members.iter().map(Member::id).collect::<Vec<_>>());
        now.ok().and_then(|now| self.ended_in(&now))
    }

    fn ended_in(&self, now: &[Container]) -> Option<String> {
        self.members.iter().zip(now).find_map(|(member, now)| member.ended(now))
    }

    pub fn save_logs(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        for member in &self.members {
            let file = File::create(directory.join(format!("server-{}.log", member.number)))?;
            let mut logs = command(&["docker"], &["logs", member.id()]);
            logs.stdout(file.try_clone()?).stderr(file).status()?;
        }
        Ok(())
    }

    /// Removes the project even if the ensemble is still shared. If removal fails, the next run tries again.
    pub fn close(&self) -> Result<(), String> {
        self.project.remove()
    }
}

/// Returns a function that passes the servers' states to `note` at this interval.
fn noting(every: Duration, note: &dyn Fn(&str)) -> impl FnMut(&[Role]) -> Option<String> {
    let mut next = Instant::now() + every;
    move |now: &[Role]| {
        if Instant::now() >= next {
            next += every;
            note(&format!("waiting for the servers to form an ensemble ({})", state::described(now)));
        }
        None
    }
}

fn readable(file: &Path) -> Result<(), Error> {
    if !file.is_file() {
        return Err(Error::usage(format!("{}: Compose file not found", file.display())));
    }
    File::open(file).map(drop).map_err(|error| Error::usage(format!("{}: {error}", file.display())))
}

/// Returns the number of services in a Compose file, at most [`MOST`].
async fn services(program: &[&str], file: &Path) -> Result<usize, Error> {
    let services = run(command(program, &["-f", &file.to_string_lossy(), "config", "--services"])).await;
    let services = services.map_err(|why| {
        let remedy = if rejects_name(&why) { WITHOUT_NAME } else { "" };
        Error::usage(format!("{}: {why}{remedy}", file.display()))
    })?;
    let count = services.lines().count();
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // Before version 2, Compose also listed services of inactive profiles.
    let has_profiles = text.contains("profiles:");
    if count > MOST && !has_profiles {
        return Err(too_many(file, count));
    }
    if uses_host_network(&text) && !has_profiles {
        return Err(Error::usage(format!("{}: a service {HOST_NETWORK}", file.display())));
    }
    Ok(count.min(MOST))
}

fn too_many(file: &Path, services: usize) -> Error {
    Error::usage(format!(
        "{} has {services} services; the maximum is {MOST} servers: keep only ZooKeeper servers in the file",
        file.display()
    ))
}

const WITHOUT_NAME: &str = "\nRemove the top-level `name`, which docker-compose 1 does not support. Each run has its own project name";

/// Returns whether Compose rejects the top-level name of the project, as version 1 does.
fn rejects_name(why: &str) -> bool {
    let errors = ["'name' does not match any of the regexes", "Invalid top-level property \"name\""];
    errors.iter().any(|error| stderr_in(why).contains(error))
}

fn uses_host_network(text: &str) -> bool {
    let is_host = |line: &str| {
        let words = line.split(|c: char| c.is_whitespace() || matches!(c, ':' | '"' | '\''));
        let mut words = words.filter(|word| !word.is_empty());
        words.next() == Some("network_mode") && words.next() == Some("host")
    };
    text.lines().any(is_host)
}

async fn make(program: &[&str], file: &str, project: &Project, ports: &ClaimedPorts) -> Result<(), Error> {
    let mut attempt = 1;
    loop {
        let mut up = command(program, &["-p", project.name(), "-f", file, "up", "--no-start"]);
        up.envs(variables(ports));
        match run(up).await {
            Ok(_) => return Ok(()),
            Err(why) if attempt < ATTEMPTS && why.contains(TAKEN) => attempt += 1,
            Err(why) => return Err(Error::environment(format!("{why}{}", remedy(&why)))),
        }
    }
}

/// Substrings of Docker's error messages, each with a remedy.
const REMEDIES: [(&[&str], &str); 3] = [
    (
        &["port is already allocated", "address already in use"],
        "\nAnother process uses the port: write `ports: [\"2181\"]`, so that Docker chooses a free port",
    ),
    (
        &["container name"],
        "\nRemove `container_name` from the file, so that Docker names the containers after their project",
    ),
    (
        &["pull", "manifest", "registry", "image"],
        "\nIf the image is not available here, select another with ZOOKEEPER_IMAGE=…, or build one from \
         this machine's packages: scripts/base-image",
    ),
];

fn remedy(why: &str) -> &'static str {
    // Warnings contain the path of the Compose file.
    let errors = stderr_in(why).lines().filter(|line| !line.contains("level=warning"));
    let said = errors.collect::<Vec<_>>().join("\n").to_lowercase();
    let fits = |words: &[&str]| words.iter().any(|word| said.contains(word));
    REMEDIES.iter().find(|(words, _)| fits(words)).map_or("", |(_, remedy)| remedy)
}

/// Returns the variables that a Compose file can use so that several runs coexist: each server's host ports, and
/// the first three octets of the network's addresses.
fn variables(ports: &ClaimedPorts) -> Vec<(String, String)> {
    let of = |(index, ports): (usize, &crate::ports::ServerPorts)| {
        let number = index + 1;
        [
            (format!("ZOO{number}_PORT"), ports.client.to_string()),
            (format!("ZOO{number}_METRICS_PORT"), ports.quorum.to_string()),
        ]
    };
    let network = network::any_free_subnet().map(|first| {
        let [a, b, c, _] = Ipv4Addr::octets(&first);
        ("ZOOKEEPER_NETWORK".to_owned(), format!("{a}.{b}.{c}"))
    });
    ports.servers.iter().enumerate().flat_map(of).chain(network).collect()
}

async fn containers(project: &Project) -> Result<Vec<Container>, String> {
    let filter = format!("label={}", project.label());
    let ids = docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]).await?;
    let ids: Vec<&str> = ids.split_whitespace().collect();
    if ids.is_empty() {
        return Err("Compose created no containers".into());
    }
    inspect(&ids).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn remedy_ignores_warnings_and_file_names() {
        let warning = "echo 'level=warning msg=\"/srv/images/zk.yaml: `version` is obsolete\"' >&2; ";
        for (errors, expected) in [
            ("no such host", ""),
            ("manifest for zookeeper:9 not found", "ZOOKEEPER_IMAGE=…"),
            ("Bind for 0.0.0.0:2181 failed: port is already allocated", "chooses a free port"),
        ] {
            let script = format!("{warning}echo '{errors}' >&2; exit 1");
            let why = run(command(&["sh", "-c"], &[&script, "/srv/images/pull/zk.yaml"])).await.unwrap_err();
            let found = remedy(&why);
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{why}: {found}");
        }
    }

    #[tokio::test]
    async fn file_with_a_top_level_name_gets_a_remedy_if_compose_rejects_it() {
        for (errors, is_name) in [
            ("'name' does not match any of the regexes: '^x-'", true),
            ("Invalid top-level property \"name\". Valid top-level sections", true),
            ("Unsupported config option for services.zoo1: 'name'", false),
        ] {
            let why = run(command(&["sh", "-c"], &["echo \"$0\" >&2; exit 1", errors])).await.unwrap_err();
            assert_eq!(rejects_name(&why), is_name, "{why}");
        }
    }

    #[tokio::test]
    async fn long_wait_for_an_ensemble_is_reported_with_the_servers_states() {
        let address = {
            let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            closed.local_addr().unwrap().to_string()
        };
        let noted = std::cell::RefCell::new(Vec::new());
        let note = |text: &str| noted.borrow_mut().push(text.to_owned());
        for (every, count) in [(Duration::from_secs(60), 0), (Duration::ZERO, 1)] {
            let broken = noting(every, &note);
            let ready = state::become_whole(std::slice::from_ref(&address), Instant::now(), broken).await;
            assert!(ready.is_err());
            assert_eq!(noted.borrow().len(), count, "{noted:?}");
        }
        let expected = format!("waiting for the servers to form an ensemble ({address}: not known (");
        assert!(noted.borrow()[0].starts_with(&expected), "{noted:?}");
    }

    #[test]
    fn network_mode_host_is_found_in_the_text_of_a_file() {
        for (text, found) in [
            ("services:\n  zoo1:\n    network_mode: host\n", true),
            ("services:\n  zoo1:\n    network_mode: \"host\"  # fast\n", true),
            ("services:\n  zoo1:\n    # network_mode: host\n    hostname: zoo1\n", false),
            ("services:\n  zoo1:\n    network_mode: bridge\n    hostname: host\n", false),
        ] {
            assert_eq!(uses_host_network(text), found, "{text}");
        }
    }
}
