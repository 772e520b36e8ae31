//! An external ensemble: its connect string and its servers. Faults run the user's own commands, such as `ssh
//! zk1 systemctl kill -s KILL zookeeper`, and are verified through the servers' client ports.
//!
//! The commands come from a file passed on the command line, never from scenarios, whose authors may be
//! untrusted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::fault;
use super::processes::Processes;
use super::state::{self, Done, Fact, Numbered, answers_nothing, eventually};
use zklockbench_core::catalog::fault::{FaultChoice, Target};
use zklockbench_core::connect::{Connect, FORM};
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;
use zklockbench_core::units::{counted, one_line, shown};
use zklockbench_zk::reach;

/// Parses the connect string of an external ensemble: `host:port,host:port/chroot`.
pub fn parse_connect(connect: &str) -> Result<Connect, Error> {
    Connect::parse(connect)
        .map_err(|wrong| Error::usage(format!("{}: {wrong}. Write {FORM}", source_of_connect(connect))))
}

/// Environment variable with the connect string to use if no option specifies an ensemble.
pub const CONNECT_VARIABLE: &str = "ZKLOCKBENCH_CONNECT";

/// Returns the name of the option or variable that contains this connect string.
pub fn source_of_connect(connect: &str) -> &'static str {
    let is_variable = std::env::var(CONNECT_VARIABLE).is_ok_and(|variable| variable == connect);
    if is_variable { CONNECT_VARIABLE } else { "--connect" }
}

/// Checks that at least one server of the connect string is listening.
pub async fn reach_servers(of: &Connect) -> Result<(), Error> {
    reach::listens(&of.addresses)
        .await
        .map_err(|why| Error::environment(format!("cannot connect to {}: {why}", of.text())))
}

/// Returns the top-level node of a path below the chroot. Servers keep metrics per top-level node.
pub fn namespace_of(chroot: &str, top: &str) -> String {
    let whole = format!("{chroot}{top}");
    whole.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Kill,
    Stop,
    Start,
    Pause,
    Resume,
    Wipe,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl Action {
    /// Returns a line for the file, with the command for a server that systemd runs on this host.
    fn example(self, address: &str) -> String {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let command = match self {
            Self::Kill => "systemctl kill --signal=KILL zookeeper",
            Self::Stop => "systemctl stop zookeeper",
            Self::Start => "systemctl start zookeeper",
            Self::Pause => "pkill -STOP -f QuorumPeerMain",
            Self::Resume => "pkill -CONT -f QuorumPeerMain",
            Self::Wipe => "find /var/lib/zookeeper -mindepth 1 -not -name myid -delete",
        };
        format!("{self} = \"ssh {host} sudo {command}\"")
    }
}

/// Returns the actions that a fault on servers needs; `None` if commands cannot inject the fault.
fn actions_of(kind: &str) -> Option<&'static [Action]> {
    use Action::{Kill, Pause, Resume, Start, Stop, Wipe};
    let actions: &'static [Action] = match kind {
        "kill" | "lose-majority" => &[Kill, Start],
        "restart" | "rolling-restart" => &[Stop, Start],
        "pause" => &[Pause, Resume],
        "wipe" => &[Kill, Wipe, Start],
        _ => return None,
    };
    Some(actions)
}

/// Shell command lines for one server.
type Commands = BTreeMap<Action, String>;

