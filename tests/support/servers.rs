//! Real servers with configurations of their own, such as SASL or TLS.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use zklockbench_ensemble::{Installation, Places, spawn_mortal};

use super::ensemble::free_ports;
use super::foreign::Bounded;

/// Time limit for a server to start on a busy host.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

pub struct Server {
    /// Client address, `host:port`.
    pub address: String,
    _process: Bounded,
}

/// Configuration that lets tests run quickly and query the servers.
const FOR_TESTS: &str =
    "tickTime=500\nmaxClientCnxns=0\nmaxSessionTimeout=600000\n4lw.commands.whitelist=*\n";

/// Starts a server with its files in `directory`, and waits until it listens on `address`.
pub fn start(directory: &Path, address: String, config: &str, properties: &[&str]) -> Server {
    super::calm::wait();
    std::fs::create_dir_all(directory.join("data")).unwrap();
    let text = format!(
        "dataDir={}\nadmin.enableServer=false\npreAllocSize=1024\n{config}\n",
        directory.join("data").display()
    );
    std::fs::write(directory.join("zoo.cfg"), text).unwrap();
    let installation = Installation::find(&Places::of_this_machine(None)).unwrap();
    let log = std::fs::File::create(directory.join("server.log")).unwrap();
    let mut command = Command::new(&installation.java);
    command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]).args(properties);
    command.args([
        "-cp",
        &with_netty(&installation.class_path),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    ]);
    command.arg(directory.join("zoo.cfg")).current_dir(directory);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let process = Bounded(spawn_mortal(command).unwrap());
    let begun = Instant::now();
    while TcpStream::connect(&address).is_err() {
        let log = || std::fs::read_to_string(directory.join("server.log")).unwrap_or_default();
        assert!(begun.elapsed() < STARTS_WITHIN, "the server is not listening: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    Server { address, _process: process }
}

/// The class path with Netty. TLS needs Netty, but Debian's package does not include it.
fn with_netty(class_path: &str) -> String {
    let jars = std::fs::read_dir("/usr/share/java").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_netty = |jar: &PathBuf| {
        let name = jar.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("netty-") && name.ends_with(".jar")
    };
    jars.filter(is_netty).fold(class_path.to_owned(), |all, jar| format!("{all}:{}", jar.display()))
}

/// Starts a server that requires SASL, with user `bench` and password `hunter2`.
pub fn with_sasl(directory: &Path) -> Server {
    let (port, jaas) = (free_ports(1)[0], directory.join("jaas.conf"));
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(
        &jaas,
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_bench=\"hunter2\";\n};\n",
    )
    .unwrap();
    let config = format!(
        "{FOR_TESTS}clientPort={port}\nclientPortAddress=127.0.0.1\nsessionRequireClientSASLAuth=true\n\
         authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
    );
    let property = format!("-Djava.security.auth.login.config={}", jaas.display());
    start(directory, format!("127.0.0.1:{port}"), &config, &[&property])
}

/// Starts a server that requires TLS with client certificates. The key store is PKCS#12 with the password
/// `changeit`; the trust store is PEM.
pub fn with_tls(directory: &Path, key_store: &Path, trust_store: &Path) -> Server {
    let port = free_ports(1)[0];
    let config = tls_config("127.0.0.1", port, key_store, trust_store);
    start(directory, format!("127.0.0.1:{port}"), &config, &[])
}

/// Starts three servers, which use the same port at 127.0.0.1, 127.0.0.2 and 127.0.0.3. `config` returns the
/// configuration for an address.
pub fn three(directory: &Path, config: impl Fn(&str, u16) -> String) -> Vec<Server> {
    let ports = free_ports(3);
    let (port, quorum, election) = (ports[0], ports[1], ports[2]);
    let members = [1, 2, 3].map(|id| format!("server.{id}=127.0.0.{id}:{quorum}:{election}\n")).concat();
    let start_one = |id| {
        let (directory, host) = (directory.join(format!("{id}")), format!("127.0.0.{id}"));
        std::fs::create_dir_all(directory.join("data")).unwrap();
        std::fs::write(directory.join("data/myid"), format!("{id}")).unwrap();
        let config = format!("initLimit=20\nsyncLimit=10\n{members}{}", config(&host, port));
        start(&directory, format!("{host}:{port}"), &config, &[])
    };
    [1, 2, 3].map(start_one).into()
}

pub fn tls_config(host: &str, port: u16, key_store: &Path, trust_store: &Path) -> String {
    format!(
        "{FOR_TESTS}secureClientPort={port}\nsecureClientPortAddress={host}\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.keyStore.password=changeit\nssl.trustStore.location={}\nssl.clientAuth=need\n",
        key_store.display(),
        trust_store.display()
    )
}

/// Runs keytool or openssl command lines in a directory, with `answers` on stdin, until one fails.
#[track_caller]
pub fn tool(directory: &Path, line: &str, answers: &str) {
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(directory).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Ignore a failed write: the tool may have exited without reading stdin.
    let _ = child.stdin.take().unwrap().write_all(answers.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&said));
}

/// Starts an openssl TLS server with the certificate and key in `file`.
pub fn handshakes(directory: &Path, file: &str) -> Server {
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    let mut command = Command::new("openssl");
    command.args(["s_server", "-quiet", "-accept", &address, "-cert", file, "-key", file]);
    // The server exits when its stdin is closed.
    command.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Bounded(command.spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(&address).is_err() {
        assert!(begun.elapsed() < STARTS_WITHIN, "openssl is not listening");
        std::thread::sleep(Duration::from_millis(10));
    }
    Server { address, _process: process }
}
