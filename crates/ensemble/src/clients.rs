//! Counts the clients that an ensemble serves.

use std::time::Duration;

use futures_util::future::join_all;

use zklockbench_zk::admin;

const PATIENCE: Duration = Duration::from_secs(2);
/// Readings per server. The lowest reading counts, because monitoring tools connect only briefly.
const READINGS: usize = 3;
const BETWEEN: Duration = Duration::from_millis(100);

/// Counts the connections of other clients to these servers. Must be called before the run opens its own. The error is
/// the reason why the number is unknown.
pub async fn other_clients(addresses: &[String]) -> Result<u64, String> {
    join_all(addresses.iter().map(|address| least_connections(address))).await.into_iter().sum()
}

async fn least_connections(address: &str) -> Result<u64, String> {
    let mut least = u64::MAX;
    for reading in 0..READINGS {
        if reading > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        let srvr = admin::srvr(address, PATIENCE).await.map_err(|error| format!("{address}: {error}"))?;
        let connections = srvr.and_then(|srvr| srvr.connections);
        // The count includes this query's own connection.
        least = least.min(
            connections.ok_or_else(|| format!("{address} reports no connection count"))?.saturating_sub(1),
        );
        if least == 0 {
            break;
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Starts a server that reports these connection counts, one per query.
    async fn server(counts: &'static [u64]) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            for count in counts {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_exact(&mut [0; 4]).await.unwrap();
                let answer =
                    format!("Zookeeper version: 3.8.0\nConnections: {count}\nZxid: 0x1\nMode: follower\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn brief_connections_are_not_counted() {
        let servers = [server(&[5, 4, 6]).await, server(&[1]).await, server(&[3, 1]).await];
        assert_eq!(other_clients(&servers).await, Ok(3));
    }

    #[tokio::test]
    async fn client_count_is_unknown_when_a_server_does_not_answer() {
        let servers = [server(&[1]).await, "127.0.0.1:1".to_owned()];
        let why = other_clients(&servers).await.unwrap_err();
        assert!(why.starts_with("127.0.0.1:1: "), "{why}");
    }
}
