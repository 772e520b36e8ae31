//! Opens sessions: connect string, chroot, credentials, and choice of server.

use std::time::Duration;

use zookeeper_client::{Client, Connector};

use super::access::Access;
use super::inner::Observed;
use super::session::Session;
use super::whose::{self, Password, SessionKey};
use super::{Failure, runtime};

/// Maximum length of a server's reply in bytes: enough to list a queue of 250,000 contenders with names of 60
/// bytes. Java clients accept 1 MiB by default (`jute.maxbuffer`).
const LONGEST_FRAME: usize = 16 << 20;
/// Delay before the next attempt to expire a session.
const TRIES_AGAIN: Duration = Duration::from_millis(100);
/// Maximum silence of a server during one attempt to expire a session. A server drops a close without a reply if the
/// session ends between the connect and the close. The next attempt is then answered at once.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Target {
    /// Connect string, such as `host:port,host:port/chroot`.
    pub connect: String,
    pub access: Access,
}

impl Target {
    /// Splits the connect string into its servers and its chroot, which starts with `/` or is empty.
    pub fn parts(&self) -> (&str, &str) {
        self.connect.split_at(self.connect.find('/').unwrap_or(self.connect.len()))
    }

    /// Returns a target with the same chroot on other servers.
    pub fn on(&self, servers: &str) -> Self {
        Self { connect: format!("{servers}{}", self.parts().1), access: self.access.clone() }
    }

    /// Returns a target with the same chroot that connects through proxies, where proxy i forwards to server i.
    pub fn through(&self, proxies: &str, servers: &[String]) -> Self {
        let proxied: Vec<&str> = proxies.split(',').collect();
        let tls = self.access.tls.as_ref().map(|tls| tls.behind(&proxied, servers));
        let on = self.on(proxies);
        Self { access: Access { tls, ..on.access }, ..on }
    }

    /// Opens a session, trying the server at this position (modulo the number of servers) first. Random
    /// choices would rarely spread ten contenders evenly. Because the leader serves its sessions faster,
    /// trials of the same lock would differ by chance.
    pub async fn open_at(
        &self,
        position: usize,
        session_timeout: Duration,
        deadline: Duration,
        observed: Observed,
    ) -> Result<Session, Failure> {
        self.within(deadline, self.client_at(position, session_timeout), observed).await
    }

    /// Returns the connect string for another program, rotated to start with the server at this position,
    /// because some clients try servers in order. With TLS, a name replaces the addresses that it was resolved
    /// to, because the program compares certificates with the hosts in the string.
    pub fn connect_from(&self, position: usize) -> String {
        let (servers, chroot) = self.parts();
        let named = |server: &str| {
            let tls = self.access.tls.as_ref();
            tls.and_then(|tls| tls.resolved_from(server)).unwrap_or_else(|| server.to_owned())
        };
        let mut servers: Vec<String> = servers.split(',').map(named).collect();
        servers.dedup();
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
        let client = runtime::timeout(deadline, connecting)
            .await
            .ok_or_else(|| Failure::NotConnected(format!("no session within {deadline:?}")))??;
        Ok(Session::new(client, observed, self.access.has_identity()))
    }

    /// Expires a session by taking it over from another connection and closing it. Returns once a server
    /// confirms the end of the session.
    ///
    /// The tests of Curator (Java) and kazoo (Python) expire sessions in the same way.
    ///
    /// # Errors
    /// If no server confirms the end before the deadline, or the password is unknown. The session may have
    /// ended anyway.
    pub async fn expire(&self, key: SessionKey, deadline: Duration) -> Result<(), Failure> {
        if key.password == Password::NotTold {
            return Err(Failure::Refused(format!(
                "cannot expire session 0x{:x}: the driver's `open` returned no password",
                key.id()
            )));
        }
        let expiring = async {
            // Set when a connection breaks, e.g. because the session's own client reconnected. The close may
            // have taken effect, and servers give the same reply for a closed session as for a wrong password.
            let mut may_be_closed = false;
            loop {
                let connector = self.connector().with_session(key.session.clone());
                // Try each server once. The library's own retries would double their delay each time.
                let connector = connector.with_connection_timeout(ANSWERS_WITHIN).with_fail_eagerly();
                let ended = connector.end_session(self.access.tls.is_some(), &self.connect).await;
                match ended.map_err(Failure::from) {
                    // Servers reply to a wrong password as if the session were over.
                    Err(Failure::SessionExpired) if key.password == Password::Told && !may_be_closed => {
                        return Err(Failure::Refused(format!(
                            "the servers rejected session 0x{:x}: the session had already ended, or the password is \
                             wrong",
                            key.id()
                        )));
                    }
                    Ok(()) | Err(Failure::SessionExpired) => return Ok(()),
                    // The servers may be electing a leader.
                    Err(Failure::NotConnected(_)) => runtime::sleep(TRIES_AGAIN).await,
                    Err(Failure::ConnectionLoss) => {
                        may_be_closed = true;
                        runtime::sleep(TRIES_AGAIN).await;
                    }
                    Err(failure) => return Err(failure),
                }
            }
        };
        let expired = runtime::timeout(deadline, expiring).await;
        expired.unwrap_or_else(|| Err(Failure::NotConnected(format!("not closed within {deadline:?}"))))
    }

