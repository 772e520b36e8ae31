//! Names in a connect string that stand for several servers, such as the names of headless services.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::lookup_host;
use tokio::time::timeout;

use zklockbench_core::connect::Connect;
use zklockbench_zk::Target;

const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
const SESSION: Duration = Duration::from_secs(10);
const OPENS_WITHIN: Duration = Duration::from_secs(5);

/// Replaces each name that has several addresses with its addresses, in a fixed order, and removes duplicate
/// servers. Other names remain and are resolved again at each reconnect.
pub async fn expand(connect: Connect) -> Connect {
    let all = join_all(connect.addresses.iter().map(|address| places_of(address))).await;
    let mut seen = BTreeSet::new();
    let mut is_new = |place: Option<SocketAddr>| place.is_none_or(|place| seen.insert(place));
    let places = all.into_iter().flatten().filter(|(_, place)| is_new(*place));
    Connect { addresses: places.map(|(address, _)| address).collect(), ..connect }
}

/// Returns the servers behind an address: the address to connect to, and the resolved address if known.
async fn places_of(address: &str) -> Vec<(String, Option<SocketAddr>)> {
    let found = timeout(LOOKUP_WITHIN, lookup_host(address)).await;
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

/// Removes each address whose server has an earlier address, e.g. because its host is on several networks. The
/// first byte of a session ID is its server's number. Keeps addresses at which no session can be opened.
pub async fn distinct_servers(target: &Target, addresses: &[String]) -> Vec<String> {
    let numbers = join_all(addresses.iter().map(|address| number_of(target.on(address)))).await;
    let mut seen = BTreeSet::new();
    let mut is_new = |number: Option<u8>| number.is_none_or(|number| seen.insert(number));
    let numbered = addresses.iter().zip(numbers);
    numbered.filter(|(_, number)| is_new(*number)).map(|(address, _)| address.clone()).collect()
}

async fn number_of(server: Target) -> Option<u8> {
    let client = timeout(OPENS_WITHIN, server.client(SESSION)).await.ok()?.ok()?;
    client.session_id().0.to_be_bytes().first().copied()
}

#[cfg(test)]
mod tests {
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
    async fn expand_keeps_unresolved_names_and_removes_duplicate_servers() {
        // The first name is invalid, so no resolver is needed
        let addresses = ["no..where:2181", "localhost:1", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2"];
        let connect = Connect { addresses: addresses.map(str::to_owned).to_vec(), chroot: "/app".into() };
        assert_eq!(expand(connect).await.text(), "no..where:2181,localhost:1,127.0.0.1:2/app");
    }
}
