//! A network for one ensemble: each server in a network namespace of its own, all on one bridge.
//!
//! The bridge is in a namespace, too. There no firewall rule of this machine applies to what servers say to each
//! other; Docker's, for one, drops what crosses a bridge that is not its own. A pair of virtual interfaces
//! leads from the bridge to the suite.
//!
//! Killed, a run leaves its namespaces behind; the next network that is made removes them.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::ip::ip;
use super::namespace::inside;
use super::ports::ServerPorts;
use super::subnet::{self, Subnet};

/// Begins every name.
const PREFIX: &str = "zklb";
/// The last part of the suite's own address.
const SUITE: u8 = 254;
/// Every server has an address of its own, so all use the same ports: the usual ones.
const PORTS: (u16, u16, u16) = (2181, 2888, 3888);
/// How many numbers are tried when names turn out to be taken.
const ATTEMPTS: usize = 5;
const TAKEN: &str = "File exists";

/// A network that is removed when dropped.
#[derive(Debug)]
pub struct Network {
    servers: usize,
    subnet: Subnet,
}

impl Network {
    /// Makes a network for so many servers, after having removed those whose owners are gone.
    ///
    /// # Errors
    /// Names the command that failed and what it said. Nothing is left behind then.
    pub fn create(servers: usize) -> Result<Self, String> {
        remove_stale();
        let mut skip = 0;
        loop {
            let network = Self { servers, subnet: Subnet::claim(skip)? };
            match network.build() {
                Err(why) if skip + 1 < ATTEMPTS && why.contains(TAKEN) => skip += 1,
                built => return built.map(|()| network),
            }
        }
    }

    fn build(&self) -> Result<(), String> {
        let (hub, suite) = (self.hub(), self.hub());
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "add", "name", "hub", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "hub", "up"])?;
        ip(&["link", "add", "name", &suite, "type", "veth", "peer", "name", "suite", "netns", &hub])?;
        ip(&["-n", &hub, "link", "set", "suite", "master", "hub", "up"])?;
        ip(&["addr", "add", &self.with_mask(SUITE), "dev", &suite])?;
        ip(&["link", "set", &suite, "up"])?;
        (1..=self.servers).try_for_each(|server| self.build_for(server))
    }

    fn build_for(&self, server: usize) -> Result<(), String> {
        let (hub, own, port) = (self.hub(), self.name(server), port(server));
        ip(&["netns", "add", &own])?;
        ip(&[
            "-n", &hub, "link", "add", "name", &port, "type", "veth", "peer", "name", "eth0", "netns", &own,
        ])?;
        ip(&["-n", &hub, "link", "set", &port, "master", "hub", "up"])?;
        ip(&["-n", &own, "addr", "add", &self.with_mask(host(server)), "dev", "eth0"])?;
        ip(&["-n", &own, "link", "set", "eth0", "up"])?;
        ip(&["-n", &own, "link", "set", "lo", "up"])?;
        self.accept_from_unroutable(server)
    }

    /// With a filter on return paths, a namespace that has no way *to* a server would hear nothing *from* it
    /// either, and no cut would be in one direction.
    fn accept_from_unroutable(&self, server: usize) -> Result<(), String> {
        let switch_off = || -> std::io::Result<()> {
            for interface in ["all", "eth0"] {
                let path = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
                // Where it is off, the file need not be writable.
                if std::fs::read_to_string(&path)?.trim() != "0" {
                    std::fs::write(&path, "0")?;
                }
            }
            Ok(())
        };
        let done = inside(Some(&self.namespace(server)), switch_off).and_then(|done| done);
        done.map_err(|error| format!("cannot switch rp_filter off in {}: {error}", self.name(server)))
    }

    /// Where each server listens.
    #[must_use]
    pub fn ports(&self) -> Vec<ServerPorts> {
        let (client, quorum, election) = PORTS;
        (1..=self.servers)
            .map(|server| ServerPorts { host: self.address(server), client, quorum, election })
            .collect()
    }

    /// A server's address.
    #[must_use]
    pub fn address(&self, server: usize) -> Ipv4Addr {
        self.subnet.address(host(server))
    }

    /// The suite's own address.
    #[must_use]
    pub fn suite(&self) -> Ipv4Addr {
        self.subnet.address(SUITE)
    }

    /// A server's namespace, to be entered.
    #[must_use]
    pub fn namespace(&self, server: usize) -> PathBuf {
        PathBuf::from("/run/netns").join(self.name(server))
    }

    /// Takes a server off the bridge: nothing reaches it and nothing comes from it.
    ///
    /// # Errors
    /// Names the command that failed and what it said.
    pub fn unplug(&self, server: usize) -> Result<(), String> {
        ip(&["-n", &self.hub(), "link", "set", &port(server), "down"]).map(drop)
    }

    /// Puts a server back on the bridge.
    ///
    /// # Errors
    /// As [`Network::unplug`].
    pub fn plug(&self, server: usize) -> Result<(), String> {
        ip(&["-n", &self.hub(), "link", "set", &port(server), "up"]).map(drop)
    }

    /// Lets nothing more go from one server to another. What comes the other way still arrives.
    ///
    /// # Errors
    /// As [`Network::unplug`].
    pub fn block(&self, from: usize, to: usize) -> Result<(), String> {
        let (own, to) = (self.name(from), self.address(to).to_string());
        ip(&["-n", &own, "route", "replace", "blackhole", &to]).map(drop)
    }

    /// Lets everything go from one server to another again.
    ///
    /// # Errors
    /// As [`Network::unplug`]; not when nothing was blocked.
    pub fn unblock(&self, from: usize, to: usize) -> Result<(), String> {
        let (own, to) = (self.name(from), self.address(to).to_string());
        match ip(&["-n", &own, "route", "del", "blackhole", &to]) {
            Err(why) if !why.contains("No such process") => Err(why),
            _ => Ok(()),
        }
    }

    /// Lets everything go from one server to all others again.
    ///
    /// # Errors
    /// As [`Network::unplug`].
    pub fn unblock_all(&self, from: usize) -> Result<(), String> {
        ip(&["-n", &self.name(from), "-4", "route", "flush", "type", "blackhole"]).map(drop)
    }

    /// Removes all of it. The number stays ours until dropped, so doing it twice does no harm.
    pub fn remove(&self) {
        remove(self.subnet.number);
    }

    /// The namespace of the bridge; and, in the suite's own, the interface that leads to it.
    fn hub(&self) -> String {
        format!("{PREFIX}{}", self.subnet.number)
    }

    fn name(&self, server: usize) -> String {
        format!("{PREFIX}{}-{server}", self.subnet.number)
    }

    fn with_mask(&self, host: u8) -> String {
        format!("{}/24", self.subnet.address(host))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether this machine lets the suite make such a network. It is tried, with one server.
///
/// # Errors
/// Why not, and what to do.
pub fn links_capability() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err(
            "servers can be cut off from each other on Linux only: it takes network namespaces".into()
        );
    }
    if !rustix::process::geteuid().is_root() {
        return Err(
            "only root may make network namespaces: run it as root. (A user namespace, as `unshare --user \
                    --map-root-user --net --pid` makes one, is not used.)"
                .into(),
        );
    }
    Network::create(1).map(drop)
}

