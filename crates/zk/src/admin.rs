//! Four-letter commands, which query the state of one server.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tls::Tls;
use zklockbench_core::locked::locked;
use zklockbench_core::units::harmless_lines;

/// Timeout for a server's reply.
const PATIENCE: Duration = Duration::from_secs(2);
/// Text in a server's reply to most commands while the server has no quorum.
pub(super) const NOT_SERVING: &str = "not currently serving";
/// Text in a server's reply to a command that its configuration does not allow.
pub(super) const NOT_ALLOWED: &str = "not in the whitelist";
/// Returns the maximum length of a reply in bytes. A busy server's `mntr` reply is about 100 kB, and `wchc` prints
/// a line per watch.
fn longest(command: &str) -> usize {
    match command {
        "wchc" => 16 << 20,
        "mntr" => 4 << 20,
        _ => 1 << 18,
    }
}
/// Maximum number of watches read from a `wchc` reply.
const WATCHES_KEPT: usize = 100_000;

/// A server's reply to `mntr`: its counters and gauges. Stored as text, because the keys depend on the
/// server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mntr(String);

impl Mntr {
    fn value(&self, key: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t')).map(str::trim)
    }

    /// Returns a counter or gauge, truncated to an integer; `None` if the server does not report the key.
    pub fn number(&self, key: &str) -> Option<i64> {
        let value = self.value(key)?;
        value.parse().ok().or_else(|| value.parse::<f64>().ok().map(|number| number as i64))
    }

    /// Returns `leader`, `follower`, `observer` or `standalone`.
    pub fn state(&self) -> Option<&str> {
        self.value("zk_server_state")
    }

    /// Returns the version without build details, e.g. `3.8.0`.
    pub fn version(&self) -> Option<&str> {
        without_build(self.value("zk_version")?)
    }

    pub fn synced_followers(&self) -> Option<i64> {
        self.number("zk_synced_followers")
    }
}

fn without_build(version: &str) -> Option<&str> {
    version.split(['-', ',']).next().map(str::trim).filter(|version| !version.is_empty())
}

/// Sends `mntr` to one server.
///
/// # Errors
/// If the server cannot be reached, does not answer within 2 s, has no quorum, or does not allow the command
/// ([`io::ErrorKind::PermissionDenied`]). By default, ZooKeeper allows only `srvr`.
pub async fn mntr(address: &str) -> io::Result<Mntr> {
    let answer = ask(address, "mntr", PATIENCE).await?;
    if answer.contains("zk_server_state") {
        return Ok(Mntr(answer));
    }
    Err(refused("mntr", &answer))
}

/// Reads one server's configuration with `conf`, as key-value pairs.
pub async fn conf(address: &str) -> io::Result<Vec<(String, String)>> {
    let answer = ask(address, "conf", PATIENCE).await?;
    let pairs: Vec<_> = answer
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect();
    if pairs.iter().any(|(key, _)| key == "tickTime") {
        return Ok(pairs);
    }
    Err(refused("conf", &answer))
}

/// Reads one server's watches with `wchc`, as pairs of session ID and path.
pub async fn watches(address: &str) -> io::Result<Vec<(i64, String)>> {
    let answer = ask(address, "wchc", PATIENCE).await?;
    if answer.contains(NOT_ALLOWED) {
        return Err(refused("wchc", &answer));
    }
    let mut session = None;
    let mut watches = Vec::new();
    for line in answer.lines() {
        if watches.len() == WATCHES_KEPT {
            break;
        }
        match (line.strip_prefix("0x"), line.trim_start(), session) {
            (Some(digits), _, _) => session = u64::from_str_radix(digits, 16).ok(),
            (None, path, Some(of)) if path.starts_with('/') => watches.push((of as i64, path.to_owned())),
            _ => {}
        }
    }
    Ok(watches)
}

