//! Opening sessions: connect string, chroot, digest authentication, TLS, and the choice of a session's
//! server.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zookeeper_client::{Client, Connector, TlsOptions};

use super::inner::Observed;
use super::session::Session;
use super::whose::{self, Password, SessionKey};
use super::{Failure, reactor};
use zklockbench_core::error::Error;

/// PEM files for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate authority that signed the servers' certificates; `None` for the system's authorities.
    pub ca: Option<PathBuf>,
    /// Client certificate, if servers require one.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// TLS options from files that were read and validated.
#[derive(Debug, Clone)]
pub struct Tls {
    options: TlsOptions,
    /// The files; `ca` is the one in use.
    pub files: TlsFiles,
}

/// A string that no output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// The secret itself, for a destination that other users cannot read.
    pub fn told(&self) -> &str {
        &self.0
    }

    pub fn drawn() -> Self {
        Self(format!("zklockbench:{}", uuid::Uuid::new_v4()))
    }

    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = read(file)?;
        Ok(Self(text.lines().next().unwrap_or_default().to_owned()))
    }
}

/// Maximum length of a server's reply in bytes. The longest reply in a run is a list of children with names
/// of about 60 bytes. This limit allows 250,000 contenders in one queue. Java clients accept 1 MiB unless
/// `jute.maxbuffer` is larger.
const LONGEST_FRAME: usize = 16 << 20;
/// Time after which an attempt to expire a session is repeated.
const TRIES_AGAIN: Duration = Duration::from_millis(100);

/// Credentials of the suite for an ensemble.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `user:password` of digest authentication; nodes are then created for this identity only.
    pub digest: Option<Secret>,
    pub tls: Option<Tls>,
}

impl Access {
    /// Reads the TLS files, if any. No error shows an identity.
    pub fn new(digest: Option<Secret>, files: Option<&TlsFiles>) -> Result<Self, Error> {
        let is_whole =
            |Secret(digest): &Secret| digest.split_once(':').is_some_and(|(user, _)| !user.is_empty());
        if !digest.as_ref().is_none_or(is_whole) {
            return Err(Error::usage(
                "--auth needs USER:PASSWORD (and so does the first line of --auth-file)",
            ));
        }
        Ok(Self { digest, tls: files.map(tls).transpose()? })
    }
}

fn tls(files: &TlsFiles) -> Result<Tls, Error> {
    // The client library trusts no authority by default.
    let system = || system_authorities(std::env::var_os(AUTHORITIES), &SYSTEM_AUTHORITIES.map(Path::new));
    let ca = files.ca.clone().map_or_else(system, Ok)?;
    let options = TlsOptions::default().with_pem_ca(&read(&ca)?).map_err(|error| not_pem(&ca, &error))?;
    let options = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            options.with_pem_identity(&read(cert)?, &read(key)?).map_err(|error| not_pem(cert, &error))?
        }
        (None, None) => options,
        _ => {
            return Err(Error::usage("a client certificate needs its key; give both or neither"));
        }
    };
    Ok(Tls { options, files: TlsFiles { ca: Some(ca), ..files.clone() } })
}

/// Environment variable with the file of certificate authorities.
const AUTHORITIES: &str = "SSL_CERT_FILE";
/// Their usual files: Debian and derivatives, Fedora and derivatives, SUSE; Alpine, BSD and macOS.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The file with the authorities that this system trusts.
fn system_authorities(variable: Option<OsString>, places: &[&Path]) -> Result<PathBuf, Error> {
    if let Some(file) = variable.filter(|file| !file.is_empty()).map(PathBuf::from) {
        let missing = || Error::usage(format!("{AUTHORITIES} names {}, which is no file", file.display()));
        return if file.is_file() { Ok(file) } else { Err(missing()) };
    }
    places.iter().find(|file| file.is_file()).map(|file| file.to_path_buf()).ok_or_else(|| {
        let names: Vec<_> = places.iter().map(|file| file.display().to_string()).collect();
        Error::usage(format!(
            "no system certificate authorities ({}): name a file with --tls-ca",
            names.join(", ")
        ))
    })
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
}

fn not_pem(path: &Path, error: &zookeeper_client::Error) -> Error {
    Error::usage(format!("{}: not usable as PEM: {error}", path.display()))
}

#[derive(Debug, Clone)]
pub struct Target {
    /// Connect string, such as `host:port,host:port/chroot`.
    pub connect: String,
    pub access: Access,
}

