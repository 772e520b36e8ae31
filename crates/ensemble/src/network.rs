//! A network for one ensemble: each server has its own network namespace, and all servers share a bridge.
//!
//! The bridge is in a namespace, too, so this machine's firewall rules don't apply to traffic between
//! servers. Docker's rules, for example, drop packets on any bridge other than Docker's. A veth pair connects
//! the bridge to the suite.
//!
//! The namespaces are unnamed: the kernel removes them and their veth pairs when the suite and the servers
//! exit. A killed run therefore leaves no network behind.
//!
//! A thread briefly enters a namespace to open a socket; a child process stays in its namespace. Links are
//! created and cut with `ip` from iproute2.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use serde::Deserialize;

use super::ports::ServerPorts;

use zklockbench_core::locked::locked;

/// Last octet of the suite's address.
const SUITE: u8 = 254;
/// Client, quorum and election port. Every server has its own address, so all servers use the default ports.
const PORTS: (u16, u16, u16) = (2181, 2888, 3888);
const TAKEN: &str = "File exists";

#[derive(Debug)]
pub struct Network {
    subnet: Subnet,
    hub: PathBuf,
    servers: Vec<PathBuf>,
    /// Handles that keep the namespaces of the bridge and the servers alive, in this order.
    held: Mutex<Vec<Namespace>>,
}

impl Network {
    pub fn create(servers: usize) -> Result<Self, String> {
        let held: Vec<Namespace> = (0..=servers)
            .map(|_| Namespace::create())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("cannot create a network namespace: {error}"))?;
        let mut paths = held.iter().map(Namespace::path);
        let hub = paths.next().unwrap_or_default();
        let servers = paths.collect();
        let network = Self { subnet: claim(&hub)?, hub, servers, held: Mutex::new(held) };
        network.build().map(|()| network)
    }

    fn build(&self) -> Result<(), String> {
        let suite = self.subnet.interface();
        ip_in(&self.hub, &["link", "add", "name", "hub", "type", "bridge"])?;
        ip_in(&self.hub, &["link", "set", "hub", "up"])?;
        ip_in(&self.hub, &["link", "set", "suite", "master", "hub", "up"])?;
        ip(&["addr", "add", &self.with_mask(SUITE), "dev", &suite])?;
        ip(&["link", "set", &suite, "up"])?;
        (1..=self.servers.len()).try_for_each(|server| self.build_for(server))
    }

    fn build_for(&self, server: usize) -> Result<(), String> {
        let (hub, own, port) = (&self.hub, &self.servers[server - 1], port(server));
        let there = own.display().to_string();
        let pair = ["link", "add", "name", &port, "type", "veth", "peer", "name", "eth0", "netns", &there];
        ip_in(hub, &pair)?;
        ip_in(hub, &["link", "set", &port, "master", "hub", "up"])?;
        ip_in(own, &["addr", "add", &self.with_mask(host(server)), "dev", "eth0"])?;
        ip_in(own, &["link", "set", "eth0", "up"])?;
        ip_in(own, &["link", "set", "lo", "up"])?;
        accept_from_unroutable(own)
            .map_err(|error| format!("cannot turn off rp_filter for server {server}: {error}"))
    }

    pub fn ports(&self) -> Vec<ServerPorts> {
        let (client, quorum, election) = PORTS;
        (1..=self.servers.len())
            .map(|server| ServerPorts { host: self.address(server), client, quorum, election })
            .collect()
    }

    pub fn address(&self, server: usize) -> Ipv4Addr {
        self.subnet.address(host(server))
    }

    pub fn suite(&self) -> Ipv4Addr {
        self.subnet.address(SUITE)
    }

    pub fn namespace(&self, server: usize) -> PathBuf {
        self.servers.get(server - 1).cloned().unwrap_or_default()
    }

    /// Disconnects a server from the bridge in both directions.
    pub fn unplug(&self, server: usize) -> Result<(), String> {
        ip_in(&self.hub, &["link", "set", &port(server), "down"]).map(drop)
    }

    pub fn plug(&self, server: usize) -> Result<(), String> {
        ip_in(&self.hub, &["link", "set", &port(server), "up"]).map(drop)
    }

    /// Drops everything that `from` sends to `to`. The opposite direction still works.
    pub fn block(&self, from: usize, to: usize) -> Result<(), String> {
        let to = self.address(to).to_string();
        ip_in(&self.namespace(from), &["route", "replace", "blackhole", &to]).map(drop)
    }

    pub fn unblock(&self, from: usize, to: usize) -> Result<(), String> {
        let to = self.address(to).to_string();
        match ip_in(&self.namespace(from), &["route", "del", "blackhole", &to]) {
            Err(why) if !why.contains("No such process") => Err(why),
            _ => Ok(()),
        }
    }

    pub fn unblock_all(&self, from: usize) -> Result<(), String> {
        ip_in(&self.namespace(from), &["-4", "route", "flush", "type", "blackhole"]).map(drop)
    }

    /// Removes the network. Idempotent.
    pub fn remove(&self) {
        let held: Vec<Namespace> = locked(&self.held).drain(..).collect();
        // Delete the interface explicitly, because otherwise it disappears only some time after its namespace.
        // If the namespaces were removed earlier, another network may own an interface with this name.
        if !held.is_empty() {
            let _ = ip(&["link", "del", &self.subnet.interface()]);
        }
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

/// Checks whether this machine allows such a network by creating one for a single server.
pub fn links_capability() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err("servers can be partitioned only on Linux, which has network namespaces".into());
    }
    is_allowed()?;
    Network::create(1).map(drop)
}

