//! Finds the distinct servers of a connect string. A name may stand for several servers, such as the name of a
//! headless service, and a server may have several addresses.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::state::{Role, not_one_ensemble, roles};
use zklockbench_core::connect::Connect;
use zklockbench_zk::reach::RESOLVED_WITHIN;
use zklockbench_zk::{Target, close};

const SESSION: Duration = Duration::from_secs(10);
const OPENS_WITHIN: Duration = Duration::from_secs(5);
/// Time allowed for the servers to form one ensemble. A deposed leader, for example, needs time to notice that it has
/// lost its followers.
const UNITED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum difference between the IDs of two sessions that one server grants within [`OPENS_WITHIN`].
const NEAR: i64 = 1 << 12;

/// Replaces each name that has several addresses with its addresses, in a fixed order, and removes duplicate
/// servers. Other names remain and are resolved again at each reconnect. Also returns the original of each address.
pub async fn expand(connect: Connect) -> (Connect, Vec<String>) {
    let all = join_all(connect.addresses.iter().map(|address| places_of(address))).await;
    let mut seen = BTreeSet::new();
    let mut is_new = |place: Option<SocketAddr>| {
        place.is_none_or(|place| seen.insert((place.ip().to_canonical(), place.port())))
    };
    let (mut addresses, mut originals) = (Vec::new(), Vec::new());
    for (original, places) in connect.addresses.iter().zip(all) {
        for (address, _) in places.into_iter().filter(|(_, place)| is_new(*place)) {
            addresses.push(address);
            originals.push(original.clone());
        }
    }
    (Connect { addresses, ..connect }, originals)
}

/// Returns the servers behind an address: the address to connect to, and the resolved address if known.
async fn places_of(address: &str) -> Vec<(String, Option<SocketAddr>)> {
    let found = timeout(RESOLVED_WITHIN, lookup_host(address)).await;
    let places = found.ok().and_then(Result::ok).map_or_else(Vec::new, of_one_family);
    match places[..] {
        [] | [_] => vec![(address.to_owned(), places.first().copied())],
        _ => places.into_iter().map(|place| (place.to_string(), Some(place))).collect(),
    }
}

/// Returns a name's addresses of one IP family, because a server may have both an IPv4 and an IPv6 address.
fn of_one_family(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let (fours, sixes): (BTreeSet<_>, BTreeSet<_>) = found.partition(SocketAddr::is_ipv4);
    let places = if fours.is_empty() { sixes } else { fours };
    places.into_iter().collect()
}