/// A server's reply to `srvr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Srvr {
    /// `leader`, `follower`, `observer` or `standalone`.
    pub mode: String,
    /// Version without build details, if reported.
    pub version: Option<String>,
    /// Zxid of the last applied transaction. Its upper half is the epoch, which grows with each election.
    pub zxid: u64,
    /// Number of open connections, including the one used for this query.
    pub connections: Option<u64>,
}

impl Srvr {
    fn parse(answer: &str) -> Option<Self> {
        let value = |key: &str| answer.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let zxid = u64::from_str_radix(value("Zxid:")?.strip_prefix("0x")?, 16).ok()?;
        let version = value("Zookeeper version:").and_then(without_build).map(str::to_owned);
        let connections = value("Connections:").and_then(|count| count.parse().ok());
        Some(Self { mode: value("Mode:")?.to_owned(), version, zxid, connections })
    }

    /// Returns the epoch of the last transaction.
    pub fn epoch(&self) -> u64 {
        self.zxid >> 32
    }
}

/// Sends `srvr` to one server; `None` if the server replies that it has no quorum.
pub async fn srvr(address: &str, patience: Duration) -> io::Result<Option<Srvr>> {
    let answer = ask(address, "srvr", patience).await?;
    match Srvr::parse(&answer) {
        None if answer.contains(NOT_SERVING) => Ok(None),
        None => Err(refused("srvr", &answer)),
        srvr => Ok(srvr),
    }
}

/// Checks that a server's process answers `ruok`, with or without a quorum. A reply that rejects the command
/// also counts as an answer.
///
/// # Errors
/// If the server cannot be reached, or does not answer in time ([`io::ErrorKind::TimedOut`]).
pub async fn ruok(address: &str, patience: Duration) -> io::Result<()> {
    let answer = ask(address, "ruok", patience).await?;
    if answer.contains("imok") || answer.contains(NOT_ALLOWED) {
        Ok(())
    } else {
        Err(refused("ruok", &answer))
    }
}

/// TLS settings for commands to TLS ports. All ensembles of a process share the same files.
static TLS: Mutex<Option<Arc<Tls>>> = Mutex::new(None);

/// Makes this process send all later commands over TLS.
pub fn speak_tls(tls: &Tls) {
    let mut spoken = locked(&TLS);
    let all = spoken.as_ref().map_or_else(|| tls.clone(), |earlier| earlier.with_names_of(tls));
    *spoken = Some(Arc::new(all));
}

/// Returns a server's complete reply to a command, even if the reply is a refusal.
pub(super) async fn ask(address: &str, word: &str, patience: Duration) -> io::Result<String> {
    let (heard, ended) = hear(address, word, patience).await;
    ended.map(|()| heard)
}

/// Returns the part of a server's reply received before the timeout, and an error if the reply is incomplete.
pub(super) async fn hear(address: &str, word: &str, patience: Duration) -> (String, io::Result<()>) {
    let mut answer = Vec::new();
    let conversation = async {
        let stream = TcpStream::connect(address).await?;
        let tls = locked(&TLS).clone();
        let Some(tls) = tls else { return converse(stream, address, word, &mut answer).await };
        let name = tls.name_of(address).ok_or(io::ErrorKind::InvalidInput)?;
        let stream = TlsConnector::from(tls.config.clone()).connect(name, stream).await?;
        converse(stream, address, word, &mut answer).await
    };
    let silent = |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {patience:?}")));
    let ended = tokio::time::timeout(patience, conversation).await.unwrap_or_else(silent);
    // Versions and settings are printed to terminals and reports, so escape control characters.
    (harmless_lines(String::from_utf8_lossy(&answer).into_owned()), ended)
}