/// Claims a network number by creating the veth pair between suite and bridge. The pair's name is unique, so
/// only one run can create it.
fn claim(hub: &Path) -> Result<Subnet, String> {
    let (there, routes) = (hub.display().to_string(), routes()?);
    // Skip subnets that overlap a route of this machine.
    let free = NUMBERS.filter_map(|number| free_base(number, &routes).map(|base| Subnet { number, base }));
    for subnet in free {
        let own = subnet.interface();
        let pair = ["link", "add", "name", &own, "type", "veth", "peer", "name", "suite", "netns", &there];
        match ip(&pair) {
            Err(why) if why.contains(TAKEN) => {}
            made => return made.map(|_| subnet),
        }
    }
    Err("all address ranges for servers are in use (see `ip route`)".into())
}

/// Disables reverse-path filtering, which would make every cut bidirectional: a namespace without a route *to*
/// a server would also drop packets *from* that server.
fn accept_from_unroutable(namespace: &Path) -> io::Result<()> {
    let switch_off = || -> io::Result<()> {
        for interface in ["all", "eth0"] {
            let path = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
            // The file may be read-only, so write it only if the filter is on.
            if std::fs::read_to_string(&path)?.trim() != "0" {
                std::fs::write(&path, "0")?;
            }
        }
        Ok(())
    };
    inside(Some(namespace), switch_off).and_then(|done| done)
}

/// Returns the name of a server's port on the bridge.
fn port(server: usize) -> String {
    format!("server{server}")
}

/// Returns the last octet of a server's address.
fn host(server: usize) -> u8 {
    u8::try_from(server).unwrap_or(u8::MAX)
}

const PREFIX: &str = "zklb";
/// Values for the third octet of addresses; each network has its own.
const NUMBERS: std::ops::Range<u8> = 0..250;
/// First two octets: private ranges that are rarely used, then the range reserved for benchmarks.
const BASES: [[u8; 2]; 3] = [[10, 213], [172, 29], [198, 18]];

/// A network number and its address range.
#[derive(Debug)]
struct Subnet {
    number: u8,
    base: [u8; 2],
}

impl Subnet {
    pub fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.base[0], self.base[1], self.number, host)
    }

    /// Returns the name of the suite's interface. The run that created the interface owns the number.
    pub fn interface(&self) -> String {
        format!("{PREFIX}{}", self.number)
    }
}