    /// Opens a plain client, for requests that are not measured.
    pub async fn client(&self, session_timeout: Duration) -> Result<Client, Failure> {
        self.connected(self.connector(), session_timeout).await
    }

    /// Opens a plain client, trying the server at this position first.
    pub async fn client_at(&self, position: usize, session_timeout: Duration) -> Result<Client, Failure> {
        self.connected(self.connector().with_first_server(position), session_timeout).await
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
            Client::connector().with_max_frame_length(LONGEST_FRAME).with_spawn(runtime::spawn_for_client);
        if let Some(digest) = &self.access.digest {
            connector = connector.with_auth("digest", digest.told().as_bytes());
        }
        if let Some(sasl) = &self.access.sasl {
            connector = connector.with_sasl(sasl.options());
        }
        match &self.access.tls {
            Some(tls) => connector.with_tls(tls.options.clone()),
            None => connector,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::{Sasl, Secret, Tls, TlsFiles};

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

    #[test]
    fn certificates_at_the_addresses_of_a_name_must_have_the_name() {
        let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/tls/ca.pem");
        let files = TlsFiles { ca: Some(ca.into()), ..TlsFiles::default() };
        let addresses = ["10.0.0.1:2281", "[fd00::1]:2281", "zk4:2281", "10.0.0.5:2281"].map(str::to_owned);
        let given = ["zk.test:2281", "zk.test:2281", "zk4:2281", "10.0.0.5:2281"].map(str::to_owned);
        let target = |server_name| {
            let tls = Some(Tls::read(&files, server_name).unwrap().at(&addresses, &given));
            let access = Access { tls, ..Access::default() };
            Target { connect: format!("{}/app", addresses.join(",")), access }
        };
        let name_at = |target: &Target, address: &str| {
            let name = target.access.tls.as_ref().and_then(|tls| tls.name_of(address));
            name.map(|name| name.to_str().into_owned())
        };
        // Own sessions use the addresses, and other programs the name
        let expanded = target(None);
        for (address, name) in [
            ("10.0.0.1:2281", "zk.test"),
            ("[fd00::1]:2281", "zk.test"),
            ("10.0.0.1:2282", "10.0.0.1"),
            ("zk4:2281", "zk4"),
            ("10.0.0.5:2281", "10.0.0.5"),
        ] {
            assert_eq!(name_at(&expanded, address).as_deref(), Some(name), "{address}");
        }
        assert_eq!(expanded.connect_from(0), "zk.test:2281,zk4:2281,10.0.0.5:2281/app");
        assert_eq!(expanded.connect_from(1), "zk4:2281,10.0.0.5:2281,zk.test:2281/app");
        // Proxies present the certificates of their servers
        let proxies = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4";
        let proxied = expanded.through(proxies, &addresses);
        let names = proxies.split(',').map(|proxy| name_at(&proxied, proxy).unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["zk.test", "zk.test", "zk4", "10.0.0.5"]);
        assert_eq!(proxied.connect_from(0), format!("{proxies}/app"));
        // And a name from the command line replaces all others
        let named = target(Some("other.test"));
        assert_eq!(name_at(&named, "10.0.0.1:2281").as_deref(), Some("other.test"));
        assert_eq!(named.connect_from(0), named.connect);
    }

    #[tokio::test]
    async fn open_at_connects_to_the_requested_server_first() {
        let listeners: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string());
        let connect = addresses.collect::<Vec<_>>().join(",");
        let target = Target { connect, access: Access::default() };
        let (timeout, deadline) = (Duration::from_secs(30), Duration::from_millis(150));
        for listener in &listeners {
            listener.set_nonblocking(true).unwrap();
        }
        for position in 0..6 {
            // No server answers, and the deadline passes before the client tries another server.
            let opened = target.open_at(position, timeout, deadline, Observed::by_nobody()).await;
            assert!(opened.is_err());
            let tried = listeners.iter().map(|listener| listener.accept().is_ok()).collect::<Vec<_>>();
            assert_eq!(tried.iter().position(|tried| *tried), Some(position % 3), "{tried:?}");
            assert_eq!(tried.iter().filter(|tried| **tried).count(), 1, "{tried:?}");
        }
    }

    #[tokio::test]
    async fn tls_without_a_ca_file_trusts_the_systems_authorities() {
        match Tls::read(&TlsFiles::default(), None) {
            Ok(tls) => {
                let access = Access { tls: Some(tls), ..Access::default() };
                let target = Target { connect: "127.0.0.1:1".into(), access };
                let failure = target.client(Duration::from_millis(300)).await.unwrap_err();
                // Without a trusted CA, the library fails with "bad arguments: no tls ca"
                assert!(matches!(failure, Failure::NotConnected(_)), "{failure}");
            }
            Err(error) => assert!(error.to_string().contains("--tls-ca"), "{error}"),
        }
    }

    /// Returns the failure of a session when the server answers the first SASL token with `error` and
    /// `token`.
    async fn sasl_failure(error: i32, token: Option<&[u8]>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sasl = Sasl::DigestMd5 { user: "bench".into(), password: Secret::from("hunter2".to_owned()) };
        let access = Access { sasl: Some(sasl), ..Access::default() };
        let target = Target { connect: listener.local_addr().unwrap().to_string(), access };
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            frame(&mut stream).await;
            answer(&mut stream, &connect_reply(7)).await;
            let asked = frame(&mut stream).await;
            let (length, token) = token.map_or((-1, &b""[..]), |token| (token.len() as i32, token));
            let reply = [&asked[..4], &[0; 8], &error.to_be_bytes(), &length.to_be_bytes(), token];
            answer(&mut stream, &reply.concat()).await;
            frame(&mut stream).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            failed = target.client(Duration::from_secs(10)) => failed.unwrap_err().to_string(),
            () = serving => unreachable!(),
        }
    }