/// Returns one address of each server. Fails if the servers are not one ensemble. Does not fail if no session can be
/// opened on a running server; the run itself then reports the cause.
pub async fn servers_of_one_ensemble(target: &Target, addresses: &[String]) -> Result<Vec<String>, String> {
    if addresses.len() < 2 {
        return Ok(addresses.to_vec());
    }
    let (mut roles_now, are_known) = distinct_servers(target, roles(addresses).await).await;
    let distinct: Vec<String> = roles_now.iter().map(|role| role.address.clone()).collect();
    if !are_known {
        return Ok(distinct);
    }
    let deadline = Instant::now() + UNITED_WITHIN;
    while let Some(why) = not_one_ensemble(&roles_now) {
        if Instant::now() >= deadline {
            return Err(why);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        roles_now = roles(&distinct).await;
    }
    Ok(distinct)
}

/// Removes each address whose server has an earlier address, e.g. because its host is in several networks. Keeps
/// addresses at which no session can be opened. Also returns whether the session of each running server is known.
async fn distinct_servers(target: &Target, roles: Vec<Role>) -> (Vec<Role>, bool) {
    let sessions = join_all(roles.iter().map(|role| session_at(target, role))).await;
    let are_known = roles.iter().zip(&sessions).all(|(role, session)| role.is_down() || session.is_some());
    let roles = roles.into_iter().zip(are_new(&sessions)).filter(|(_, is_new)| *is_new);
    (roles.map(|(role, _)| role).collect(), are_known)
}

/// Returns, for each session, whether it is the first session of its server in the list; `true` for unknown sessions.
/// A server numbers its sessions consecutively. The first ID depends on the server's number, and on the millisecond
/// in which the server started or its leader was elected.
fn are_new(sessions: &[Option<i64>]) -> Vec<bool> {
    let is_same =
        |one: i64, other: &Option<i64>| other.is_some_and(|other| one.abs_diff(other) < NEAR as u64);
    let is_new = |(at, session): (usize, &Option<i64>)| {
        session.is_none_or(|session| !sessions[..at].iter().any(|earlier| is_same(session, earlier)))
    };
    sessions.iter().enumerate().map(is_new).collect()
}

/// Opens a session, closes it and returns its ID. Returns `None` if no session can be opened, or if the ID contains
/// no server number. Such IDs come from other server implementations, which number all sessions of an ensemble
/// consecutively.
async fn session_at(target: &Target, role: &Role) -> Option<i64> {
    if role.is_down() {
        return None;
    }
    let server = target.on(&role.address);
    let client = timeout(OPENS_WITHIN, server.client(SESSION)).await.ok()?.ok()?;
    let session = client.session_id().0;
    // The client closes the session in the background. An open session would be counted as another client's.
    close(client, OPENS_WITHIN).await;
    Some(session).filter(|session| session.to_be_bytes()[0] != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn addresses_of_only_one_ip_family_are_used() {
        let of = |found: &[&str]| {
            let places = of_one_family(found.iter().map(|address| address.parse().unwrap()));
            places.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(&["127.0.0.1:2181", "[::1]:2181"]), ["127.0.0.1:2181"], "localhost");
        let found = ["10.0.0.9:2181", "[fd00::9]:2181", "10.0.0.7:2181", "10.0.0.9:2181"];
        assert_eq!(of(&found), ["10.0.0.7:2181", "10.0.0.9:2181"]);
        assert_eq!(of(&["[fd00::2]:1", "[fd00::1]:1"]), ["[fd00::1]:1", "[fd00::2]:1"]);
    }

    #[tokio::test]
    async fn ipv4_address_in_ipv6_notation_is_a_duplicate() {
        let addresses = ["[::ffff:127.0.0.1]:1", "127.0.0.1:1", "[::ffff:127.0.0.1]:2", "[::1]:1"];
        let connect = Connect { addresses: addresses.map(str::to_owned).to_vec(), chroot: String::new() };
        let (expanded, originals) = expand(connect).await;
        assert_eq!(expanded.text(), "[::ffff:127.0.0.1]:1,[::ffff:127.0.0.1]:2,[::1]:1");
        assert_eq!(originals, expanded.addresses);
    }

    #[test]
    fn consecutive_sessions_belong_to_the_same_server() {
        let starting_at = |number: i64, ms: i64| Some((number << 56) | (ms << 16));
        // Given three members of an ensemble after an election
        assert_eq!(are_new(&[1, 2, 3].map(|number| starting_at(number, 5_000))), [true; 3]);
        // And two standalone servers, which both have number 1, started one after the other
        let [first, other] = [5_000, 5_001].map(|ms| starting_at(1, ms));
        assert_eq!(are_new(&[first, other]), [true, true]);
        // Then later sessions of these servers are recognised
        let next = |session: Option<i64>| session.map(|id| id + 1);
        let sessions = [next(first), first, None, other, next(other), None];
        assert_eq!(are_new(&sessions), [true, false, true, true, false, true]);
    }

    #[tokio::test]
    async fn expand_keeps_unresolved_names_and_removes_duplicate_servers() {
        // The first name is invalid, so no resolver is needed
        let addresses = ["no..where:2181", "localhost:1", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2"];
        let connect = Connect { addresses: addresses.map(str::to_owned).to_vec(), chroot: "/app".into() };
        let (expanded, originals) = expand(connect).await;
        assert_eq!(expanded.text(), "no..where:2181,localhost:1,127.0.0.1:2/app");
        assert_eq!(originals, expanded.addresses);
    }

    /// Starts a standalone server that grants only this session. Counts sessions that were closed.
    async fn standalone(session: i64, closed: Arc<AtomicUsize>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, session, Arc::clone(&closed)));
            }
        });
        address
    }

    async fn answer(mut stream: TcpStream, session: i64, closed: Arc<AtomicUsize>) -> Option<()> {
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.ok()?;
        if &word == b"mntr" {
            return stream.write_all(b"zk_version\t3.9.4\nzk_server_state\tstandalone\n").await.ok();
        }
        stream.read_exact(&mut vec![0; u32::from_be_bytes(word) as usize]).await.ok()?;
        // Protocol version, timeout, ID, password, and whether the session is read-only
        let (version, password) = (0_i32.to_be_bytes(), [&16_i32.to_be_bytes()[..], &[7; 16], &[0]].concat());
        let granted = [&version[..], &10_000_i32.to_be_bytes(), &session.to_be_bytes(), &password].concat();
        stream.write_all(&[&(granted.len() as u32).to_be_bytes()[..], &granted].concat()).await.ok()?;
        loop {
            let mut request = vec![0; stream.read_u32().await.ok()? as usize];
            stream.read_exact(&mut request).await.ok()?;
            let (xid, operation) = (&request[..4], &request[4..8]);
            let closes = operation == (-11_i32).to_be_bytes();
            if closes {
                tokio::time::sleep(Duration::from_millis(300)).await;
                closed.fetch_add(1, Ordering::SeqCst);
            }
            let reply = [&16_u32.to_be_bytes()[..], xid, &[0; 12]].concat();
            stream.write_all(&reply).await.ok()?;
            if closes {
                return Some(());
            }
        }
    }

    #[tokio::test]
    async fn standalone_servers_are_rejected_only_if_their_sessions_prove_that_they_are_several() {
        let near = 5_000 << 16;
        for (numbers, is_accepted) in [([1, 1], false), ([0, 0], true)] {
            let closed = Arc::new(AtomicUsize::new(0));
            let mut addresses = Vec::new();
            for (at, number) in (0..).zip(numbers) {
                let session = (number << 56) | (near + (at << 16));
                addresses.push(standalone(session, Arc::clone(&closed)).await);
            }
            let target = Target { connect: addresses.join(","), access: zklockbench_zk::Access::default() };
            let found = servers_of_one_ensemble(&target, &addresses).await;
            // No session remains that could be mistaken for another client's
            assert_eq!(closed.load(Ordering::SeqCst), 2);
            match found {
                Ok(found) => assert!(is_accepted && found == addresses, "{found:?}"),
                Err(why) => assert!(!is_accepted && why.contains("2 of 2 run alone"), "{why}"),
            }
        }
    }
}
