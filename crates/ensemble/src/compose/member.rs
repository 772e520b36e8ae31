//! A server of a Compose ensemble: its container and its fixed properties.

use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::docker::{Binding, Container, docker};
use crate::directory::describe_placement;

const LOG_LINES: &str = "8";
/// End of a message about a service without its own network.
pub const HOST_NETWORK: &str = "uses `network_mode: host`, for which Docker publishes no ports: start the servers with \
                                `docker compose up -d`, and run with --connect 127.0.0.1:PORT";

#[derive(Debug)]
pub struct Member {
    /// Server number, from 1.
    pub number: usize,
    pub made: Container,
    /// Host port, known once the server has started.
    pub bound: OnceLock<Binding>,
    /// Directories from the server's configuration, known once the server has started.
    directories: OnceLock<Result<Directories, String>>,
    /// Whether the server is down on purpose; if so, its exit is not reported.
    pub meant_down: AtomicBool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Directories {
    data: String,
    log: String,
}

/// Shell command that prints the configuration file named on the server's command line.
const CONFIGURATION: &str = "cat \"$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' \
                             | grep -m 1 -E '^[^-].*[.](cfg|properties)$')\"";

impl Directories {
    fn parse(configuration: &str) -> Option<Self> {
        let value = |key| {
            let of = |line: &str| {
                Some(line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?.trim().to_owned())
            };
            configuration.lines().find_map(of)
        };
        let data = value("dataDir")?;
        let log = value("dataLogDir").filter(|log| !log.is_empty());
        Some(Self { log: log.unwrap_or_else(|| data.clone()), data })
    }
}

/// A container's network, address and aliases, restored when the container rejoins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkAttachment {
    pub network: String,
    pub address: Ipv4Addr,
    /// Names of the container in the network.
    pub aliases: Vec<String>,
}

impl Member {
    /// Returns the servers, sorted by ID (`ZOO_MY_ID`).
    pub fn all_of(mut made: Vec<Container>) -> Result<Vec<Self>, String> {
        made.iter().try_for_each(can_be_reached)?;
        made.sort_by_key(|one| (one.server_id().unwrap_or(u32::MAX), one.service().to_owned()));
        let numbered = made.into_iter().enumerate();
        Ok(numbered
            .map(|(index, made)| Self {
                number: index + 1,
                made,
                bound: OnceLock::new(),
                directories: OnceLock::new(),
                meant_down: AtomicBool::new(false),
            })
            .collect())
    }

    pub fn id(&self) -> &str {
        &self.made.id
    }

    /// Returns a display name, e.g. `server 2 (zoo2)`.
    pub fn name(&self) -> String {
        format!("server {} ({})", self.number, self.made.service())
    }

    /// Returns the client address at which this host reaches the server, as `host:port`.
    pub fn address(&self) -> String {
        self.bound.get().or(self.made.asked_binding()).map(Binding::address).unwrap_or_default()
    }

    /// Reads the directories from the server's configuration, which works with every image.
    pub async fn find_directories(&self) {
        let told = docker(&["exec", self.id(), "sh", "-c", CONFIGURATION]).await;
        let found = told.ok().and_then(|told| Directories::parse(&told));
        let found = found
            .ok_or_else(|| "no configuration file with a `dataDir` was found in its container".to_owned());
        // Only the first result is kept.
        let _ = self.directories.set(found);
    }

    fn directories(&self) -> Option<&Directories> {
        self.directories.get()?.as_ref().ok()
    }

    /// Returns the reason why the transaction logs cannot be copied from the container; `None` if they can.
    pub fn without_logs(&self) -> Option<String> {
        if let Some(Err(why)) = self.directories.get() {
            return Some(why.clone());
        }
        let directory = self.log_dir();
        self.made
            .is_in_memory(directory)
            .then(|| format!("{directory} is in memory, and Docker cannot copy from there"))
    }

    /// Returns the container's directory for transaction logs, or the official image's default if the
    /// container has not started.
    pub fn log_dir(&self) -> &str {
        let official = || self.made.variable("ZOO_DATA_LOG_DIR").unwrap_or("/datalog");
        self.directories().map_or_else(official, |directories| &directories.log)
    }

    /// Returns the container's directory for snapshots and `myid`, or the official image's default if the
    /// container has not started.
    pub fn data_dir(&self) -> &str {
        let official = || self.made.variable("ZOO_DATA_DIR").unwrap_or("/data");
        self.directories().map_or_else(official, |directories| &directories.data)
    }