/// Returns the first address of a range that overlaps no route of this machine. The range is chosen
/// at random and not claimed, so two callers rarely get the same range.
pub fn any_free_subnet() -> Option<Ipv4Addr> {
    // If the routes cannot be read, any range may be returned; creating a network in a used range fails.
    let routes = routes().unwrap_or_default();
    let first = rand::random_range(NUMBERS);
    let base = (first..NUMBERS.end).chain(NUMBERS.start..first);
    base.into_iter().find_map(|number| {
        let [a, b] = free_base(number, &routes)?;
        Some(Ipv4Addr::new(a, b, number, 0))
    })
}

/// First address and prefix length of an address range.
type Range = (u32, u32);

#[derive(Deserialize)]
struct Route {
    dst: String,
}

/// Returns the destinations of this machine's routes, except the default route.
fn routes() -> Result<Vec<Range>, String> {
    let told = ip(&["-j", "-4", "route", "show", "table", "all"])?;
    if told.trim().is_empty() {
        return Ok(Vec::new());
    }
    let routes: Vec<Route> = serde_json::from_str(&told)
        .map_err(|error| format!("cannot parse the output of `ip -j -4 route show table all`: {error}"))?;
    Ok(routes.iter().filter_map(|route| range(&route.dst)).collect())
}

/// Parses a route's destination. Returns `None` for the default route, which blocks no range.
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

/// An unnamed network namespace, removed once this handle is dropped and no process is left in it.
#[derive(Debug)]
struct Namespace(File);

impl Namespace {
    pub fn create() -> io::Result<Self> {
        // `unshare` affects only this short-lived thread. The open file keeps the namespace alive.
        let made = std::thread::spawn(|| {
            unshare(false)?;
            File::open("/proc/thread-self/ns/net")
        });
        made.join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
            .map(Self)
    }

    /// Returns the path by which this process and its children can open the namespace while it is held.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }
}

/// Runs a closure in a network namespace (`None`: the current one). The sockets that it opens stay in that namespace.
pub fn inside<T: Send>(namespace: Option<&Path>, what: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(namespace) = namespace else { return Ok(what()) };
    // Use a short-lived thread, because a thread stays in the namespace that it enters.
    std::thread::scope(|scope| {
        let visit = scope.spawn(|| entry(namespace)?().map(|()| what()));
        visit.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}

/// Makes a child start in a network namespace.
#[allow(unsafe_code, reason = "the only way to run code between fork and exec")]
pub fn live_in(command: &mut Command, namespace: &Path) -> io::Result<()> {
    let enter = entry(namespace)?;
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `enter` makes one system call
    // and allocates nothing.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// Opens a namespace. The returned closure moves the calling thread into the namespace.
#[cfg(target_os = "linux")]
fn entry(namespace: &Path) -> io::Result<impl Fn() -> io::Result<()> + Send + Sync + use<>> {
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let opened = std::fs::File::open(namespace)?;
    Ok(move || Ok(move_into_link_name_space(opened.as_fd(), Some(LinkNameSpaceType::Network))?))
}

#[cfg(not(target_os = "linux"))]
fn entry(_namespace: &Path) -> io::Result<impl Fn() -> io::Result<()> + Send + Sync + use<>> {
    Err::<fn() -> io::Result<()>, _>(io::Error::from(io::ErrorKind::Unsupported))
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    run(None, arguments)
}

/// Runs `ip` in a network namespace. (`ip -n` would need a named namespace and a mount namespace.)
fn ip_in(namespace: &Path, arguments: &[&str]) -> Result<String, String> {
    run(Some(namespace), arguments)
}

fn run(namespace: Option<&Path>, arguments: &[&str]) -> Result<String, String> {
    let command = || format!("`ip {}`", arguments.join(" "));
    let mut ip = Command::new("ip");
    if let Some(namespace) = namespace {
        live_in(&mut ip, namespace)
            .map_err(|error| format!("cannot run {} in {}: {error}", command(), namespace.display()))?;
    }
    // Use a separate process group, so that Ctrl-C leaves no half-built network behind.
    ip.args(arguments).env("LC_ALL", "C").process_group(0);
    let output = ip.output().map_err(|error| {
        format!("cannot run {}: {error}. Install iproute2 (Debian: apt-get install -y iproute2)", command())
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{} failed ({}): {said}", command(), output.status))
}

/// Reason why this process could not move into its own network namespace.
static REFUSED: OnceLock<String> = OnceLock::new();

/// If `is_needed` and this process does not run as root, moves this process into its own user and network
/// namespace, isolated from this machine's network. Must be called before any thread starts.
///
/// Moving the process avoids a child process: signals, exit code, streams and process ID stay the same, and
/// files belong to the user. If moving fails, [`links_capability`](super::links_capability) returns the reason.
pub fn leave_for_own_network(is_needed: impl FnOnce() -> bool) {
    if rustix::process::geteuid().is_root() || !is_needed() {
        return;
    }
    if let Err(why) = leave() {
        let _ = REFUSED.set(why);
    }
}

/// Checks whether network namespaces may be created, without creating one.
fn is_allowed() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let why = REFUSED.get().map_or("this process did not request one at startup", String::as_str);
    Err(format!(
        "this needs root or a user namespace, but neither is available: {why}. Run as root, or allow user namespaces"
    ))
}

fn leave() -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(true).map_err(|error| refusal(&error))?;
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|error| format!("cannot write {file}: {error}"))
    };
    // The kernel accepts a gid_map only after setgroups has been denied.
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    ip(&["link", "set", "lo", "up"]).map(drop)
}

fn refusal(error: &io::Error) -> String {
    use rustix::io::Errno;
    let meaning = match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::USERS) => {
            "user namespaces are exhausted (sysctl user.max_user_namespaces)"
        }
        Some(Errno::PERM) => {
            "forbidden by sysctl kernel.unprivileged_userns_clone, AppArmor, or a container's seccomp profile"
        }
        _ => "the system refused to create a user namespace",
    };
    format!("{meaning}: {error}")
}

