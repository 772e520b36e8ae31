//! Checks that the servers of a connect string are one ensemble. Their roles do not show this: a follower of another
//! ensemble looks like any other follower.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::workspace::{TOP, is_there, remove};
use zklockbench_core::error::Error;
use zklockbench_core::units::listed;
use zklockbench_zk::{Target, close};

const WITHIN: Duration = Duration::from_secs(2);
const SESSION: Duration = Duration::from_secs(10);

/// Checks that every server that grants a session has the run's root. Otherwise, removes the root.
pub async fn check_one_ensemble(target: &Target, servers: &[String], run_id: &str) -> Result<(), Error> {
    if servers.len() < 2 {
        return Ok(());
    }
    let root = format!("{TOP}/{run_id}");
    let found = join_all(servers.iter().map(|server| has(target.on(server), &root))).await;
    let those = |wanted| {
        let pairs = servers.iter().zip(&found).filter(move |(_, found)| **found == Some(wanted));
        pairs.map(|(server, _)| server).collect::<Vec<_>>()
    };
    let (having, lacking) = (those(true), those(false));
    if lacking.is_empty() {
        return Ok(());
    }
    if let Some(server) = having.first() {
        // The error below is more important.
        let _ = remove(&target.on(server), run_id).await;
    }
    Err(Error::usage(format!(
        "cannot use {}: the servers are not one ensemble, because {root} was created on {}, but is missing on {}: list \
         only the servers of one ensemble",
        target.connect,
        if having.is_empty() { "another server".to_owned() } else { listed(&having) },
        listed(&lacking)
    )))
}

/// Returns whether a server has a node; `None` if the server does not answer in time.
async fn has(server: Target, path: &str) -> Option<bool> {
    let client = timeout(WITHIN, server.client(SESSION)).await.ok()?.ok()?;
    let found = timeout(WITHIN, is_there(&client, path)).await;
    close(client, WITHIN).await;
    found.ok()?.ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use zklockbench_zk::Access;

    const NO_NODE: i32 = -101;
    const PING: i32 = 11;
    const CLOSE: i32 = -11;
    /// A stat without any set field.
    static STAT: [u8; 68] = [0; 68];

    /// Starts a server that has all nodes, or none. Also returns the number of closed sessions.
    pub async fn server(has_nodes: bool) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let closed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&closed);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, 7, has_nodes, Arc::clone(&counter)));
            }
        });
        (address, closed)
    }

    /// Grants a session with this ID, or refuses it if the ID is 0. Counts the session once it is closed.
    pub async fn serve(
        mut stream: TcpStream,
        session: i64,
        has_nodes: bool,
        closed: Arc<AtomicUsize>,
    ) -> Option<()> {
        frame(&mut stream).await?;
        // Protocol version, timeout, ID, password, and whether the session is read-only
        let (granted, password) =
            (10_000_i32.to_be_bytes(), [&16_i32.to_be_bytes()[..], &[7; 16], &[0]].concat());
        answer(&mut stream, &[&[0; 4][..], &granted, &session.to_be_bytes(), &password]).await?;
        loop {
            let request = frame(&mut stream).await?;
            let (xid, operation) = (&request[..4], i32::from_be_bytes(request[4..8].try_into().ok()?));
            if operation == CLOSE {
                closed.fetch_add(1, Ordering::SeqCst);
            }
            let (error, stat) = match operation {
                PING | CLOSE => (0, &STAT[..0]),
                _ if has_nodes => (0, &STAT[..]),
                _ => (NO_NODE, &STAT[..0]),
            };
            answer(&mut stream, &[xid, &[0; 8], &error.to_be_bytes(), stat]).await?;
            if operation == CLOSE {
                return Some(());
            }
        }
    }

    async fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut frame = vec![0; stream.read_u32().await.ok()? as usize];
        stream.read_exact(&mut frame).await.ok()?;
        Some(frame)
    }

    async fn answer(stream: &mut TcpStream, parts: &[&[u8]]) -> Option<()> {
        let body = parts.concat();
        let length = u32::try_from(body.len()).ok()?.to_be_bytes();
        stream.write_all(&[&length[..], &body].concat()).await.ok()
    }

    #[tokio::test]
    async fn server_without_the_runs_node_is_rejected() {
        let ((own, closed), (other, _)) = (server(true).await, server(false).await);
        let check = async |servers: &[&str]| {
            let servers: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
            let target = Target { connect: servers.join(","), access: Access::default() };
            check_one_ensemble(&target, &servers, "x").await.map_err(|error| error.to_string())
        };
        assert_eq!(check(&[own.as_str(), own.as_str()]).await, Ok(()));
        assert_eq!(closed.load(Ordering::SeqCst), 2, "no session remains that counts as another client's");
        let why = check(&[own.as_str(), other.as_str()]).await.unwrap_err();
        let expected = format!("/zklockbench/x was created on {own}, but is missing on {other}: list only");
        assert!(why.contains(&expected), "{why}");
    }
}