impl Target {
    /// The servers of the connect string, and its chroot with the slash; the chroot may be empty.
    pub fn parts(&self) -> (&str, &str) {
        self.connect.split_at(self.connect.find('/').unwrap_or(self.connect.len()))
    }

    /// The same chroot on other servers.
    pub fn on(&self, servers: &str) -> Self {
        Self { connect: format!("{servers}{}", self.parts().1), access: self.access.clone() }
    }

    /// Opens a session on the server at that position of the connect string (modulo their number), if it serves. With a random
    /// choice, as by other clients, ten contenders rarely have equal shares of the servers, and a session on the leader is
    /// served sooner: trials of the same lock would differ by chance alone.
    pub async fn open_at(
        &self,
        position: usize,
        session_timeout: Duration,
        deadline: Duration,
        observed: Observed,
    ) -> Result<Session, Failure> {
        let connector = self.connector().with_first_server(position);
        self.within(deadline, self.connected(connector, session_timeout), observed).await
    }

    /// The connect string, rotated so that the server at that position comes first; for clients that try
    /// servers in order.
    pub fn connect_from(&self, position: usize) -> String {
        let (servers, chroot) = self.parts();
        let mut servers: Vec<_> = servers.split(',').collect();
        let first = position % servers.len();
        servers.rotate_left(first);
        servers.join(",") + chroot
    }

    pub async fn open(
        &self,
        session_timeout: Duration,
        deadline: Duration,
        observed: Observed,
    ) -> Result<Session, Failure> {
        self.within(deadline, self.client(session_timeout), observed).await
    }

    async fn within(
        &self,
        deadline: Duration,
        connecting: impl Future<Output = Result<Client, Failure>>,
        observed: Observed,
    ) -> Result<Session, Failure> {
        let client = reactor::timeout(deadline, connecting)
            .await
            .ok_or_else(|| Failure::NotConnected(format!("no session within {deadline:?}")))??;
        Ok(Session::new(client, observed, self.access.digest.is_some()))
    }

    /// Expires a session from outside: another connection takes it over and closes it. Returns when a server has confirmed the
    /// end: it answered the close, or no longer knows the session.
    ///
    /// Source: the tests of Java's Curator and of Python's kazoo expire sessions this way.
    ///
    /// # Errors [`Failure`] if no server confirmed the end within the deadline, or if the password is unknown. The session may be
    /// over all the same.
    pub async fn expire(&self, key: SessionKey, deadline: Duration) -> Result<(), Failure> {
        if key.password == Password::NotTold {
            return Err(Failure::Refused(format!(
                "session 0x{:x} can't be expired from outside: the driver's `open` told no password",
                key.id()
            )));
        }
        let expiring = async {
            // Set after the session's own client reconnected and broke our connection. A later refusal may then be due to our own
            // close, which looks the same as a wrong password.
            let mut may_be_closed = false;
            loop {
                let connector = self.connector().with_session(key.session.clone());
                let ended = connector.end_session(self.access.tls.is_some(), &self.connect).await;
                match ended.map_err(Failure::from) {
                    // Servers answer a wrong password like a session that is over.
                    Err(Failure::SessionExpired) if key.password == Password::Told && !may_be_closed => {
                        return Err(Failure::Refused(format!(
                            "the servers refuse session 0x{:x}: it was over already, or its password is another",
                            key.id()
                        )));
                    }
                    Ok(()) | Err(Failure::SessionExpired) => return Ok(()),
                    // Servers may be electing.
                    Err(Failure::NotConnected(_)) => reactor::sleep(TRIES_AGAIN).await,
                    Err(Failure::ConnectionLoss) => {
                        may_be_closed = true;
                        reactor::sleep(TRIES_AGAIN).await;
                    }
                    Err(failure) => return Err(failure),
                }
            }
        };
        let expired = reactor::timeout(deadline, expiring).await;
        expired.unwrap_or_else(|| Err(Failure::NotConnected(format!("not closed within {deadline:?}"))))
    }

    /// Opens a plain client, for work that is not measured.
    pub async fn client(&self, session_timeout: Duration) -> Result<Client, Failure> {
        self.connected(self.connector(), session_timeout).await
    }

    async fn connected(&self, connector: Connector, session_timeout: Duration) -> Result<Client, Failure> {
        let connector = connector.with_session_timeout(session_timeout);
        let client = if self.access.tls.is_some() {
            connector.secure_connect(&self.connect).await
        } else {
            connector.connect(&self.connect).await
        };
        let client = client.map_err(|error| match Failure::from(error) {
            Failure::SessionExpired => Failure::NotConnected("no server answered in time".into()),
            other => other,
        })?;
        whose::note_own_session(client.session_id().0);
        Ok(client)
    }