/// Moves the calling thread into a new network namespace, and into a new user namespace if `user` is set.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "rustix marks the call as unsafe because of flags that are not used here")]
fn unshare(user: bool) -> io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    let flags = if user { UnshareFlags::NEWUSER | UnshareFlags::NEWNET } else { UnshareFlags::NEWNET };
    // SAFETY: only unsharing the table of open files is unsafe, and these flags do not unshare it.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

#[cfg(not(target_os = "linux"))]
fn unshare(_user: bool) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &[&str]) -> Vec<Range> {
        text.iter().filter_map(|text| range(text)).collect()
    }

    #[test]
    fn range_that_overlaps_a_route_is_not_chosen() {
        assert_eq!(free_base(7, &[]), Some([10, 213]));
        assert_eq!(free_base(7, &ranges(&["10.213.8.0/24", "172.17.0.0/16"])), Some([10, 213]));
        assert_eq!(free_base(7, &ranges(&["10.213.7.9"])), Some([172, 29]));
        assert_eq!(free_base(7, &ranges(&["10.0.0.0/8", "172.16.0.0/12"])), Some([198, 18]));
        assert_eq!(free_base(7, &ranges(&["10.0.0.0/8", "172.16.0.0/12", "198.18.0.0/15"])), None);
    }

    #[test]
    fn default_route_does_not_block_any_range() {
        assert_eq!(ranges(&["default", "0.0.0.0/0"]), []);
    }

    #[test]
    fn inside_runs_in_the_current_namespace_and_fails_in_a_missing_namespace() {
        assert_eq!(inside(None, || 7).unwrap(), 7);
        let gone = inside(Some(Path::new("/proc/self/fd/zklb-nowhere")), || 7);
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn failed_ip_command_is_reported_with_its_stderr() {
        let why = ip(&["link", "show", "zklb-nowhere"]).unwrap_err();
        assert!(why.contains("`ip link show zklb-nowhere`") && why.contains("does not exist"), "{why}");
    }

    #[test]
    fn refusal_contains_the_setting_that_forbids_namespaces() {
        let of = |errno: rustix::io::Errno| refusal(&io::Error::from(errno));
        assert!(of(rustix::io::Errno::NOSPC).contains("user.max_user_namespaces"));
        assert!(of(rustix::io::Errno::PERM).contains("seccomp"));
        assert!(of(rustix::io::Errno::INVAL).contains("Invalid argument"));
    }
}
