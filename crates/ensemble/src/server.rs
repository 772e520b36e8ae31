//! One ZooKeeper server as a child process: configuration, start, pause and end.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};

use rustix::process::{Pid, Signal, kill_process};
use tracing::info;

use super::install::Installation;
use super::network;
use super::ports::ServerPorts;
use zklockbench_zk::admin;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// The server is killed when this process ends.
    WithUs,
    /// The server outlives this process.
    Lasting,
}

/// A server's directories, network namespace and niceness.
#[derive(Debug, Clone)]
pub struct ServerSite<'a> {
    /// Parent of the server's own directory `server-N`.
    pub directory: &'a Path,
    /// Directory of the server's output, `server-N.log`.
    pub logs: &'a Path,
    /// Network namespace; `None` for this process's namespace.
    pub namespace: Option<PathBuf>,
    /// Niceness relative to this process.
    pub nicer_by: u8,
}

/// Intended state of a server. Intended exits are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    Run,
    StandStill,
    BeDown,
    BeGone,
}

/// A started server, killed when dropped unless [`Server::let_go`] was called.
#[derive(Debug)]
pub struct Server {
    /// Server number, from 1.
    pub number: usize,
    pub ports: ServerPorts,
    pub log: PathBuf,
    /// Length of the log when the process was last started.
    pub log_began: u64,
    /// Network namespace of the server; `None` for this process's namespace.
    pub namespace: Option<PathBuf>,
    nicer_by: u8,
    own: PathBuf,
    java: PathBuf,
    arguments: Vec<String>,
    life: Lifetime,
    meant: Meant,
    child: Option<Child>,
}

impl Server {
    /// Writes a server's configuration, empties its log, and starts the server.
    pub fn start(
        installation: &Installation,
        number: usize,
        ports: &[ServerPorts],
        site: &ServerSite<'_>,
        life: Lifetime,
    ) -> io::Result<Self> {
        let own = site.directory.join(format!("server-{number}"));
        write_config(&own, number, ports)?;
        std::fs::create_dir_all(site.logs)?;
        let log = site.logs.join(format!("server-{number}.log"));
        File::create(&log)?;
        let mut server = Self {
            number,
            ports: ports[number - 1],
            log,
            log_began: 0,
            namespace: site.namespace.clone(),
            nicer_by: site.nicer_by,
            arguments: java_arguments(installation, &own),
            own,
            java: installation.java.clone(),
            life,
            meant: Meant::BeDown,
            child: None,
        };
        server.launch()?;
        server.meant = Meant::Run;
        Ok(server)
    }

    /// Starts the process. The caller must handle an exit of the server until it calls [`Server::is_up`].
    pub fn launch(&mut self) -> io::Result<()> {
        if self.meant == Meant::BeGone {
            return Err(io::Error::other("the ensemble has been closed"));
        }
        if self.is_running() {
            return Err(io::Error::other("it is already running"));
        }
        let output = OpenOptions::new().create(true).append(true).open(&self.log)?;
        self.log_began = output.metadata()?.len();
        let mut command = Command::new(&self.java);
        command.args(&self.arguments).current_dir(&self.own);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(namespace) = &self.namespace {
            network::live_in(&mut command, namespace)?;
        }
        nicer(&mut command, self.nicer_by);
        self.meant = Meant::BeDown;
        info!("server {}: starting {command:?}", self.number);
        self.child = Some(match self.life {
            Lifetime::WithUs => spawn_mortal(command)?,
            Lifetime::Lasting => command.process_group(0).spawn()?,
        });
        Ok(())
    }

    /// Marks a restarted server as running, so that an exit is reported.
    pub fn is_up(&mut self) {
        if self.meant == Meant::BeDown {
            self.meant = Meant::Run;
        }
    }

