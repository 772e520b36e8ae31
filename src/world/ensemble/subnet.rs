//! A number and a range of addresses for the network of one ensemble.

use std::net::Ipv4Addr;

use serde::Deserialize;

use super::namespace::ip;

const PREFIX: &str = "zklb";
/// The third part of an address, so that no two networks overlap.
const NUMBERS: std::ops::Range<u8> = 0..250;
/// The first two parts: of private ranges that few use, then of the range reserved for benchmarks.
const BASES: [[u8; 2]; 3] = [[10, 213], [172, 29], [198, 18]];

/// A number, and the addresses that go with it.
#[derive(Debug)]
pub struct Subnet {
    number: u8,
    base: [u8; 2],
}

impl Subnet {
    /// An address of it; servers have their numbers.
    pub fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.base[0], self.base[1], self.number, host)
    }

    /// What the suite's interface is called. The suite that made it owns the number.
    pub fn interface(&self) -> String {
        format!("{PREFIX}{}", self.number)
    }
}

/// Every number, with addresses that collide with no route of this machine.
pub fn free() -> Result<impl Iterator<Item = Subnet>, String> {
    let routes = routes()?;
    Ok(NUMBERS.filter_map(move |number| free_base(number, &routes).map(|base| Subnet { number, base })))
}

/// The first address of a range that collides with no route of this machine. It is unclaimed, and drawn at
/// random, so that two who ask at once hardly get the same.
pub fn any_free() -> Option<Ipv4Addr> {
    // Where routes cannot be read, making a network there tells whether its addresses collide.
    let routes = routes().unwrap_or_default();
    let first = rand::random_range(NUMBERS);
    let base = (first..NUMBERS.end).chain(NUMBERS.start..first);
    base.into_iter().find_map(|number| {
        let [a, b] = free_base(number, &routes)?;
        Some(Ipv4Addr::new(a, b, number, 0))
    })
}

/// First address and number of leading bits.
type Range = (u32, u32);

#[derive(Deserialize)]
struct Route {
    dst: String,
}

/// What this machine reaches otherwise than by its default route.
fn routes() -> Result<Vec<Range>, String> {
    let told = ip(&["-j", "-4", "route", "show", "table", "all"])?;
    if told.trim().is_empty() {
        return Ok(Vec::new());
    }
    let routes: Vec<Route> = serde_json::from_str(&told)
        .map_err(|error| format!("`ip -j -4 route show table all` is not understood: {error}"))?;
    Ok(routes.iter().filter_map(|route| range(&route.dst)).collect())
}

/// `None` for `default`, which covers everything and collides with nothing.
fn range(text: &str) -> Option<Range> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let bits = bits.parse().ok().filter(|bits| (1..=32).contains(bits))?;
    Some((address.parse::<Ipv4Addr>().ok()?.to_bits(), bits))
}

fn free_base(number: u8, routes: &[Range]) -> Option<[u8; 2]> {
    BASES.into_iter().find(|[first, second]| {
        let own = (Ipv4Addr::new(*first, *second, number, 0).to_bits(), 24);
        !routes.iter().any(|other| overlap(own, *other))
    })
}

fn overlap(one: Range, other: Range) -> bool {
    let common = 32 - one.1.min(other.1);
    one.0.checked_shr(common) == other.0.checked_shr(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &[&str]) -> Vec<Range> {
        text.iter().filter_map(|text| range(text)).collect()
    }

    #[test]
    fn a_range_that_a_route_covers_or_lies_in_is_not_taken() {
        assert_eq!(free_base(7, &[]), Some([10, 213]));
        assert_eq!(free_base(7, &ranges(&["10.213.8.0/24", "172.17.0.0/16"])), Some([10, 213]));
        assert_eq!(free_base(7, &ranges(&["10.213.7.9"])), Some([172, 29]));
        assert_eq!(free_base(7, &ranges(&["10.0.0.0/8", "172.16.0.0/12"])), Some([198, 18]));
        assert_eq!(free_base(7, &ranges(&["10.0.0.0/8", "172.16.0.0/12", "198.18.0.0/15"])), None);
    }

    #[test]
    fn the_default_route_is_in_nobodys_way() {
        assert_eq!(ranges(&["default", "0.0.0.0/0"]), []);
    }
}