    /// A server's reply to a connect, with session 0 if the requested session is over.
    fn connect_reply(session: i64) -> Vec<u8> {
        let timeout = 40_000_i32.to_be_bytes();
        [&[0; 4][..], &timeout, &session.to_be_bytes(), &16_i32.to_be_bytes(), &[0; 17]].concat()
    }

    async fn frame(stream: &mut TcpStream) -> Vec<u8> {
        let length = stream.read_u32().await.unwrap_or(0);
        let mut frame = vec![0; length as usize];
        stream.read_exact(&mut frame).await.map(|_| frame).unwrap_or_default()
    }

    async fn answer(stream: &mut TcpStream, body: &[u8]) {
        let frame = [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat();
        stream.write_all(&frame).await.unwrap();
    }

    /// Answers a client's next connect and drops its other requests.
    async fn resume(listener: &TcpListener, session: i64) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        frame(&mut stream).await;
        answer(&mut stream, &connect_reply(session)).await;
        stream
    }

    #[tokio::test]
    async fn expire_retries_soon_if_a_close_is_dropped_or_connections_break() {
        // By default, the client would wait 16 s for the reply to the close, and longer before each new connection.
        for (dropped, broken) in [(1, 0), (0, 6)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let connect = listener.local_addr().unwrap().to_string();
            let target = Target { connect, access: Access::default() };
            let serving = async {
                let mut silent = Vec::new();
                for _ in 0..dropped {
                    silent.push(resume(&listener, 7).await);
                }
                for _ in 0..broken {
                    drop(listener.accept().await.unwrap());
                }
                let _over = resume(&listener, 0).await;
                std::future::pending::<()>().await;
            };
            let key = SessionKey::of_another(7, Some(vec![7; 16]));
            tokio::select! {
                ended = target.expire(key, 5 * ANSWERS_WITHIN) => assert_eq!(ended, Ok(())),
                () = serving => unreachable!(),
            }
        }
    }

    #[tokio::test]
    async fn sasl_failure_reports_its_cause() {
        let realms = br#"realm="a\\\\b",realm="c",nonce="n",charset=utf-8,algorithm=md5-sess"#;
        for (error, token, expected) in [
            (-115, None, "do not accept this SASL mechanism"),
            (-124, None, "do not accept this SASL mechanism"),
            (0, None, "do not support SASL"),
            (0, Some(&realms[..]), "SASL failed: "),
            (0, Some(b"\xff"), "SASL failed: "),
        ] {
            let failure = sasl_failure(error, token).await;
            assert!(failure.contains(expected), "{error}, {token:?}: {failure}");
        }
    }
}
