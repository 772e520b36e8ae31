//! Parsing and validation of connect strings, which contain the addresses of an ensemble.

use std::net::Ipv6Addr;

use crate::units::shown;

const DEFAULT_PORT: u16 = 2181;
/// Maximum length of a connect string: enough for a hundred servers with names of eighty characters.
const BYTES_AT_MOST: usize = 8 * 1024;
const SERVERS_AT_MOST: usize = 100;
const SHOWN: usize = 60;

pub const FORM: &str = "host:port,host:port/chroot";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// `host:port` of each server.
    pub addresses: Vec<String>,
    /// Path prefix of all operations, without a trailing slash; empty for the root.
    pub chroot: String,
}

impl Connect {
    /// Parses a connect string. As in the Java client, empty entries and spaces around servers are ignored.
    ///
    /// # Errors
    /// The error quotes the invalid part, shortened to fit on a line and with unprintable characters escaped. It quotes
    /// nothing before the last `@`, because a password may contain any character.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = Self::without_credentials(text);
        let Some((_, rest)) = text.rsplit_once('@').filter(|_| parsed.is_err()) else { return parsed };
        Err(match Self::without_credentials(rest) {
            Ok(_) => format!(
                "`{}` must not follow credentials: use --auth or --sasl for them",
                shown(rest.trim(), SHOWN)
            ),
            Err(why) => why,
        })
    }

    fn without_credentials(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_AT_MOST {
            return Err(format!(
                "a connect string can have at most {BYTES_AT_MOST} bytes; found {}",
                text.len()
            ));
        }
        let text = text.trim();
        if text.starts_with(['"', '\'']) {
            return Err("remove the quotes".into());
        }
        if let Some(at) = text.find("://") {
            let start = text[..at].rfind(',').map_or(0, |before| before + 1);
            let scheme = shown(&text[start..at + 3], SHOWN);
            return Err(format!("drop `{scheme}`; use --tls for TLS ports"));
        }
        let (hosts, path) = text.find('/').map_or((text, ""), |slash| text.split_at(slash));
        let is_after_password =
            |(_, host): (&str, &str)| host.contains(':') && Self::without_credentials(host).is_ok();
        if hosts.contains('@') || path.rsplit_once('@').is_some_and(is_after_password) {
            return Err("a connect string cannot contain credentials".into());
        }
        let servers: Vec<&str> = hosts.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        if servers.len() > SERVERS_AT_MOST {
            return Err(format!(
                "a connect string can have at most {SERVERS_AT_MOST} servers; found {}",
                servers.len()
            ));
        }
        if servers.is_empty() {
            return Err(format!("`{}` contains no server", shown(text, SHOWN)));
        }
        if path.contains(',') {
            return Err(format!(
                "`{}` is not a chroot: the chroot must follow the last server",
                shown(path, SHOWN)
            ));
        }
        if let Some(why) = chroot_problem(path) {
            return Err(format!("`{}` is not a chroot: {why}", shown(path, SHOWN)));
        }
        let addresses = servers.into_iter().map(address).collect::<Result<_, _>>()?;
        Ok(Self { addresses, chroot: path.trim_end_matches('/').to_owned() })
    }

    /// Formats the connect string in the form that every client accepts: `host:port,host:port/chroot`.
    pub fn text(&self) -> String {
        self.addresses.join(",") + &self.chroot
    }
}

fn address(text: &str) -> Result<String, String> {
    if let Some(why) = foreign_form(text) {
        return Err(format!("`{}` {why}", shown(text, SHOWN)));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{text}]:{DEFAULT_PORT}"));
    }
    let (host, port) = match text.rfind(':').filter(|colon| !text[*colon..].contains(']')) {
        Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
        None => (text, None),
    };
    if !is_host(host) {
        return Err(format!("`{}` is not a host", shown(text, SHOWN)));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("`{}` has no valid port", shown(text, SHOWN))),
        },
    };
    Ok(format!("{host}:{port}"))
}

/// Explains what is wrong with an address in another system's syntax, and what to write instead.
fn foreign_form(text: &str) -> Option<&'static str> {
    let ends_with_port = || {
        let (host, port) = text.rsplit_once(':')?;
        (host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok()).then_some(())
    };
    if text.contains(char::is_whitespace) {
        Some("contains spaces: separate servers with commas")
    } else if text.contains(';') {
        Some("contains a `;`: separate servers with commas, and include only their client ports")
    } else if text.contains('%') {
        Some("contains a network interface (%), which is not supported: use another address of the server")
    } else if text.starts_with('_') && ["._tcp.", "._udp."].iter().any(|part| text.contains(part)) {
        Some("is an SRV record, which is not supported: list its servers as host:port")
    } else if text.starts_with('[') || text.matches(':').count() < 2 {
        None
    } else if ends_with_port().is_some() {
        Some("needs brackets around the IPv6 address: write [::1]:2181")
    } else {
        let is_address = text.parse::<Ipv6Addr>().is_ok();
        (!is_address).then_some("has more than one port: use only the client port, e.g. zk1:2181")
    }
}