    /// Returns the client address, `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.ports.host, self.ports.client)
    }

    pub fn data(&self) -> PathBuf {
        self.own.join("data")
    }

    /// Returns the process ID; `None` after [`Server::kill`] or [`Server::let_go`].
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns whether the process exists, paused or not.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub fn is_awake(&mut self) -> bool {
        self.meant != Meant::StandStill && self.is_running()
    }

    /// Returns the exit status if the server exited unexpectedly.
    pub fn ended(&mut self) -> Option<String> {
        if matches!(self.meant, Meant::BeDown | Meant::BeGone) {
            return None;
        }
        self.has_ended()
    }

    /// Returns the exit status if the server exited, on purpose or not.
    pub fn has_ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(format!("server {} ended ({status})", self.number))
    }

    /// Sends a signal that ends the process: `KILL`, which also works on a paused process, or `TERM`, after
    /// which a paused process is resumed so that it can exit.
    pub fn end(&mut self, signal: Signal) -> io::Result<()> {
        let was = self.meant;
        self.send(signal)?;
        if self.meant != Meant::BeGone {
            self.meant = Meant::BeDown;
        }
        if was == Meant::StandStill && signal != Signal::KILL {
            self.send(Signal::CONT)?;
        }
        Ok(())
    }

    pub fn pause(&mut self) -> io::Result<()> {
        self.send(Signal::STOP)?;
        self.meant = Meant::StandStill;
        Ok(())
    }

    pub fn resume(&mut self) -> io::Result<()> {
        self.send(Signal::CONT)?;
        if self.meant == Meant::StandStill {
            self.meant = Meant::Run;
        }
        Ok(())
    }

    fn send(&mut self, signal: Signal) -> io::Result<()> {
        // The child has not been reaped, so its process ID cannot have been reused.
        let pid = if self.is_running() { self.pid() } else { None };
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("it is not running"))?;
        info!("server {}: sending signal {} to process {pid}", self.number, signal.as_raw());
        Ok(kill_process(pid, signal)?)
    }

    /// Kills the process and waits until it has ended. The data is discarded, so no clean shutdown is needed.
    pub fn kill(&mut self) {
        self.meant = Meant::BeGone;
        if let Some(mut child) = self.child.take() {
            info!("server {}: killing process {}", self.number, child.id());
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Leaves the process running. Returns its process ID.
    pub fn let_go(&mut self) -> Option<u32> {
        if self.meant == Meant::StandStill {
            let _ = self.resume();
        }
        self.child.take().map(|child| child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a child start with a higher niceness. Changing the niceness of a running process would affect only
/// its main thread and threads started later.
#[allow(unsafe_code, reason = "the only way to run code between fork and exec")]
fn nicer(command: &mut Command, by: u8) {
    if by == 0 {
        return;
    }
    let give_way = move || Ok(rustix::process::nice(i32::from(by)).map(drop)?);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `give_way` makes one system
    // call and allocates nothing.
    unsafe { command.pre_exec(give_way) };
}

type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a child that is killed when this process ends for any reason.
///
/// Linux kills such a child (`PR_SET_PDEATHSIG`) when the *thread* that started it ends. Therefore, a single
/// permanent thread starts all children, and no JVM survives even a `kill -9` of the suite. Each child has its
/// own process group, so Ctrl-C in the terminal reaches only the suite, which then stops its children in order.
pub fn spawn_mortal(mut command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<io::Result<mpsc::Sender<SpawnRequest>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(start_keeper).as_ref().map_err(|e| io::Error::other(e.to_string()))?;
    command.process_group(0);
    die_with_parent(&mut command);
    let (answer, child) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts child processes has ended");
    keeper.send((command, answer)).map_err(|_| gone(mpsc::RecvError))?;
    child.recv().map_err(gone)?
}

fn start_keeper() -> io::Result<mpsc::Sender<SpawnRequest>> {
    let (requests, inbox) = mpsc::channel::<SpawnRequest>();
    std::thread::Builder::new().name("child-keeper".into()).spawn(move || {
        for (mut command, answer) in inbox {
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(requests)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the only way to run code between fork and exec")]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let parent = rustix::process::getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before this call.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `ask` makes two system calls
    // and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}

/// Heap of one server. The suite's trees are small; the sessions and watches of 1,000 contenders fit easily.
pub const HEAP: &str = "-Xmx256m";

/// Property with the interval at which servers check for empty containers, and its value in ms (default: a
/// minute). A deleted container would count as a write to its lock that no contender requested.
pub const CONTAINER_CHECK: (&str, &str) = ("znode.container.checkIntervalMs", "3600000");

/// Keys of every local server's configuration, as reported in results. Deviations from the defaults:
/// - short ticks and wide session bounds, so that scenarios may use short sessions;
/// - no limit on connections per host, because all clients share one address;
/// - only the four-letter commands that the suite uses, and no admin server;
/// - a small preallocation of the transaction log, so that a run does not fill a small disk;
/// - an hourly purge of all but the last three snapshots, so that a long run does not fill a large disk.
pub const KEYS: &[(&str, &str)] = &[
    ("tickTime", "500"),
    ("initLimit", "20"),
    ("syncLimit", "10"),
    ("minSessionTimeout", "1000"),
    ("maxSessionTimeout", "600000"),
    ("maxClientCnxns", "0"),
    ("4lw.commands.whitelist", admin::WORDS),
    ("admin.enableServer", "false"),
    ("preAllocSize", "8192"),
    ("autopurge.snapRetainCount", "3"),
    ("autopurge.purgeInterval", "1"),
];

fn zoo_cfg(data: &Path, number: usize, ports: &[ServerPorts]) -> String {
    let mut text: String = KEYS.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    text += &format!("dataDir={}\n", escaped(data));
    let own = ports[number - 1];
    text += &format!("clientPortAddress={}\nclientPort={}\n", own.host, own.client);
    if ports.len() > 1 {
        text += "standaloneEnabled=false\n";
        for (index, port) in ports.iter().enumerate() {
            text += &format!("server.{}={}:{}:{}\n", index + 1, port.host, port.quorum, port.election);
        }
    }
    text
}

/// Escapes a path for a properties file, which Java reads as Latin-1.
fn escaped(path: &Path) -> String {
    let escape = |unit: u16| match u8::try_from(unit) {
        Ok(b'\\') => r"\\".to_owned(),
        Ok(plain @ b' '..=b'~') => char::from(plain).to_string(),
        _ => format!("\\u{unit:04x}"),
    };
    path.display().to_string().encode_utf16().map(escape).collect()
}

fn write_config(directory: &Path, number: usize, ports: &[ServerPorts]) -> io::Result<()> {
    let data = directory.join("data");
    std::fs::create_dir_all(&data)?;
    std::fs::write(data.join("myid"), number.to_string())?;
    std::fs::write(directory.join("zoo.cfg"), zoo_cfg(&data, number, ports))?;
    for (name, text) in [LOGBACK, LOG4J] {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(())
}

/// Returns the arguments of the server's JVM. Without a logging configuration, servers would log everything
/// through logback or log4j, which is slow. The configurations are passed as properties, because class data
/// archives require a class path without directories.
fn java_arguments(installation: &Installation, directory: &Path) -> Vec<String> {
    let cfg = directory.join("zoo.cfg").display().to_string();
    vec![
        HEAP.into(),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=info".into(),
        "-Dorg.slf4j.simpleLogger.showDateTime=true".into(),
        format!("-Dlogback.configurationFile={}", directory.join(LOGBACK.0).display()),
        format!("-Dlog4j.configuration=file:{}", directory.join(LOG4J.0).display()),
        "-Dzookeeper.jmx.log4j.disable=true".into(),
        "-Djava.net.preferIPv4Stack=true".into(),
        format!("-D{}={}", CONTAINER_CHECK.0, CONTAINER_CHECK.1),
        "-cp".into(),
        installation.class_path.clone(),
        MAIN.into(),
        cfg,
    ]
}

const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// Returns whether a command line belongs to a server of the ensemble with its data in `directory`.
pub fn is_server_of(command: &[OsString], directory: &Path) -> bool {
    let [.., main, cfg] = command else { return false };
    let (cfg, directory) = (Path::new(cfg), Some(directory));
    main == MAIN && cfg.ends_with("zoo.cfg") && cfg.parent().and_then(Path::parent) == directory
}

const LOGBACK: (&str, &str) = (
    "logback.xml",
    r#"<configuration>
  <appender name="CONSOLE" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} [%thread] %-5level %logger{36} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="CONSOLE" /></root>
</configuration>
"#,
);

const LOG4J: (&str, &str) = (
    "log4j.properties",
    "log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} [%t] %-5p %c - %m%n
",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_survives_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("30");
            spawn_mortal(command).unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "the child died with the thread that started it");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn ports(servers: u16) -> Vec<ServerPorts> {
        let host = std::net::Ipv4Addr::LOCALHOST;
        let of = |n| ServerPorts { host, client: 1_000 + n, quorum: 2_000 + n, election: 3_000 + n };
        (1..=servers).map(of).collect()
    }

    #[test]
    fn config_lists_all_three_servers_and_the_servers_own_client_port() {
        let text = zoo_cfg(Path::new("/d"), 2, &ports(3));
        for line in ["clientPort=1002", "server.1=127.0.0.1:2001:3001", "server.3=127.0.0.1:2003:3003"] {
            assert!(text.lines().any(|have| have == line), "{line} is missing from {text}");
        }
    }

    #[test]
    fn data_directory_may_contain_any_characters() {
        let text = zoo_cfg(Path::new(r"/tmp/José's data\x"), 1, &ports(1));
        assert!(text.contains("dataDir=/tmp/Jos\\u00e9's data\\\\x\n"), "{text}");
    }

    #[test]
    fn config_of_a_single_server_has_no_quorum_lines() {
        assert!(!zoo_cfg(Path::new("/d"), 1, &ports(1)).contains("server."));
    }

    #[test]
    fn java_arguments_contain_log_configurations_and_a_class_path_of_jars() {
        let installation =
            Installation { java: "java".into(), class_path: "/a.jar:/b.jar".into(), origin: String::new() };
        let arguments = java_arguments(&installation, Path::new("/d"));
        let class_path = arguments.iter().position(|argument| argument == "-cp").map(|at| &arguments[at + 1]);
        assert_eq!(class_path.map(String::as_str), Some("/a.jar:/b.jar"));
        for set in
            ["-Dlogback.configurationFile=/d/logback.xml", "-Dlog4j.configuration=file:/d/log4j.properties"]
        {
            assert!(arguments.iter().any(|argument| argument == set), "{set} is missing from {arguments:?}");
        }
    }

    #[test]
    fn config_allows_short_sessions_and_any_number_of_connections() {
        let text = zoo_cfg(Path::new("/d"), 1, &ports(1));
        assert!(text.contains("maxClientCnxns=0\n") && text.contains("minSessionTimeout=1000\n"));
    }
}
