//! Sets `TCP_NODELAY` on the client library's sockets.
//!
//! The library does not set it and gives no access to its sockets; Java clients and the servers do set it.
//! Without it, a second small request waits for the acknowledgement of the first. On Linux, the process can
//! duplicate its own descriptors and set the option on the duplicates, which share the socket. A reconnected
//! session has a new socket, so the option is set again.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::Notify;

/// Connections made within this time are handled together, because all sessions may reconnect at once.
const TOGETHER: Duration = Duration::from_millis(10);

/// Calls [`apply`] whenever there are new connections, while it is polled.
pub async fn keep(servers: &[String], connections: &Notify) -> Infallible {
    loop {
        connections.notified().await;
        let servers = servers.to_vec();
        // Takes some milliseconds with thousands of sockets.
        let _ = tokio::task::spawn_blocking(move || apply(&servers)).await;
        tokio::time::sleep(TOGETHER).await;
    }
}

/// Sets the option on every TCP socket of this process that is connected to the port of one of these servers,
/// each given as `host:port`.
///
/// Returns the number of sockets set; 0 if the system offers no way.
#[cfg(target_os = "linux")]
pub fn apply(servers: &[String]) -> usize {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    let ports: Vec<u16> =
        servers.iter().filter_map(|address| address.rsplit_once(':')?.1.parse().ok()).collect();
    let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else { return 0 };
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    entries
        .flatten()
        .filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok())
        .filter(|duplicate| set_if_connected(duplicate, &ports))
        .count()
}

/// Other systems offer no safe access to the library's sockets.
#[cfg(not(target_os = "linux"))]
pub fn apply(_servers: &[String]) -> usize {
    0
}

#[cfg(target_os = "linux")]
fn set_if_connected(descriptor: &std::os::fd::OwnedFd, server_ports: &[u16]) -> bool {
    let socket = socket2::SockRef::from(descriptor);
    let port = socket.peer_addr().ok().and_then(|peer| peer.as_socket()).map(|peer| peer.port());
    port.is_some_and(|port| server_ports.contains(&port)) && socket.set_tcp_nodelay(true).is_ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn only_sockets_to_the_given_servers_are_set() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(false).unwrap();
        assert_eq!(super::apply(&["127.0.0.1:1".to_owned()]), 0);
        assert!(!stream.nodelay().unwrap());
        assert_eq!(super::apply(&[format!("127.0.0.1:{port}")]), 1);
        assert!(stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn keep_sets_later_connections_when_notified() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = [listener.local_addr().unwrap().to_string()];
        let connections = tokio::sync::Notify::new();
        let connecting = async {
            for _ in 0..2 {
                let stream = std::net::TcpStream::connect(&servers[0]).unwrap();
                connections.notify_one();
                while !stream.nodelay().unwrap() {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
        };
        tokio::select! {
            () = connecting => {}
            never = super::keep(&servers, &connections) => match never {},
        }
    }
}