    /// Describes the file system of the transaction logs, and the cost of fsync there.
    pub fn placement(&self) -> String {
        let directory = self.log_dir();
        if self.made.is_in_memory(directory) {
            return format!("tmpfs ({directory} in each container): in memory, fsync costs nothing");
        }
        match self.made.mount_of(directory) {
            Some(mount) => format!("Docker volumes; {}", describe_placement(mount.shared_directory())),
            None => "the containers' writable layers".into(),
        }
    }

    /// Checks that the container can be stopped and keeps its data and port when restarted.
    pub fn can_be_ended(&self) -> Result<(), String> {
        let service = self.made.service();
        let policy = &self.made.host_config.restart_policy.name;
        if !matches!(policy.as_str(), "" | "no") {
            return Err(format!(
                "Docker restarts the service `{service}` automatically (`restart: {policy}`), which would undo \
                 faults: set `restart: \"no\"`"
            ));
        }
        let in_memory =
            [self.log_dir(), self.data_dir()].into_iter().find(|path| self.made.is_in_memory(path));
        if let Some(path) = in_memory {
            return Err(format!(
                "the service `{service}` has {path} in memory (tmpfs), which Docker discards with the container, so \
                 a killed server would lose its data: use a volume"
            ));
        }
        self.keeps_its_port()
    }

    /// Checks that the container can be disconnected from its network and reconnected with the same address.
    pub fn can_be_isolated(&self) -> Result<(), String> {
        self.place()?;
        self.keeps_its_port()
    }

    fn keeps_its_port(&self) -> Result<(), String> {
        if self.made.asked_binding().is_some_and(super::docker::Binding::stays) {
            return Ok(());
        }
        let number = self.made.client_port();
        Err(format!(
            "Docker publishes port {number} of the service `{}` under a different number at each start: \
             write `ports: [\"127.0.0.1:PORT:{number}\"]` with a single number",
            self.made.service()
        ))
    }

    pub fn place(&self) -> Result<NetworkAttachment, String> {
        let service = self.made.service();
        let networks: Vec<_> = self.made.network_settings.networks.iter().collect();
        let [(network, endpoint)] = networks[..] else {
            return Err(format!(
                "the service `{service}` is in {} networks: attach it to only one",
                networks.len()
            ));
        };
        let asked = endpoint.asked.as_ref().and_then(|asked| asked.address.as_ref()?.parse().ok());
        let address = asked.ok_or_else(|| {
            format!(
                "the service `{service}` has no fixed address, so Docker would reconnect it with a different \
                 one: give it an `ipv4_address` in a network with a `subnet`"
            )
        })?;
        // Docker itself restores the alias that is a prefix of the ID.
        let names = endpoint.aliases.iter().flatten().filter(|alias| !self.id().starts_with(*alias));
        let aliases = names.cloned().chain([service.to_owned()]).collect::<std::collections::BTreeSet<_>>();
        Ok(NetworkAttachment { network: network.clone(), address, aliases: aliases.into_iter().collect() })
    }

    pub fn mean_down(&self, down: bool) {
        self.meant_down.store(down, Ordering::Release);
    }

    /// Describes the exit of the server if `now` shows that the server exited unexpectedly. Docker may have
    /// restarted it.
    pub fn ended(&self, now: &Container) -> Option<String> {
        let (state, name) = (&now.state, self.name());
        let has_ended = !state.running || now.restart_count > 0;
        if !has_ended || self.meant_down.load(Ordering::Acquire) {
            return None;
        }
        let why = if state.oom_killed { ", out of memory" } else { "" };
        let exit = format!("exit code {}{why}", state.exit_code);
        Some(match (state.running, state.restarting) {
            (false, _) => format!("{name} ended ({exit})"),
            (true, true) => format!("{name} ended ({exit}), and Docker is restarting it"),
            // Docker reports the exit code only until the restart.
            (true, false) => format!("{name} ended, and Docker restarted it"),
        })
    }

    pub async fn log_tail(&self) -> String {
        // `docker logs` writes a container's stderr to its own stderr.
        let mut command = super::docker::command(&["docker"], &["logs", "--tail", LOG_LINES, self.id()]);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let Ok(Ok(output)) = output else { return "its log cannot be read".into() };
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).trim_end().replace('\n', "\n  ");
        format!("the end of the log of {}:\n  {text}", self.name())
    }
}

