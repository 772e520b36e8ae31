//! An ensemble that others run: its connect string taken apart, and what its servers tell.

use crate::words::connect::{Connect, FORM};
use crate::words::error::Error;
use crate::world::zk::reach;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
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
        let Connect { addresses, chroot } = Connect::parse(connect)
            .map_err(|wrong| Error::usage(format!("--connect: {wrong}. Write {FORM}")))?;
        Ok(Self { connect: connect.to_owned(), addresses, chroot })
    }

    /// Finds out whether there is anything to wait for.
    ///
    /// # Errors
    /// When no server can be there: no name is known, and nothing listens.
    pub async fn reach(&self) -> Result<(), Error> {
        reach::listens(&self.addresses)
            .await
            .map_err(|why| Error::environment(format!("cannot connect to {}: {why}", self.connect)))
    }

    /// Whether all its servers are on this machine, as far as their names tell.
    pub fn shares_host(&self) -> bool {
        let local = |address: &String| {
            let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        self.addresses.iter().all(local)
    }
}

/// The top-level node that a path below the chroot lies under: servers keep metrics for each of them.
pub fn namespace_of(chroot: &str, top: &str) -> String {
    let whole = format!("{chroot}{top}");
    whole.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_names_the_option_and_the_form() {
        let message = External::parse("a:port").unwrap_err().to_string();
        assert_eq!(message, "--connect: `a:port` has no valid port. Write host:port,host:port/chroot");
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
