//! `--metrics-push`: sends metrics to a remote-write receiver, such as Prometheus.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zklockbench_core::error::Error;
use zklockbench_report::ci::remote_write::{self, Series};

const WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of bytes read from a response.
const ANSWER: u64 = 64 * 1024;

/// Address of a receiver: `http://HOST[:PORT]/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    authority: String,
    path: String,
}

/// Parses the value of `--metrics-push`.
pub fn receiver(url: &str) -> Result<Receiver, String> {
    let rest = url.strip_prefix("http://").ok_or(
        "only http:// is supported; for https:// or a password, push to a Prometheus agent or collector on this host",
    )?;
    let is_plain = |c: char| c.is_ascii_graphic() && c != '@';
    let (authority, path) = rest
        .split_once('/')
        .filter(|(authority, _)| !authority.is_empty())
        .ok_or("write the complete address, e.g. http://localhost:9090/api/v1/write")?;
    if !rest.chars().all(is_plain) {
        return Err("the address must not contain a space, a user or a special character".into());
    }
    if path.starts_with("metrics/job") {
        return Err(
            "a Pushgateway does not accept remote write: use --openmetrics FILE, and send the file with \
                    `curl --data-binary @FILE ADDRESS`"
                .into(),
        );
    }
    Ok(Receiver { authority: authority.to_owned(), path: format!("/{path}") })
}

impl Receiver {
    /// Connects to the receiver. Called before a run to check that the receiver is reachable.
    pub fn reach(&self) -> Result<TcpStream, Error> {
        let has_port = self.authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let address = if has_port { self.authority.clone() } else { format!("{}:80", self.authority) };
        let connect = || {
            let mut failure = std::io::Error::other("the host name has no address");
            for address in address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, WITHIN) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        };
        connect().map_err(|error: std::io::Error| self.failed(&error.to_string()))
    }

    /// Sends the samples with the current time.
    #[expect(clippy::disallowed_methods, reason = "receivers reject samples that are not current")]
    pub fn push(&self, series: Vec<Series>) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let body = remote_write::body(series, i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: zklockbench\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n",
            self.path,
            self.authority,
            remote_write::HEADERS,
            body.len()
        );
        let mut stream = self.reach()?;
        let mut exchange = || {
            stream.set_read_timeout(Some(WITHIN))?;
            stream.set_write_timeout(Some(WITHIN))?;
            stream.write_all(&[head.as_bytes(), &body].concat())?;
            let mut lines = BufReader::new((&stream).take(ANSWER)).lines();
            let status = lines.next().transpose()?.unwrap_or_default();
            let reason = lines.map_while(Result::ok).skip_while(|line| !line.is_empty()).nth(1);
            Ok((status, reason.unwrap_or_default()))
        };
        let (status, reason) = exchange().map_err(|error: std::io::Error| self.failed(&error.to_string()))?;
        match status.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok(()),
            _ => Err(self.failed(format!("the receiver answered `{status}` {reason}").trim_end())),
        }
    }

    fn failed(&self, why: &str) -> Error {
        Error::environment(format!(
            "cannot push metrics to http://{}{}: {why}; to push the metrics of a finished run, use `zklockbench export \
            RUN --metrics-push URL`",
            self.authority, self.path
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_without_a_complete_plain_http_address_are_rejected() {
        let parsed = receiver("http://localhost:9090/api/v1/write").unwrap();
        assert_eq!((parsed.authority.as_str(), parsed.path.as_str()), ("localhost:9090", "/api/v1/write"));
        for (wrong, why) in [
            ("https://host/api/v1/write", "only http://"),
            ("localhost:9090", "only http://"),
            ("http://localhost:9090", "complete address"),
            ("http:///api/v1/write", "complete address"),
            ("http://user:word@host/write", "a user"),
            ("http://host/a b", "a space"),
            ("http://host:9091/metrics/job/x", "use --openmetrics FILE"),
        ] {
            assert!(receiver(wrong).unwrap_err().contains(why), "{wrong}");
        }
    }
}