/// A server's end of the line on the bridge.
fn port(server: usize) -> String {
    format!("server{server}")
}

/// The last part of a server's address.
fn host(server: usize) -> u8 {
    u8::try_from(server).unwrap_or(u8::MAX)
}

/// Removes the networks whose owners are gone. What cannot be removed stays, and its number is passed over.
fn remove_stale() {
    let mut numbers: Vec<u8> = names().iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        if let Some(_ours_meanwhile) = subnet::lock(number) {
            remove(number);
        }
    }
}

fn remove(number: u8) {
    // The interface first: it would otherwise go some time after its namespace.
    let _ = ip(&["link", "del", &format!("{PREFIX}{number}")]);
    for name in names().iter().filter(|name| number_of(name) == Some(number)) {
        let _ = ip(&["netns", "del", name]);
    }
}

/// The names of all namespaces on this machine.
fn names() -> Vec<String> {
    let told = ip(&["netns", "list"]).unwrap_or_default();
    told.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

/// The number of the network to which a namespace belongs, if it is one of ours.
fn number_of(name: &str) -> Option<u8> {
    let rest = name.strip_prefix(PREFIX)?;
    let (number, server) = rest.split_once('-').unwrap_or((rest, "0"));
    server.parse::<u8>().ok().and(number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_suite_gives_are_taken_for_its_own() {
        assert_eq!(number_of("zklb7"), Some(7));
        assert_eq!(number_of("zklb7-3"), Some(7));
        for foreign in ["zklb", "zklb-3", "zklbx", "zklb7-x", "zklb999", "docker", "7"] {
            assert_eq!(number_of(foreign), None, "{foreign}");
        }
    }
}