/// Returns whether `host` is an IP address or a valid host name. For TLS, the client library accepts nothing
/// else.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_label = |label: &str| {
        let fits = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        (1..=63).contains(&label.len()) && fits && !label.starts_with('-') && !label.ends_with('-')
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(is_label)
}

/// Explains why ZooKeeper would reject the path; `None` if the path is valid.
fn chroot_problem(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    if matches!(parts[..], [] | [""]) {
        return None;
    }
    if parts.iter().any(|part| part.is_empty()) {
        return Some("it contains an empty component");
    }
    if parts.iter().any(|part| [".", ".."].contains(part)) {
        return Some("no component of a ZooKeeper path may be `.` or `..`");
    }
    let is_forbidden =
        |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    path.contains(is_forbidden).then_some("it contains a character that ZooKeeper forbids in paths")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_separates_hosts_ports_and_chroot() {
        let connect = Connect::parse("zk1:2181,zk2,[::1]:2183/some/chroot").unwrap();
        assert_eq!(connect.addresses, ["zk1:2181", "zk2:2181", "[::1]:2183"]);
        assert_eq!(connect.chroot, "/some/chroot");
        assert_eq!(Connect::parse("zk1/").unwrap().chroot, "");
    }

    #[test]
    fn parse_normalises_connect_strings_written_for_other_clients() {
        for (given, text) in [
            (" zk1:2181, zk2:2181 ,", "zk1:2181,zk2:2181"),
            ("zk1,,zk2/app", "zk1:2181,zk2:2181/app"),
            ("zk1:2181,/app", "zk1:2181/app"),
            ("[::1]", "[::1]:2181"),
            ("::1,[fe80::2]:2182", "[::1]:2181,[fe80::2]:2182"),
            ("2001:db8::a:b", "[2001:db8::a:b]:2181"),
            ("zk_1.my-net.svc.cluster.local.:2181", "zk_1.my-net.svc.cluster.local.:2181"),
        ] {
            assert_eq!(Connect::parse(given).map(|connect| connect.text()).as_deref(), Ok(text), "{given:?}");
        }
    }

    #[test]
    fn parse_errors_quote_the_invalid_part() {
        for (connect, part) in [
            ("", "`` contains no server"),
            (" , ,", "contains no server"),
            ("/app", "`/app` contains no server"),
            ("a:port", "`a:port` has no valid port"),
            ("a:0", "no valid port"),
            ("a:70000", "`a:70000`"),
            ("::1:2181", "`::1:2181` needs brackets"),
            ("zoo1:2888:3888", "more than one port"),
            ("zoo1:2888:3888;2181", "contains a `;`"),
            ("a:1;b:1", "`a:1;b:1` contains a `;`: separate servers with commas"),
            ("fe80::1%eth0", "(%)"),
            ("_client._tcp.zk.svc:2181", "an SRV record, which is not supported"),
            ("[nothing]:1", "not a host"),
            ("-a:1", "not a host"),
            ("a..b:1", "not a host"),
            ("é:1", "not a host"),
            ("a b:1", "`a b:1` contains spaces: separate servers with commas"),
            ("tcp+tls://a:1", "drop `tcp+tls://`"),
            ("a:1,zk://b:1", "drop `zk://`"),
            ("user:secret@zk://a:1", "drop `zk://`"),
            ("\"a:1\"", "remove the quotes"),
            ("user:pa,ss@zk1:2181", "`zk1:2181` must not follow credentials: use --auth or --sasl"),
            ("a:secret/s@zk1:2181", "`zk1:2181` must not follow"),
            ("a:21/secret@zk1:2181/app", "`zk1:2181/app` must not follow"),
            ("a:secret@s:/@zk1", "`zk1` must not follow"),
            ("zk://a:secret@zk1", "`zk1` must not follow"),
            ("a:secret://@zk1;zk2", "`zk1;zk2` contains a `;`"),
            ("a:1/b,c:2", "the chroot must follow the last server"),
            ("a:1//b", "it contains an empty component"),
            ("a:1/b/", "it contains an empty component"),
            ("a:1/b/../c", "`/b/../c` is not a chroot: no component"),
            ("a:1/.", "no component"),
            ("a:1/\u{7}", "`/\\u{7}` is not a chroot: it contains a character"),
        ] {
            let problem = Connect::parse(connect).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("secret"), "{connect:?}: {problem}");
        }
        assert_eq!(Connect::parse("zk1/app@1").unwrap().chroot, "/app@1");
    }

    #[test]
    fn parse_errors_are_short_and_escaped_for_huge_or_unprintable_input() {
        for wrong in [
            "a,".repeat(4_800_000),
            "a,".repeat(150),
            "x\u{1b}]0;y\u{7}".into(),
            format!("a/{}", "b\u{1b}".repeat(500)),
        ] {
            let problem = Connect::parse(&wrong).unwrap_err();
            assert!(problem.len() < 600 && !problem.contains(char::is_control), "{problem:?}");
        }
    }
}
