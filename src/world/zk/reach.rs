//! Why no session comes: what can be found out of an ensemble without one.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::connect::Target;
use super::{admin, handshake};
use crate::words::connect::Connect;

/// How long it may take to find a name, or to be connected.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Whether anything may listen at any of these addresses. A server that is slow may.
///
/// # Errors
/// When there is nothing to wait for: no name is known, or every address refuses. Says so of each.
pub async fn listens(addresses: &[String]) -> Result<(), String> {
    let absent = join_all(addresses.iter().map(|address| absent(address))).await;
    match absent.into_iter().collect::<Option<Vec<_>>>() {
        Some(why) => Err(why.join("; ")),
        None => Ok(()),
    }
}

/// Why nothing can be expected of an address.
async fn absent(address: &str) -> Option<String> {
    let places = match timeout(CONNECT_WITHIN, lookup_host(address)).await.ok()? {
        Ok(places) => places,
        Err(error) => return Some(format!("unknown host in {address} ({error})")),
    };
    for place in places {
        match timeout(CONNECT_WITHIN, TcpStream::connect(place)).await.ok()? {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            _ => return None,
        }
    }
    Some(format!("nothing listens on {address} (connection refused)"))
}

/// What may be why no session came, server by server; `None` when nothing is wrong that could be seen.
pub async fn why_no_session(target: &Target) -> Option<String> {
    let addresses = Connect::parse(&target.connect).ok()?.addresses;
    if let Err(why) = listens(&addresses).await {
        return Some(why);
    }
    let looks = addresses.iter().map(|address| async move {
        let wrong = match &target.access.tls {
            Some(tls) => {
                let (address, files) = (address.clone(), tls.files.clone());
                tokio::task::spawn_blocking(move || handshake::complaint(&address, &files)).await.ok()?
            }
            None => in_plain_text(address).await,
        };
        wrong.map(|wrong| format!("{address} {wrong}"))
    });
    let wrong: Vec<String> = join_all(looks).await.into_iter().flatten().collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// What is wrong with a server that should speak plainly.
async fn in_plain_text(address: &str) -> Option<String> {
    // The first byte of a TLS alert, as answers are shown.
    const ALERT: &str = "\\u{15}";
    let told = match admin::ask(address, "srvr", ANSWER_WITHIN).await {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            return Some("does not answer plain text: it is a TLS port (--tls), or it hangs".into());
        }
        // It has closed the connection in the middle of it.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => String::new(),
        Err(error) => return Some(format!("cannot be reached: {error}")),
        Ok(told) => told,
    };
    if told.contains(admin::NOT_SERVING) {
        return Some("is up but not serving: it has no quorum".into());
    }
    if told.is_empty() || told.starts_with(ALERT) {
        return Some(
            "closes the connection without an answer: it is a TLS port (--tls), or it has reached its \
             connection limit for this host (maxClientCnxns)"
                .into(),
        );
    }
    let is_zookeeper = told.contains("ookeeper version") || told.contains(admin::NOT_ALLOWED);
    (!is_zookeeper).then(|| "does not answer like a ZooKeeper server".into())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::world::zk::Access;

    #[tokio::test]
    async fn where_nothing_listens_or_no_name_is_known_there_is_nothing_to_wait_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().to_string();
        let closed = {
            let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
            closed.local_addr().unwrap().to_string()
        };
        // A name that no resolver has to be asked about
        let unknown = "no..where:2181".to_owned();
        assert_eq!(listens(&[closed.clone(), open.clone()]).await, Ok(()));
        assert_eq!(listens(&[unknown.clone(), open]).await, Ok(()));
        let told = listens(&[closed.clone(), unknown]).await.unwrap_err();
        let expected =
            format!("nothing listens on {closed} (connection refused); unknown host in no..where:2181");
        assert!(told.starts_with(&expected), "{told}");
    }

    async fn told_of_one_that_answers(answer: &'static [u8]) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target =
            Target { connect: listener.local_addr().unwrap().to_string(), access: Access::default() };
        let serving = async {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 16]).await;
                let _ = stream.write_all(answer).await;
            }
        };
        tokio::select! {
            told = why_no_session(&target) => told,
            () = serving => None,
        }
    }

    #[tokio::test]
    async fn servers_that_do_not_serve_speak_tls_or_are_something_else_are_told_apart() {
        let not_serving =
            told_of_one_that_answers(b"This ZooKeeper instance is not currently serving requests\n");
        assert!(not_serving.await.unwrap().ends_with("has no quorum"));
        // A TLS alert, and a connection that is merely closed
        for answer in [&b"\x15\x03\x03\x00\x02\x02\x50"[..], b""] {
            let told = told_of_one_that_answers(answer).await.unwrap();
            assert!(told.contains("(--tls)") && told.contains("maxClientCnxns"), "{told}");
        }
        let other = told_of_one_that_answers(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        assert!(other.ends_with("does not answer like a ZooKeeper server"), "{other}");
        for right in [
            &b"Zookeeper version: 3.8.0\n"[..],
            b"srvr is not executed because it is not in the whitelist.\n",
        ] {
            assert_eq!(told_of_one_that_answers(right).await, None);
        }
    }
}