    fn connector(&self) -> Connector {
        let mut connector =
            Client::connector().with_max_frame_length(LONGEST_FRAME).with_spawn(reactor::spawn_for_client);
        if let Some(digest) = &self.access.digest {
            connector = connector.with_auth("digest", digest.0.as_bytes());
        }
        match &self.access.tls {
            Some(tls) => connector.with_tls(tls.options.clone()),
            None => connector,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_hidden_in_errors_and_debug_output() {
        let wrong = Access::new(Some(Secret("hunter2".into())), None).unwrap_err().to_string();
        assert!(wrong.starts_with("--auth needs USER:PASSWORD") && !wrong.contains("hunter2"), "{wrong}");
        assert!(Access::new(Some(Secret(":hunter2".into())), None).is_err());
        let access = Access::new(Some(Secret("bench:hunter2".into())), None).unwrap();
        let target = Target { connect: "zk:1".into(), access };
        assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
    }

    #[test]
    fn connect_from_puts_the_requested_server_first() {
        let target = |connect: &str| Target { connect: connect.into(), access: Access::default() };
        for (connect, position, expected) in [
            ("a:1,b:2,c:3/in/here", 0, "a:1,b:2,c:3/in/here"),
            ("a:1,b:2,c:3/in/here", 1, "b:2,c:3,a:1/in/here"),
            ("a:1,b:2,c:3", 5, "c:3,a:1,b:2"),
            ("a:1", 7, "a:1"),
        ] {
            assert_eq!(target(connect).connect_from(position), expected, "{connect} from {position}");
        }
    }

    #[tokio::test]
    async fn open_at_connects_to_the_requested_server_first() {
        let listeners: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string());
        let connect = addresses.collect::<Vec<_>>().join(",");
        let target = Target { connect, access: Access::default() };
        let (timeout, deadline) = (Duration::from_secs(30), Duration::from_millis(50));
        for listener in &listeners {
            listener.set_nonblocking(true).unwrap();
        }
        for position in 0..6 {
            // No server answers, and the deadline passes before another is tried.
            let opened = target.open_at(position, timeout, deadline, Observed::by_nobody()).await;
            assert!(opened.is_err());
            let tried = listeners.iter().map(|listener| listener.accept().is_ok()).collect::<Vec<_>>();
            assert_eq!(tried.iter().position(|tried| *tried), Some(position % 3), "{tried:?}");
            assert_eq!(tried.iter().filter(|tried| **tried).count(), 1, "{tried:?}");
        }
    }

    #[test]
    fn secret_is_read_from_the_first_line_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "bench:hunter2\n").unwrap();
        assert!(Secret::read(file.path()).unwrap() == Secret("bench:hunter2".into()));
        let missing = Secret::read(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("/no/such/file"), "{missing}");
    }

    #[tokio::test]
    async fn tls_without_a_ca_file_trusts_the_systems_authorities() {
        match Access::new(None, Some(&TlsFiles::default())) {
            Ok(access) => {
                let target = Target { connect: "127.0.0.1:1".into(), access };
                let failure = target.client(Duration::from_millis(300)).await.unwrap_err();
                // Without any, the library fails with "bad arguments: no tls ca"
                assert!(matches!(failure, Failure::NotConnected(_)), "{failure}");
            }
            Err(error) => assert!(error.to_string().contains("--tls-ca"), "{error}"),
        }
    }

    #[test]
    fn authorities_come_from_the_variable_or_the_first_existing_file() {
        let place = tempfile::tempdir().unwrap();
        let (missing, there) = (place.path().join("missing.pem"), place.path().join("there.pem"));
        std::fs::write(&there, "").unwrap();
        let found = |variable: Option<&Path>, places: &[&Path]| {
            system_authorities(variable.map(|file| file.as_os_str().to_owned()), places)
        };
        assert_eq!(found(None, &[&missing, &there]).unwrap(), there);
        assert_eq!(found(Some(&there), &[]).unwrap(), there);
        let error = found(Some(&missing), &[&there]).unwrap_err().to_string();
        assert!(error.contains("SSL_CERT_FILE") && error.contains("missing.pem"), "{error}");
        let error = found(None, &[&missing]).unwrap_err().to_string();
        assert!(error.contains("missing.pem") && error.contains("--tls-ca"), "{error}");
    }
}