/// Sends a command, and reads the reply until the server closes the connection.
async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    address: &str,
    word: &str,
    answer: &mut Vec<u8>,
) -> io::Result<()> {
    stream.write_all(word.as_bytes()).await?;
    let longest = longest(word);
    match stream.take(longest as u64 + 1).read_to_end(answer).await {
        // Some servers close the connection without a TLS close_notify.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof || answer.is_empty() => Err(error),
        _ if answer.len() > longest => {
            let why = format!(
                "{address} replied to `{word}` with more than {} KiB (not a ZooKeeper server?)",
                longest >> 10
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
        _ => Ok(()),
    }
}

/// All commands that the suite sends, in the format of the server setting `4lw.commands.whitelist`.
pub const WORDS: &str = "srvr,mntr,conf,ruok,wchc";

/// Returns the error for a reply that does not answer the command.
fn refused(word: &str, answer: &str) -> io::Error {
    if answer.contains(NOT_ALLOWED) {
        let why = format!(
            "the server does not allow `{word}`: add this line to its zoo.cfg (in containers, set \
             ZOO_4LW_COMMANDS_WHITELIST): 4lw.commands.whitelist={WORDS}"
        );
        return io::Error::new(io::ErrorKind::PermissionDenied, why);
    }
    io::Error::other(if answer.contains(NOT_SERVING) {
        "the server is running but not serving (no quorum yet, or leaderServes=no)".to_owned()
    } else if answer.is_empty() {
        format!("no answer to `{word}`: the server closed the connection (is this a TLS port?)")
    } else {
        format!("the reply to `{word}` is not from a ZooKeeper server")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mntr_parses_numbers_state_and_version() {
        let mntr = Mntr(
            "zk_version\t3.8.0--1, built on 2023-01-01\nzk_server_state\tleader\nzk_synced_followers\t2\n\
             zk_avg_latency\t0.75\nnonsense\n"
                .to_owned(),
        );
        assert_eq!(mntr.state(), Some("leader"));
        assert_eq!(mntr.version(), Some("3.8.0"));
        assert_eq!(mntr.synced_followers(), Some(2));
        assert_eq!(mntr.number("zk_avg_latency"), Some(0));
        assert_eq!(mntr.number("zk_unheard_of"), None);
    }

    #[test]
    fn epoch_is_the_upper_half_of_the_zxid() {
        let answer = "Zookeeper version: 3.8.0--1, built on 2023-01-01\nZxid: 0x30000001f\nMode: leader\nNode count: 5\n";
        let srvr = Srvr::parse(answer).unwrap();
        assert_eq!(srvr.version.as_deref(), Some("3.8.0"));
        assert_eq!((srvr.mode.as_str(), srvr.zxid, srvr.epoch()), ("leader", 0x3_0000_001f, 3));
        assert_eq!(Srvr::parse("This ZooKeeper instance is not currently serving requests"), None);
    }

    #[test]
    fn errors_for_refused_commands_suggest_a_remedy() {
        let whitelist = "mntr is not executed because it is not in the whitelist.";
        let message_for = |answer: &str| refused("mntr", answer).to_string();
        assert!(message_for(whitelist).contains("4lw.commands.whitelist=srvr,mntr,"));
        assert_eq!(refused("mntr", whitelist).kind(), io::ErrorKind::PermissionDenied);
        assert!(message_for("This ZooKeeper instance is not currently serving requests").contains("quorum"));
        assert!(message_for("").contains("TLS port"));
        assert!(message_for("HTTP/1.1 400 Bad Request").contains("not from a ZooKeeper server"));
    }

    #[tokio::test]
    async fn ruok_distinguishes_silent_from_closed_ports() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let silent = ruok(&address, Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        drop(listener);
        let closed = ruok(&address, PATIENCE).await.unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn endless_replies_fail_at_the_size_limit() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let streaming = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            while stream.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = ask(&address, "mntr", Duration::from_secs(60)) => answer,
            () = streaming => unreachable!("the stream never ends"),
        };
        let error = answer.unwrap_err();
        let expected =
            format!("{address} replied to `mntr` with more than 4096 KiB (not a ZooKeeper server?)");
        assert_eq!(error.to_string(), expected);
    }
}
