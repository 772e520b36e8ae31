//! Runs Docker and Compose commands, and parses the output of `docker inspect`.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use tracing::info;

use zklockbench_core::error::Error;

/// Client port of a server in a container, unless the container's settings name another port.
const CLIENT_PORT: u16 = 2181;
/// Variables with the client port in the official image before version 3.5, and in Bitnami's and Confluent's images.
const PORT_VARIABLES: [&str; 3] = ["ZOO_PORT", "ZOO_PORT_NUMBER", "ZOOKEEPER_CLIENT_PORT"];
/// Variables with a server's ID in the official, Bitnami's and Confluent's images.
const ID_VARIABLES: [&str; 3] = ["ZOO_MY_ID", "ZOO_SERVER_ID", "ZOOKEEPER_SERVER_ID"];
/// Variable with the configuration directory, set by the official image.
const OFFICIAL: &str = "ZOO_CONF_DIR";
/// Ports for connections between servers, the admin server and Prometheus.
const OTHER_PORTS: [u16; 4] = [2888, 3888, 8080, 7000];
const SERVICE: &str = "com.docker.compose.service";

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Container {
    pub id: String,
    pub image: String,
    /// Number of times that Docker has restarted the container since the last `docker start`.
    pub restart_count: i64,
    pub state: ContainerState,
    pub config: Config,
    pub host_config: HostConfig,
    pub mounts: Vec<Mount>,
    pub network_settings: NetworkSettings,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerState {
    /// Whether the process exists, paused or not, or Docker is about to restart it.
    pub running: bool,
    pub paused: bool,
    /// Whether the process has ended and Docker is about to restart it.
    pub restarting: bool,
    pub exit_code: i64,
    /// Whether the kernel killed the process because it used too much memory.
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Config {
    pub image: String,
    /// Environment as `NAME=value`.
    pub env: Option<Vec<String>>,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostConfig {
    /// Name of a network, or `host` for the host's own network.
    pub network_mode: String,
    pub restart_policy: RestartPolicy,
    pub tmpfs: Option<BTreeMap<String, String>>,
    /// Host ports by container port.
    pub port_bindings: Option<BTreeMap<String, Option<Vec<Binding>>>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestartPolicy {
    /// `no`, `always`, `on-failure` or `unless-stopped`; empty means `no`.
    pub name: String,
}

/// Host port published for a container's port.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Binding {
    /// Empty for all addresses.
    pub host_ip: String,
    /// Empty or 0 if Docker chooses a new port at each start.
    pub host_port: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Mount {
    /// `volume`, `bind` or `tmpfs`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Name of a volume; empty for other mounts.
    #[serde(default)]
    pub name: String,
    /// Path on the host; empty for a tmpfs.
    #[serde(default)]
    pub source: String,
    pub destination: String,
    #[serde(rename = "RW")]
    pub is_writable: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkSettings {
    pub networks: BTreeMap<String, Endpoint>,
    /// Host ports by container port, while the container runs.
    #[serde(default)]
    pub ports: Option<BTreeMap<String, Option<Vec<Binding>>>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Endpoint {
    /// Names of the container in the network.
    pub aliases: Option<Vec<String>>,
    #[serde(rename = "IPAMConfig")]
    pub asked: Option<RequestedAddress>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct RequestedAddress {
    #[serde(rename = "IPv4Address")]
    pub address: Option<String>,
}

impl Container {
    pub fn service(&self) -> &str {
        self.config.labels.get(SERVICE).map_or("", String::as_str)
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        let variables = self.config.env.iter().flatten();
        variables
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// Returns whether a path is in memory, so that its contents are lost when the container ends.
    pub fn is_in_memory(&self, path: &str) -> bool {
        let mount = self.mount_of(path);
        let depth = mount.map_or(0, |mount| mount.destination.len());
        let mut short = self.host_config.tmpfs.iter().flatten();
        // At the same path, Docker mounts the tmpfs instead of the volume.
        short.any(|(mounted, _)| mounted.len() >= depth && contains(mounted, path))
            || mount.is_some_and(|mount| mount.kind == "tmpfs")
    }

    /// Returns the innermost mount that contains a path. Docker lists mounts in any order.
    pub fn mount_of(&self, path: &str) -> Option<&Mount> {
        let mounts = self.mounts.iter().filter(|mount| contains(&mount.destination, path));
        mounts.max_by_key(|mount| mount.destination.len())
    }

    pub fn server_id(&self) -> Option<u32> {
        ID_VARIABLES.iter().find_map(|name| self.variable(name)?.parse().ok())
    }

    /// Returns the server's own entry in `ZOO_SERVERS`, e.g. `server.1=zoo1:2888:3888;2181`.
    fn own_entry(&self) -> Option<&str> {
        let start = format!("server.{}=", self.server_id().unwrap_or(1));
        let mut entries = self.variable("ZOO_SERVERS")?.split_whitespace();
        entries.find(|entry| entry.starts_with(start.as_str()))
    }

    /// Returns the server's own entry in `ZOO_SERVERS` if the entry lacks a client port and nothing else sets the
    /// port. In the official image since version 3.5, such a server has no client port.
    pub fn entry_without_port(&self) -> Option<&str> {
        let directory = self.variable(OFFICIAL)?;
        let is_set_by_variable = PORT_VARIABLES.iter().any(|name| self.variable(name).is_some());
        let is_set = is_set_by_variable || self.has_own_port(directory);
        self.own_entry().filter(|entry| !entry.contains(';') && !is_set)
    }

    /// Returns whether a configuration file in this directory, or `ZOO_CFG_EXTRA`, may set the client port.
    fn has_own_port(&self, directory: &str) -> bool {
        // The image ignores `ZOO_SERVERS` if there is a configuration file.
        let is_in_file = self
            .mounts
            .iter()
            .any(|mount| contains(&mount.destination, directory) || contains(directory, &mount.destination));
        let extra = self.variable("ZOO_CFG_EXTRA");
        is_in_file || extra.is_some_and(|extra| extra.to_lowercase().contains("clientport"))
    }

    /// Returns the client port in the container.
    pub fn client_port(&self) -> u16 {
        let named = PORT_VARIABLES.iter().filter_map(|name| self.variable(name));
        let entry = self.own_entry().and_then(|entry| entry.split_once(';'));
        let entry = entry.and_then(|(_, client)| client.rsplit(':').next());
        // Since version 3.5, the official image ignores `ZOO_PORT`.
        let named = entry.into_iter().chain(named).find_map(|port| port.parse().ok());
        named.or_else(|| self.only_published_port()).unwrap_or(CLIENT_PORT)
    }

    /// Returns the official image's client port if the image does not use its default port and only one published
    /// port qualifies.
    fn only_published_port(&self) -> Option<u16> {
        let directory = self.variable(OFFICIAL)?;
        if self.own_entry().is_none() && !self.has_own_port(directory) {
            return None;
        }
        let published = self.host_config.port_bindings.iter().flatten();
        let mut possible = published
            .filter_map(|(port, _)| port.strip_suffix("/tcp")?.parse().ok())
            .filter(|port| !OTHER_PORTS.contains(port));
        let first = possible.next()?;
        possible.next().is_none().then_some(first)
    }

    /// Returns Docker's name for the client port, e.g. `2181/tcp`.
    fn port_key(&self) -> String {
        format!("{}/tcp", self.client_port())
    }

    pub fn asked_binding(&self) -> Option<&Binding> {
        self.host_config.port_bindings.as_ref()?.get(&self.port_key())?.as_ref()?.first()
    }

    /// Returns the host port while the container runs; the IPv4 port if both IP families have one.
    pub fn binding(&self) -> Option<&Binding> {
        let bindings = self.network_settings.ports.as_ref()?.get(&self.port_key())?.as_ref()?;
        bindings.iter().find(|one| !one.host_ip.contains(':')).or(bindings.first())
    }
}

impl Mount {
    /// Returns the directory on the host; for a volume, the parent of all volumes, because volume names are random.
    pub fn shared_directory(&self) -> &Path {
        let source = Path::new(&self.source);
        let volumes = source.ancestors().nth(2).filter(|_| self.kind == "volume");
        volumes.unwrap_or(source)
    }
}

impl Binding {
    /// Returns the address at which this host reaches the port, as `host:port`.
    pub fn address(&self) -> String {
        let port = &self.host_port;
        match self.host_ip.as_str() {
            "" | "0.0.0.0" => format!("127.0.0.1:{port}"),
            "::" => format!("[::1]:{port}"),
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        }
    }

    /// Returns whether the port survives a restart of the container. Docker may choose a new port from a range.
    pub fn stays(&self) -> bool {
        self.host_port.parse::<u16>().is_ok_and(|port| port > 0)
    }
}

fn contains(directory: &str, path: &str) -> bool {
    Path::new(path).starts_with(directory)
}

pub async fn inspect(ids: &[&str]) -> Result<Vec<Container>, String> {
    parse(&docker(&[&["container", "inspect"], ids].concat()).await?)
}

pub fn inspect_now(ids: &[&str]) -> Result<Vec<Container>, String> {
    parse(&docker_now(&[&["container", "inspect"], ids].concat())?)
}

fn parse(told: &str) -> Result<Vec<Container>, String> {
    serde_json::from_str(told)
        .map_err(|error| format!("cannot parse the output of `docker container inspect`: {error}"))
}

/// The Compose plugin, and the separate program used before version 2.
const COMPOSE: [&[&str]; 2] = [&["docker", "compose"], &["docker-compose"]];

/// Runs `docker` and returns its stdout. Dropping the future kills the command.
pub async fn docker(arguments: &[&str]) -> Result<String, String> {
    run(command(&["docker"], arguments)).await
}

/// Blocking version of [`docker`], for use in `drop`.
pub fn docker_now(arguments: &[&str]) -> Result<String, String> {
    let mut command = command(&["docker"], arguments);
    info!("running {command:?}");
    let output = command.output();
    said(&command, output)
}

/// Builds a command that runs in its own process group, so that Ctrl-C cannot leave a half-created project behind.
pub fn command(program: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// Runs a command and returns its stdout. Dropping the future kills the command.
pub async fn run(command: Command) -> Result<String, String> {
    info!("running {command:?}");
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output().await;
    said(command.as_std(), output)
}

pub async fn find_compose() -> Result<&'static [&'static str], Error> {
    docker(&["version", "--format", "{{.Server.Version}}"]).await.map_err(|why| {
        Error::environment(format!(
            "a Compose ensemble needs Docker, but the Docker daemon does not respond: {why}"
        ))
    })?;
    installed_compose().await.ok_or_else(|| Error::environment(NO_COMPOSE))
}

pub const NO_COMPOSE: &str = "neither `docker compose` nor `docker-compose` is installed. Install Docker's Compose plugin \
                              (Debian, Ubuntu: apt-get install -y docker-compose)";

/// Returns the Compose command, if installed. Does not need Docker's daemon.
pub async fn installed_compose() -> Option<&'static [&'static str]> {
    for program in COMPOSE {
        if run(command(program, &["version"])).await.is_ok() {
            return Some(program);
        }
    }
    None
}

fn said(command: &Command, output: std::io::Result<Output>) -> Result<String, String> {
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = std::iter::once(command.get_program().to_string_lossy()).chain(arguments).collect();
    let words = words.join(" ");
    let output = output.map_err(|error| {
        format!("cannot run `{words}`: {error}. Install Docker (Debian: apt-get install -y docker.io)")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("`{words}{FAILED}{}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// Text between the command and its exit status in the error of [`run`].
const FAILED: &str = "` failed (";

/// Extracts the command's stderr from an error of [`run`]. The rest of the error contains file names, which could be
/// mistaken for messages.
pub fn stderr_in(why: &str) -> &str {
    let status = why.split_once(FAILED).and_then(|(_, rest)| rest.split_once("): "));
    status.map_or("", |(_, stderr)| stderr)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Abridged output of Docker 20.10 for a container that Compose created but did not start.
    const TOLD: &str = r#"[{"Id": "8427ff", "Image": "sha256:c430", "RestartCount": 0,
        "State": {"Status": "created", "Running": false, "Paused": false, "Restarting": false,
            "OOMKilled": false, "ExitCode": 0},
        "Config": {"Image": "zookeeper:3.9", "Env": ["ZOO_MY_ID=1", "ZOO_CFG_EXTRA=a=1 b=2"],
            "Labels": {"com.docker.compose.service": "zoo1"}},
        "HostConfig": {"NetworkMode": "x_default", "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "Tmpfs": {"/datalog": ""}, "PortBindings": {"2181/tcp": [{"HostIp": "127.0.0.1", "HostPort": "21831"}]}},
        "Mounts": [{"Type": "volume", "Name": "0123", "Source": "/docker/volumes/0123/_data",
            "Destination": "/data", "Mode": "", "RW": true}],
        "NetworkSettings": {"Ports": {}, "Networks": {"x_default": {
            "IPAMConfig": {"IPv4Address": "172.28.213.11"}, "Aliases": ["zoo1", "8427ff"]}}}}]"#;

    /// Returns a container that has these variables and publishes these ports.
    pub fn container(variables: &[&str], ports: &[&str]) -> Container {
        let binding = r#"[{"HostIp": "127.0.0.1", "HostPort": "21831"}]"#;
        let ports: Vec<String> = ports.iter().map(|port| format!(r#""{port}": {binding}"#)).collect();
        let variables = serde_json::to_string(variables).unwrap();
        let told = TOLD.replace(r#"["ZOO_MY_ID=1", "ZOO_CFG_EXTRA=a=1 b=2"]"#, &variables);
        parse(&told.replace(&format!(r#""2181/tcp": {binding}"#), &ports.join(", "))).unwrap().remove(0)
    }

    #[test]
    fn container_that_has_not_started_is_parsed() {
        let container = parse(TOLD).unwrap().remove(0);
        assert_eq!(container.service(), "zoo1");
        assert_eq!(container.variable("ZOO_CFG_EXTRA"), Some("a=1 b=2"));
        assert_eq!(container.variable("ZOO_CFG"), None);
        let asked = container.asked_binding().unwrap();
        assert!(asked.stays());
        assert_eq!(asked.address(), "127.0.0.1:21831");
        assert!(container.is_in_memory("/datalog/version-2") && !container.is_in_memory("/data"));
        let mount = container.mount_of("/data").unwrap();
        assert_eq!(mount.shared_directory(), Path::new("/docker/volumes"));
        assert!(container.mount_of("/datalog").is_none());
    }

    #[test]
    fn innermost_mount_determines_whether_a_path_is_in_memory() {
        let mut made = parse(TOLD).unwrap().remove(0);
        let mount = |kind: &str, destination: &str, outer: &Mount| Mount {
            kind: kind.into(),
            destination: destination.into(),
            ..outer.clone()
        };
        let inner =
            [mount("tmpfs", "/data/zk", &made.mounts[0]), mount("volume", "/datalog/zk", &made.mounts[0])];
        made.mounts.extend(inner);
        let short = made.host_config.tmpfs.get_or_insert_default();
        short.insert("/both".into(), String::new());
        made.mounts.push(mount("volume", "/both", &made.mounts[0]));
        let in_memory =
            ["/data", "/data/zk/log", "/datalog", "/datalog/zk", "/both"].map(|path| made.is_in_memory(path));
        assert_eq!(in_memory, [false, true, true, false, true]);
    }

    #[test]
    fn port_chosen_by_docker_is_known_while_the_container_runs() {
        let told = |asked: &str, published: &str| {
            let told = TOLD.replace(r#"[{"HostIp": "127.0.0.1", "HostPort": "21831"}]"#, asked);
            parse(&told.replace(r#""Ports": {}"#, &format!(r#""Ports": {{"2181/tcp": {published}}}"#)))
                .unwrap()
                .remove(0)
        };
        let any = r#"[{"HostIp": "", "HostPort": ""}]"#;
        let range = r#"[{"HostIp": "", "HostPort": "2181-2183"}]"#;
        let fixed = r#"[{"HostIp": "::1", "HostPort": "2181"}]"#;
        let chosen = r#"[{"HostIp": "::", "HostPort": "32769"}, {"HostIp": "0.0.0.0", "HostPort": "32768"}]"#;
        for (asked, published, stays, address) in [
            (any, chosen, false, "127.0.0.1:32768"),
            (range, r#"[{"HostIp": "0.0.0.0", "HostPort": "2182"}]"#, false, "127.0.0.1:2182"),
            (fixed, fixed, true, "[::1]:2181"),
        ] {
            let container = told(asked, published);
            assert_eq!(container.asked_binding().unwrap().stays(), stays, "{asked}");
            assert_eq!(container.binding().unwrap().address(), address, "{published}");
        }
        assert!(told(any, "null").binding().is_none());
    }

    #[test]
    fn client_port_is_read_from_variables_or_published_ports() {
        let servers =
            "ZOO_SERVERS=server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888:observer;0.0.0.0:2182";
        let official = "ZOO_CONF_DIR=/conf";
        let extra = "ZOO_CFG_EXTRA=clientPort=2183";
        let cases: [(&[&str], &[&str], u16); 8] = [
            (&["ZOO_PORT_NUMBER=2185"], &["2181/tcp", "2185/tcp"], 2185),
            (&["ZOO_MY_ID=1", servers], &["2182/tcp"], 2181),
            (&["ZOO_MY_ID=2", servers], &["2182/tcp"], 2182),
            (&["ZOO_MY_ID=2", "ZOO_PORT=2181", servers], &["2182/tcp"], 2182),
            (&[official, extra], &["2183/tcp", "2183/udp", "7000/tcp", "8080/tcp"], 2183),
            (&[official, extra], &["2183/tcp", "2184/tcp"], 2181),
            // Only a port for JMX
            (&[official], &["9010/tcp"], 2181),
            // A service that is not a ZooKeeper server
            (&[], &["9092/tcp"], 2181),
        ];
        for (variables, ports, found) in cases {
            assert_eq!(container(variables, ports).client_port(), found, "{variables:?} {ports:?}");
        }
        let mut configured = container(&[official], &["2185/tcp"]);
        configured.mounts[0].destination = "/conf/zoo.cfg".into();
        assert_eq!(configured.client_port(), 2185);
    }

    #[test]
    fn output_that_is_not_a_list_of_containers_is_an_error() {
        assert!(parse("{}").unwrap_err().contains("docker container inspect"));
    }

    #[tokio::test]
    async fn error_of_a_failed_command_contains_its_stderr_or_an_install_hint() {
        let why = run(command(&["sh", "-c"], &["echo no >&2; exit 7"])).await.unwrap_err();
        assert!(why.contains("`sh -c echo no >&2; exit 7` failed") && why.ends_with(": no"), "{why}");
        let why = run(command(&["zklockbench-no-such-program"], &["x"])).await.unwrap_err();
        assert!(why.contains("cannot run `zklockbench-no-such-program x`"), "{why}");
        assert!(why.contains("Install"), "{why}");
    }

    #[tokio::test]
    async fn dropping_the_future_kills_the_command() {
        let mark = tempfile::NamedTempFile::new().unwrap();
        let script = format!("echo $$ >{}; exec sleep 600", mark.path().display());
        let pid = || std::fs::read_to_string(mark.path()).unwrap().trim().to_owned();
        let pause = || tokio::time::sleep(std::time::Duration::from_millis(5));
        let started = async {
            while pid().is_empty() {
                pause().await;
            }
        };
        tokio::select! {
            ended = run(command(&["sh", "-c"], &[&script])) => panic!("{ended:?}"),
            () = started => {}
        }
        // The command line of a process that has ended is empty or missing.
        let line = format!("/proc/{}/cmdline", pid());
        let killed = async {
            while std::fs::read(&line).is_ok_and(|line| !line.is_empty()) {
                pause().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), killed).await.expect("still running");
    }
}
