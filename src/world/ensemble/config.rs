//! What a local server is told: `zoo.cfg`, `myid`, log configuration, and the arguments of its JVM.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::install::Installation;
use super::ports::ServerPorts;
use crate::world::zk::admin;

/// Heap of one server. The suite's trees are small; sessions and watches of 1,000 contenders fit well.
pub const HEAP: &str = "-Xmx256m";

/// Name and value of the property by which servers look for empty containers, in ms. Their default is a minute; a
/// container that they delete counts as a write of the lock below which it stood, which no contender asked for.
pub const CONTAINER_CHECK: (&str, &str) = ("znode.container.checkIntervalMs", "3600000");

/// The keys that every local server has, as results report them. Deviations from the defaults:
/// short ticks and wide session bounds, so that scenarios may ask for short sessions; no limit on connections
/// from one host (all its users come from one address, so a limit would let them shut out the run); the four-letter words that
/// the suite asks and no others; no admin server; a smaller preallocation of the transaction log, so that a run does not fill a
/// small disk; and what is older than the last three snapshots is purged every hour, so that a long one does not fill a large
/// disk.
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

/// `zoo.cfg` of the server with that number (from 1).
pub fn zoo_cfg(data: &Path, number: usize, ports: &[ServerPorts]) -> String {
    let mut text: String = KEYS.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    text += &format!("dataDir={}\n", data.display());
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

/// Writes all that a server reads into its directory.
pub fn write(directory: &Path, number: usize, ports: &[ServerPorts]) -> io::Result<()> {
    let data = directory.join("data");
    std::fs::create_dir_all(&data)?;
    std::fs::write(data.join("myid"), number.to_string())?;
    std::fs::write(directory.join("zoo.cfg"), zoo_cfg(&data, number, ports))?;
    for (name, text) in [LOGBACK, LOG4J] {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(())
}

/// The arguments of the server's JVM. Releases log through logback or log4j and would log everything, slowly, without a
/// configuration. (No directory stands on the class path, because an archive of classes works only without one.)
pub fn java_arguments(installation: &Installation, directory: &Path) -> Vec<String> {
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

/// Whether a process with that command line is a server of the ensemble in that directory.
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

    fn ports(servers: u16) -> Vec<ServerPorts> {
        let host = std::net::Ipv4Addr::LOCALHOST;
        let of = |n| ServerPorts { host, client: 1_000 + n, quorum: 2_000 + n, election: 3_000 + n };
        (1..=servers).map(of).collect()
    }

    #[test]
    fn each_server_of_three_knows_all_three_and_its_own_client_port() {
        let text = zoo_cfg(Path::new("/d"), 2, &ports(3));
        for line in ["clientPort=1002", "server.1=127.0.0.1:2001:3001", "server.3=127.0.0.1:2003:3003"] {
            assert!(text.lines().any(|have| have == line), "{line} is missing in {text}");
        }
    }

    #[test]
    fn a_lone_server_has_no_quorum_lines() {
        assert!(!zoo_cfg(Path::new("/d"), 1, &ports(1)).contains("server."));
    }

    #[test]
    fn nothing_but_jars_is_on_the_class_path_and_the_log_is_configured_by_name() {
        let installation =
            Installation { java: "java".into(), class_path: "/a.jar:/b.jar".into(), origin: String::new() };
        let arguments = java_arguments(&installation, Path::new("/d"));
        let class_path = arguments.iter().position(|argument| argument == "-cp").map(|at| &arguments[at + 1]);
        assert_eq!(class_path.map(String::as_str), Some("/a.jar:/b.jar"));
        for set in
            ["-Dlogback.configurationFile=/d/logback.xml", "-Dlog4j.configuration=file:/d/log4j.properties"]
        {
            assert!(arguments.iter().any(|argument| argument == set), "{set} is missing in {arguments:?}");
        }
    }

    #[test]
    fn short_sessions_and_any_number_of_connections_are_allowed() {
        let text = zoo_cfg(Path::new("/d"), 1, &ports(1));
        assert!(text.contains("maxClientCnxns=0\n") && text.contains("minSessionTimeout=1000\n"));
    }
}