/// Returns the first action that has a command although its inverse has none, together with the inverse.
fn without_a_way_back(commands: &Commands) -> Option<(Action, Action)> {
    use Action::{Kill, Pause, Resume, Start, Stop, Wipe};
    let pairs = [(Kill, Start), (Stop, Start), (Wipe, Start), (Pause, Resume)];
    pairs.into_iter().find(|(done, undone)| commands.contains_key(done) && !commands.contains_key(undone))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsFile {
    hosts: BTreeMap<String, Commands>,
}

#[derive(Debug)]
pub struct Hosts {
    /// Addresses as listed in the connect string; server 1 is the first.
    addresses: Vec<String>,
    commands: Vec<Commands>,
    paused: Mutex<BTreeSet<usize>>,
    /// Numbers of the voting servers, known once the ensemble has been healthy.
    voters: OnceLock<Vec<usize>>,
}

const COMMAND_WITHIN: Duration = Duration::from_secs(60);
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// Timeout for the ensemble to become healthy, long enough for an election in progress.
const HEALTHY_WITHIN: Duration = Duration::from_secs(10);
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

impl Hosts {
    pub fn read(file: &Path, addresses: &[String]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::usage(format!("{}: {what}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
        let read: HostsFile = toml::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let mut commands = vec![Commands::default(); addresses.len()];
        for (name, own) in read.hosts {
            let number = name.strip_prefix("server-").and_then(|number| number.parse::<usize>().ok());
            // Another form of a number, such as 01, would be a second name for a server.
            let number = number.filter(|number| name == format!("server-{number}"));
            let place = number.and_then(|number| commands.get_mut(number.checked_sub(1)?));
            let Some(place) = place else {
                let servers = counted(addresses.len(), "server", "servers");
                return Err(wrong(&format!(
                    "[hosts.{}] is not a server: the connect string lists {servers}, server-1 to server-{} \
                     ({})",
                    shown(&name, 40),
                    addresses.len(),
                    shown(&addresses.join(", "), 200)
                )));
            };
            if let Some((action, _)) = own.iter().find(|(_, command)| command.trim().is_empty()) {
                return Err(wrong(&format!(
                    "[hosts.{name}] `{action}` is empty: write a shell command, or remove the line"
                )));
            }
            if let Some((done, undone)) = without_a_way_back(&own) {
                return Err(wrong(&format!(
                    "[hosts.{name}] has `{done}` but no `{undone}`: every command that breaks a server \
                     needs its counterpart"
                )));
            }
            *place = own;
        }
        Ok(Self {
            addresses: addresses.to_vec(),
            commands,
            paused: Mutex::default(),
            voters: OnceLock::new(),
        })
    }

    /// Checks that every server that the fault may hit has the commands for it.
    pub fn check_fault(&self, choice: &FaultChoice) -> Result<(), String> {
        if !fault::reaches_servers(&choice.kind) {
            return Ok(());
        }
        let Some(actions) = actions_of(&choice.kind) else {
            return Err("commands cannot inject it: remove the fault".into());
        };
        let may_be_hit = |server: usize| match choice.target {
            Target::Server(number) => server == number,
            Target::Word(_) | Target::Contender(_) | Target::Fixed => true,
        };
        for ((server, own), address) in (1..).zip(&self.commands).zip(&self.addresses) {
            let missing = actions.iter().find(|action| !own.contains_key(*action));
            if let Some(action) = missing.filter(|_| may_be_hit(server)) {
                let line = action.example(address);
                return Err(format!("[hosts.server-{server}] has no `{action}`: add a line such as {line}"));
            }
        }
        Ok(())
    }

    /// Checks that the ensemble is healthy, and records its voters.
    pub async fn check(&self) -> Result<(), Error> {
        self.is_healthy(HEALTHY_WITHIN).await?;
        let roles = state::roles(&self.addresses).await;
        if let [only] = roles.as_slice()
            && only.is("leader")
            && only.hides_counters()
        {
            // The followers of this leader, if any, are not in the connect string.
            return Err(Error::environment(format!(
                "{} is a leader and does not report its followers: list all servers, or allow `mntr`",
                only.address
            )));
        }
        let _ = self.voters.set(state::voters(&roles));
        Ok(())
    }

    async fn is_healthy(&self, within: Duration) -> Result<(), Error> {
        eventually(within, || self.whole()).await.map(drop).map_err(|why| {
            Error::environment(format!(
                "refusing to inject faults into an ensemble that is not healthy: {why}"
            ))
        })
    }

    async fn run(&self, action: Action, server: usize) -> Done {
        self.address(server)?;
        let Some(command) = self.commands[server - 1].get(&action) else {
            return Err(format!("[hosts.server-{server}] has no `{action}`"));
        };
        let failed = |why: String| format!("`{}` ({action} of server {server}): {why}", shown(command, 200));
        let ended = tokio::time::timeout(COMMAND_WITHIN, run_shell(command)).await;
        let (status, stderr) = ended
            .map_err(|_| failed(format!("it did not finish within {COMMAND_WITHIN:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        Err(failed(format!("{status}: {}", shown(&one_line(stderr.trim()), 300))))
    }

    fn holds_still(&self, server: usize, is_still: bool) {
        let mut paused = locked(&self.paused);
        let _ = if is_still { paused.insert(server) } else { paused.remove(&server) };
    }

    async fn connects(&self, server: usize) -> io::Result<()> {
        let address = self.address(server).map_err(io::Error::other)?;
        match tokio::time::timeout(CONNECTS_WITHIN, TcpStream::connect(address)).await {
            Ok(connected) => connected.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Runs a shell command, and returns its status and the start of its stderr. Stderr goes to a file: a server that the
/// command leaves in the background would keep a pipe open.
async fn run_shell(command: &str) -> io::Result<(ExitStatus, String)> {
    let stderr = tempfile::tempfile()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
    let status = shell.kill_on_drop(true).status().await?;
    let mut text = vec![0; 1_000];
    let length = stderr.read_at(&mut text, 0)?;
    Ok((status, String::from_utf8_lossy(&text[..length]).into_owned()))
}

#[async_trait]
impl Processes for Hosts {
    fn servers(&self) -> usize {
        self.addresses.len()
    }

    fn address(&self, server: usize) -> Result<String, String> {
        let address = server.checked_sub(1).and_then(|at| self.addresses.get(at));
        address.cloned().ok_or_else(|| format!("there is no server {server}"))
    }

    fn voters(&self) -> Vec<usize> {
        self.voters.get().cloned().unwrap_or_else(|| (1..=self.servers()).collect())
    }

    /// Includes servers that may be down, because only a request could reveal that.
    async fn awake(&self) -> Result<Vec<Numbered>, String> {
        let paused = locked(&self.paused);
        let numbered = self.addresses.iter().zip(1..).filter(|(_, number)| !paused.contains(number));
        Ok(numbered.map(|(address, number)| Numbered { number, address: address.clone() }).collect())
    }

    async fn kill(&self, server: usize) -> Done {
        self.run(Action::Kill, server).await?;
        eventually(SEEN_WITHIN, || self.is_down(server)).await.map(drop)
    }

    async fn stop(&self, server: usize) -> Done {
        self.run(Action::Stop, server).await?;
        eventually(SEEN_WITHIN, || self.is_down(server)).await.map(drop)
    }

    async fn start(&self, server: usize) -> Done {
        self.run(Action::Start, server).await?;
        // The server may have been paused when it was killed.
        self.holds_still(server, false);
        let listens = || async { self.connects(server).await.map_err(|error| error.to_string()) };
        eventually(SEEN_WITHIN, listens).await
    }

    async fn pause(&self, server: usize) -> Done {
        // Mark the server as paused before running the command, so that an interrupted pause is healed, too.
        self.holds_still(server, true);
        self.run(Action::Pause, server).await?;
        eventually(SEEN_WITHIN, || self.is_silent(server)).await.map(drop)
    }

    async fn resume(&self, server: usize) -> Done {
        if !locked(&self.paused).contains(&server) {
            // A server that was never paused needs no `resume` command.
            return Ok(());
        }
        self.run(Action::Resume, server).await?;
        let goes_on = || async {
            match self.is_silent(server).await {
                Ok(silent) => Err(silent),
                Err(_) => Ok(()),
            }
        };
        eventually(SEEN_WITHIN, goes_on).await?;
        self.holds_still(server, false);
        Ok(())
    }

    async fn wipe(&self, server: usize) -> Done {
        self.run(Action::Wipe, server).await
    }

    async fn is_running(&self, server: usize) -> bool {
        // A paused process counts as running, because the kernel still accepts its connections.
        self.connects(server).await.is_ok()
    }

    async fn is_down(&self, server: usize) -> Fact {
        let address = self.address(server)?;
        match self.connects(server).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Ok(format!("{address} refuses connections"))
            }
            // The DNS name of a Kubernetes pod disappears with the pod.
            Err(error) if state::is_gone(&error) => Ok(format!("{address} no longer resolves ({error})")),
            // An unreachable host cannot be distinguished from a slow host.
            Err(error) => Err(format!("{address}: {error}")),
            Ok(()) => Err(format!("{address} accepts connections")),
        }
    }

    async fn is_silent(&self, server: usize) -> Fact {
        answers_nothing(server, &self.address(server)?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::fault::Capability;

    #[test]
    fn parse_error_contains_the_option_and_the_expected_form() {
        let message = parse_connect("a:port").unwrap_err().to_string();
        assert_eq!(message, "--connect: `a:port` has no valid port. Write host:port,host:port/chroot");
    }

    #[test]
    fn namespace_is_the_first_node_of_the_chroot() {
        assert_eq!(namespace_of("", "/zklockbench"), "zklockbench");
        assert_eq!(namespace_of("/some/chroot", "/zklockbench"), "some");
    }

    fn read_hosts(text: &str) -> Result<Hosts, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts.toml");
        std::fs::write(&file, text).unwrap();
        let addresses = ["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()];
        Hosts::read(&file, &addresses).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_file_with_an_irreversible_action_or_unknown_server_is_rejected() {
        let wrong = |text: &str| read_hosts(text).unwrap_err();
        assert!(wrong("[hosts.server-1]\nkill = \"true\"\n").ends_with(
            "has `kill` but no `start`: every command that breaks a server needs its counterpart"
        ));
        let wanted = "[hosts.server-3] is not a server: the connect string lists 2 servers";
        assert!(wrong("[hosts.server-3]\n").contains(wanted));
        for name in ["server-0", "server-01", "server-+1"] {
            assert!(wrong(&format!("[hosts.\"{name}\"]\n")).contains("is not a server"), "{name}");
        }
        let wanted = "[hosts.server-1] `kill` is empty: write a shell command, or remove the line";
        assert!(wrong("[hosts.server-1]\nkill = \" \"\nstart = \"true\"\n").ends_with(wanted));
        let wanted = "unknown variant `reboot`, expected one of `kill`";
        assert!(wrong("[hosts.server-1]\nreboot = \"true\"\n").contains(wanted));
        assert!(read_hosts("[hosts.server-2]\npause = \"true\"\nresume = \"true\"\n").is_ok());
    }

    #[test]
    fn every_fault_on_server_processes_has_commands() {
        for card in fault::cards() {
            let has_commands = card.needs == Capability::Processes && card.name != fault::COUNTER_NEAR_END;
            assert_eq!(actions_of(card.name).is_some(), has_commands, "{}", card.name);
        }
    }

    #[tokio::test]
    async fn failed_command_is_reported_with_its_stderr() {
        let hosts =
            read_hosts("[hosts.server-1]\nwipe = \"echo no such host >&2; exit 255\"\nstart = \"true\"\n")
                .unwrap();
        let why = hosts.wipe(1).await.unwrap_err();
        assert!(why.contains("`echo no such host >&2; exit 255` (wipe of server 1)"), "{why}");
        assert!(why.contains("255") && why.ends_with("no such host"), "{why}");
        assert_eq!(hosts.wipe(2).await, Err("[hosts.server-2] has no `wipe`".into()));
        // No server listens on this port, so the server counts as down.
        assert!(hosts.is_down(1).await.is_ok());
        let moved = Hosts { addresses: vec!["no..where:2181".into()], ..hosts };
        let down = moved.is_down(1).await.unwrap();
        assert!(down.starts_with("no..where:2181 no longer resolves"), "{down}");
    }

    #[tokio::test]
    async fn command_finishes_even_if_it_leaves_a_process_behind() {
        let hosts = read_hosts("[hosts.server-1]\nwipe = \"sleep 9 &\"\nstart = \"true\"\n").unwrap();
        let wiped = tokio::time::timeout(Duration::from_secs(5), hosts.wipe(1)).await;
        assert_eq!(wiped, Ok(Ok(())));
    }

    #[tokio::test]
    async fn server_that_was_not_paused_is_not_resumed() {
        let hosts = read_hosts("[hosts.server-1]\nkill = \"true\"\nstart = \"true\"\n").unwrap();
        assert_eq!(hosts.resume(1).await, Ok(()));
    }

    #[tokio::test]
    async fn restarted_server_no_longer_counts_as_paused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hosts = Hosts {
            addresses: vec![listener.local_addr().unwrap().to_string()],
            ..read_hosts("[hosts.server-1]\nstart = \"true\"\n").unwrap()
        };
        hosts.holds_still(1, true);
        assert!(hosts.awake().await.unwrap().is_empty());
        hosts.start(1).await.unwrap();
        assert_eq!(hosts.awake().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn faults_are_refused_if_the_ensemble_cannot_be_checked() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [listener.local_addr().unwrap().to_string()];
        let hosts = Hosts {
            addresses: addresses.into(),
            commands: Vec::new(),
            paused: Mutex::default(),
            voters: OnceLock::new(),
        };
        let serving = async {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                stream
                    .write_all(b"mntr is not executed because it is not in the whitelist.\n")
                    .await
                    .unwrap();
            }
        };
        let checked = tokio::select! {
            checked = hosts.is_healthy(Duration::from_millis(50)) => checked,
            () = serving => Ok(()),
        };
        let why = checked.unwrap_err().to_string();
        assert!(why.contains("4lw.commands.whitelist=srvr,"), "{why}");
    }
}
