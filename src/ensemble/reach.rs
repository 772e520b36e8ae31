//! Whether what one server sends reaches another: datagrams of the suite's own, sent where the servers live.
//!
//! A datagram needs no answer, so one direction can be looked at alone. A connection cannot: it fails as well
//! when only the way back is cut.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::namespace::inside;

/// How long a datagram is waited for that should arrive.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long nothing must arrive. Otherwise it takes some microseconds.
pub const SILENCE: Duration = Duration::from_millis(300);
/// From one datagram to the next.
const EVERY: Duration = Duration::from_millis(20);

/// One end of a way: a namespace and the address in it. `None` is the suite's own.
pub type End = (Option<PathBuf>, Ipv4Addr);

/// Whether any datagram gets from one end to the other in that time.
///
/// # Errors
/// When one of the ends cannot be opened or listened to: nothing is known then.
pub async fn arrives(from: &End, to: &End, within: Duration) -> io::Result<bool> {
    let (sender, receiver) = (open(from)?, open(to)?);
    let target = receiver.local_addr()?;
    // Datagrams of others must not be taken for those that are sent here.
    let (own, word) = (sender.local_addr()?, uuid::Uuid::new_v4().into_bytes());
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        // A cut may turn it away at once; that is as good as losing it.
        let _ = sender.send_to(&word, target).await;
        let next = (Instant::now() + EVERY).min(deadline);
        if heard(&receiver, own, &word, next).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn heard(receiver: &UdpSocket, from: SocketAddr, word: &[u8], until: Instant) -> io::Result<bool> {
    let mut text = [0; 64];
    loop {
        match timeout_at(until, receiver.recv_from(&mut text)).await {
            Err(_) => return Ok(false),
            Ok(Ok((length, sender))) if sender == from && &text[..length] == word => return Ok(true),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}

fn open((namespace, address): &End) -> io::Result<UdpSocket> {
    let socket = inside(namespace.as_deref(), || std::net::UdpSocket::bind((*address, 0)))??;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn here_everything_arrives_and_from_an_address_that_is_not_here_nothing_is_known() {
        let here = (None, Ipv4Addr::LOCALHOST);
        assert!(arrives(&here, &here, PATIENCE).await.unwrap());
        assert!(arrives(&here, &(None, Ipv4Addr::new(192, 0, 2, 77)), SILENCE).await.is_err());
    }
}