/// Checks that clients on this host can reach the server, as far as its settings show.
fn can_be_reached(made: &Container) -> Result<(), String> {
    let (service, number) = (made.service(), made.client_port());
    if made.host_config.network_mode == "host" {
        return Err(format!("the service `{service}` {HOST_NETWORK}"));
    }
    if let Some(entry) = made.entry_without_port() {
        return Err(format!(
            "the service `{service}` has no client port: since ZooKeeper 3.5, each entry of ZOO_SERVERS ends with \
             the port. Write `{entry};{number}`"
        ));
    }
    if made.asked_binding().is_none() {
        return Err(format!(
            "the service `{service}` does not publish port {number}/tcp: it is not a ZooKeeper server, or \
             clients cannot reach it. A Compose file for the suite may contain only servers, each with `ports: \
             [\"{number}\"]` or `ports: [\"127.0.0.1:PORT:{number}\"]`; move other services into a profile \
             (`profiles: [\"other\"]`)"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::docker::tests::container;
    use super::*;

    fn refused(made: Container) -> String {
        Member::all_of(vec![made]).unwrap_err()
    }

    #[test]
    fn zoo_servers_entry_without_a_client_port_is_rejected() {
        let entry = "ZOO_SERVERS=server.1=zoo1:2888:3888";
        let variables = ["ZOO_CONF_DIR=/conf", "ZOO_MY_ID=1", entry];
        let why = refused(container(&variables, &["2182/tcp"]));
        assert!(why.ends_with("Write `server.1=zoo1:2888:3888;2182`"), "{why}");
        // Other variables or a configuration file can set the port, too
        for other in ["ZOO_PORT=2181", "ZOO_CFG_EXTRA=tickTime=500 clientPort=2181"] {
            let variables = [&variables[..], &[other]].concat();
            assert!(Member::all_of(vec![container(&variables, &["2181/tcp"])]).is_ok(), "{other}");
        }
        let mut configured = container(&variables, &["2181/tcp"]);
        configured.mounts[0].destination = "/conf/zoo.cfg".into();
        assert!(Member::all_of(vec![configured]).is_ok());
    }

    #[test]
    fn unpublished_client_port_is_rejected_with_the_line_to_write() {
        let variables = ["ZOO_MY_ID=1", "ZOO_SERVERS=server.1=zoo1:2888:3888;2182"];
        let why = refused(container(&variables, &["2181/tcp"]));
        assert!(why.contains("does not publish port 2182/tcp"), "{why}");
        assert!(why.contains(r#"`ports: ["2182"]`"#), "{why}");
        let mut on_host = container(&[], &[]);
        on_host.host_config.network_mode = "host".into();
        let why = refused(on_host);
        assert!(!why.contains("ports: [") && why.contains("--connect 127.0.0.1:PORT"), "{why}");
    }

    #[test]
    fn server_that_docker_restarts_counts_as_ended() {
        let member = Member::all_of(vec![container(&[], &["2181/tcp"])]).unwrap().remove(0);
        let mut now = member.made.clone();
        now.state.running = true;
        assert_eq!(member.ended(&now), None);
        now.restart_count = 1;
        assert_eq!(member.ended(&now).unwrap(), "server 1 (zoo1) ended, and Docker restarted it");
        now.state.restarting = true;
        now.state.exit_code = 4;
        let restarts = "server 1 (zoo1) ended (exit code 4), and Docker is restarting it";
        assert_eq!(member.ended(&now).unwrap(), restarts);
        member.mean_down(true);
        assert_eq!(member.ended(&now), None);
    }

    #[test]
    fn directories_are_read_from_the_server_configuration() {
        let of = |data: &str, log: &str| Some(Directories { data: data.into(), log: log.into() });
        for (configuration, found) in [
            ("dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\n", of("/data", "/datalog")),
            (
                "tickTime=2000\n dataDir = /bitnami/zookeeper/data\n",
                of("/bitnami/zookeeper/data", "/bitnami/zookeeper/data"),
            ),
            ("dataDir=/d\ndataLogDir=\n", of("/d", "/d")),
            ("#dataDir=/d\nclientPort=2181\n", None),
        ] {
            assert_eq!(Directories::parse(configuration), found, "{configuration}");
        }
    }
}
