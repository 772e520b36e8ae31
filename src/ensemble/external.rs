//! An ensemble that somebody else runs: its connect string taken apart, and what its servers tell.

use crate::error::Error;

/// The client port of a server that names none.
const DEFAULT_PORT: u16 = 2181;

/// A connect string, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// As given.
    pub connect: String,
    /// `host:port` of each server.
    pub addresses: Vec<String>,
    /// The path under which everything happens, without a slash at its end; empty for the root.
    pub chroot: String,
}

impl External {
    /// Takes a connect string apart: `host:port,host:port/chroot`.
    ///
    /// # Errors
    /// Says which part is wrong.
    pub fn parse(connect: &str) -> Result<Self, Error> {
        let wrong = |what: String| {
            Error::usage(format!(
                "`{connect}` is no connect string: {what}. Write host:port,host:port/chroot"
            ))
        };
        let (hosts, chroot) = match connect.find('/') {
            Some(slash) => connect.split_at(slash),
            None => (connect, ""),
        };
        if chroot.contains("//") {
            return Err(wrong(format!("the chroot `{chroot}` has an empty part")));
        }
        let addresses = hosts.split(',').map(address).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        Ok(Self { connect: connect.to_owned(), addresses, chroot: chroot.trim_end_matches('/').to_owned() })
    }

    /// Whether all its servers are on this machine, as far as their names tell.
    #[must_use]
    pub fn shares_host(&self) -> bool {
        let local = |address: &String| {
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        self.addresses.iter().all(local)
    }
}

fn address(text: &str) -> Result<String, String> {
    // An IPv6 address has colons of its own and therefore brackets.
    let (host, port) = match text.rfind(':').filter(|colon| !text[*colon..].contains(']')) {
        Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
        None => (text, None),
    };
    if host.is_empty() || host.chars().any(char::is_whitespace) {
        return Err(format!("`{text}` has no host"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("`{port}` in `{text}` is no port")),
        },
    };
    Ok(format!("{host}:{port}"))
}

/// The top-level node that a path below the chroot lies under: servers keep metrics for each of them.
#[must_use]
pub fn namespace_of(chroot: &str, top: &str) -> String {
    let whole = format!("{chroot}{top}");
    whole.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_chroot_are_told_apart() {
        let external = External::parse("zk1:2181,zk2,[::1]:2183/some/chroot").unwrap();
        assert_eq!(external.addresses, ["zk1:2181", "zk2:2181", "[::1]:2183"]);
        assert_eq!(external.chroot, "/some/chroot");
        assert_eq!(External::parse("zk1/").unwrap().chroot, "");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (connect, part) in [
            ("", "no host"),
            ("a:1,,b:2", "no host"),
            ("a:port", "`port`"),
            ("a:0", "no port"),
            ("a:70000", "`70000`"),
            ("a:1//b", "empty part"),
        ] {
            let message = External::parse(connect).unwrap_err().to_string();
            assert!(message.contains(part), "{connect}: {message}");
        }
    }

    #[test]
    fn only_loopback_shares_the_host() {
        assert!(External::parse("127.0.0.1:1,localhost:2,[::1]:3").unwrap().shares_host());
        assert!(!External::parse("127.0.0.1:1,zk2:2").unwrap().shares_host());
    }

    #[test]
    fn metrics_are_kept_under_the_first_node_of_the_chroot() {
        assert_eq!(namespace_of("", "/zklockbench"), "zklockbench");
        assert_eq!(namespace_of("/some/chroot", "/zklockbench"), "some");
    }
}
