//! Diagnoses why no session could be opened. The client library retries without reporting the cause.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rustls::{AlertDescription, CertificateError, ClientConnection, Error as TlsError};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::admin;
use super::connect::Target;
use super::pem::wrong_dates;
use super::tls::Tls;
use zklockbench_core::connect::Connect;
use zklockbench_core::units::listed;

/// Time limit for resolving a name.
pub const RESOLVED_WITHIN: Duration = Duration::from_secs(4);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Succeeds if any of these addresses accepts connections. Otherwise, the error gives a reason for each
/// address.
pub async fn listens(addresses: &[String]) -> Result<(), String> {
    let absent = join_all(addresses.iter().map(|address| absent(address))).await;
    match absent.into_iter().collect::<Option<Vec<_>>>() {
        Some(why) => Err(why.join("; ")),
        None => Ok(()),
    }
}

/// Returns whether an address resolves to this host.
pub async fn is_on_this_host(address: &str) -> bool {
    match timeout(RESOLVED_WITHIN, lookup_host(address)).await {
        Ok(Ok(mut places)) => places.any(is_own),
        _ => false,
    }
}

/// Returns whether the address belongs to this host, i.e. whether the kernel would use the same address as the
/// source when connecting to it. Sends no packet.
fn is_own(place: SocketAddr) -> bool {
    let ip = place.ip().to_canonical();
    let source = || {
        let any: IpAddr =
            if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, place.port()))?;
        socket.local_addr()
    };
    ip.is_loopback() || ip.is_unspecified() || source().is_ok_and(|source| source.ip() == ip)
}

async fn absent(address: &str) -> Option<String> {
    let places = match timeout(RESOLVED_WITHIN, lookup_host(address)).await {
        Ok(Ok(places)) => places,
        Ok(Err(error)) => return Some(format!("cannot resolve the host in {address} ({error})")),
        Err(_) => {
            return Some(format!(
                "cannot resolve the host in {address} within {RESOLVED_WITHIN:?}: check the DNS servers in \
                 /etc/resolv.conf, or use an address"
            ));
        }
    };
    let why = join_all(places.map(unreachable)).await.into_iter().collect::<Option<Vec<_>>>()?;
    let first = why.first()?;
    Some(match first.kind() {
        ErrorKind::ConnectionRefused => format!("nothing is listening on {address} (connection refused)"),
        ErrorKind::TimedOut => {
            format!("{address} does not respond: the host is down, or a firewall drops packets")
        }
        _ => format!("{address} cannot be reached ({first})"),
    })
}

/// Returns why an address does not accept connections; `None` if it does.
async fn unreachable(place: SocketAddr) -> Option<io::Error> {
    let connected = timeout(CONNECT_WITHIN, tokio::net::TcpStream::connect(place)).await;
    connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())).err()
}

/// Returns possible reasons, per server, why no session could be opened; `None` if no problem was found.
pub async fn why_no_session(target: &Target) -> Option<String> {
    let addresses = Connect::parse(&target.connect).ok()?.addresses;
    let checks = addresses.iter().map(|address| async move {
        match (absent(address).await, &target.access.tls) {
            (Some(why), _) => Some(why),
            (None, Some(tls)) => with_tls(address, tls).await,
            (None, None) => in_plain_text(address).await.map(|wrong| format!("{address} {wrong}")),
        }
    });
    let wrong: Vec<String> = join_all(checks).await.into_iter().flatten().collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

/// Appends to an observation the possible reasons why no session could be opened.
pub async fn with_reasons(observed: &str, target: &Target) -> String {
    let reasons = why_no_session(target).await;
    let reasons = reasons.as_deref().unwrap_or("Is the ensemble running, and do its servers form a quorum?");
    format!("{observed}. {reasons}")
}

/// Returns why TLS fails on every server, so that retrying cannot help; `None` if TLS works on any server.
pub async fn why_no_tls(target: &Target) -> Option<String> {
    let tls = target.access.tls.as_ref()?;
    let addresses = Connect::parse(&target.connect).ok()?.addresses;
    let wrong: Option<Vec<String>> =
        join_all(addresses.iter().map(|address| with_tls(address, tls))).await.into_iter().collect();
    wrong.map(|wrong| wrong.join("; "))
}

async fn with_tls(address: &str, tls: &Tls) -> Option<String> {
    let (at, tls) = (address.to_owned(), tls.clone());
    let wrong = tokio::task::spawn_blocking(move || complaint(&at, &tls)).await.ok()??;
    Some(format!("{address} {wrong}"))
}

/// Returns the problem with a server that should serve without TLS; `None` if no problem was found.
async fn in_plain_text(address: &str) -> Option<String> {
    // First byte of a TLS alert, as escaped in replies.
    const ALERT: &str = "\\u{15}";
    const CLOSES: &str = "closes the connection without a reply: it is a TLS port (--tls), it is not a client port, it has \
                          reached its connection limit for this host (maxClientCnxns), or it is a proxy without a \
                          running server";
    const NOT_SERVING: &str = "is running but not serving: it has no quorum, or it is a leader with leaderServes=no. \
                               Start a majority of the servers, or add the followers to the list";
    const OTHER: &str = "does not reply like a ZooKeeper server";
    let (heard, ended) = admin::hear(address, "srvr", ANSWER_WITHIN).await;
    let wrong = match &ended.map(|()| heard.as_str()) {
        Err(error) if error.kind() == ErrorKind::TimedOut && heard.is_empty() => {
            "does not reply to plain text: it is a TLS port (--tls), it hangs, or it is not a ZooKeeper server"
        }
        // A server that speaks another protocol may reply and keep the connection open.
        Err(error) if error.kind() == ErrorKind::TimedOut => OTHER,
        // The server reset the connection before replying.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => CLOSES,
        Err(error) => return Some(format!("cannot be reached: {error}")),
        Ok(answer) if answer.contains(admin::NOT_SERVING) => NOT_SERVING,
        Ok(answer) if answer.contains("Mode: read-only") => {
            "serves only reads, because it has no quorum (read-only mode); locks need writes"
        }
        Ok(answer) if answer.is_empty() || answer.starts_with(ALERT) => CLOSES,
        Ok(answer) if answer.contains("ookeeper version") || answer.contains(admin::NOT_ALLOWED) => {
            return None;
        }
        Ok(_) => OTHER,
    };
    Some(wrong.to_owned())
}

/// Lists the servers that accept no further connections from this host, with a remedy; `None` if all servers
/// accept more. Assumes that this host has sessions on all servers.
pub async fn connections_used_up(target: &Target) -> Option<String> {
    // A TLS port closes plain-text connections regardless of their number.
    let addresses = Connect::parse(&target.connect).ok().filter(|_| target.access.tls.is_none())?.addresses;
    let closed = join_all(addresses.iter().map(|address| closes_at_once(address))).await;
    let full: Vec<&String> =
        addresses.iter().zip(closed).filter(|(_, closes)| *closes).map(|(one, _)| one).collect();
    (!full.is_empty()).then(|| {
        let verb = if full.len() == 1 { "accepts" } else { "accept" };
        format!(
            "{} {verb} no further connections from this host (maxClientCnxns): {MORE_CONNECTIONS}",
            listed(&full)
        )
    })
}

/// Remedies for a limit on connections per host.
pub const MORE_CONNECTIONS: &str = "raise maxClientCnxns in zoo.cfg (in containers, ZOO_MAX_CLIENT_CNXNS; 0 means no limit), use fewer \
                                    contenders, or spread them over several hosts (`worker`)";

async fn closes_at_once(address: &str) -> bool {
    match admin::ask(address, "srvr", ANSWER_WITHIN).await {
        Ok(answer) => answer.is_empty(),
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
    }
}

const STEP: Duration = Duration::from_secs(2);

/// Tests TLS at an address with a separate handshake that uses the sessions' certificates. Returns the problem
/// as text that continues a sentence starting with the address; `None` if no problem was found. Blocks for at
/// most a few seconds.
fn complaint(address: &str, tls: &Tls) -> Option<String> {
    let Some(name) = tls.name_of(address) else {
        return Some(
            "has an invalid host name: set --tls-server-name to the name in its certificate".to_owned(),
        );
    };
    let host = name.to_str().into_owned();
    let mut connection = ClientConnection::new(Arc::clone(&tls.config), name).ok()?;
    let mut places = address.to_socket_addrs().ok()?;
    let mut stream = places.find_map(|place| TcpStream::connect_timeout(&place, STEP).ok())?;
    stream.set_read_timeout(Some(STEP)).ok()?;
    let answered = converse(&mut connection, &mut stream);
    in_words(&answered.err()?, tls, &host)
}

/// Completes a handshake and sends a command: a server may report a missing certificate only after the
/// handshake.
fn converse(connection: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while connection.is_handshaking() {
        if let (0, 0) = connection.complete_io(stream)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let mut tls = rustls::Stream::new(connection, stream);
    tls.write_all(b"ruok")?;
    match tls.read(&mut [0; 16]) {
        // TLS works even if the command is not allowed.
        Err(error) if tls_error(&error).is_some() => Err(error),
        _ => Ok(()),
    }
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

fn in_words(error: &io::Error, tls: &Tls, host: &str) -> Option<String> {
    const NOT_TLS: &str = "does not speak TLS: remove --tls, or use the server's TLS port";
    let shown = |file: &Option<PathBuf>| file.as_deref().unwrap_or(Path::new("")).display().to_string();
    let Some(error) = tls_error(error) else {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return Some(
                "does not respond to a TLS handshake: it does not speak TLS, or it hangs".to_owned(),
            );
        }
        let is_closed = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
        // A server with broken TLS closes the connection, like a server without TLS.
        return is_closed
            .then(|| format!("{NOT_TLS}. The server's TLS may also be misconfigured: check its log"));
    };
    Some(match error {
        TlsError::InvalidMessage(_) => NOT_TLS.to_owned(),
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => format!(
            "has a certificate from an authority that is not in {}: set --tls-ca to a file with this authority",
            shown(&tls.files.ca)
        ),
        // A new authority often gets the name of the old one.
        TlsError::InvalidCertificate(CertificateError::BadSignature) => format!(
            "has a certificate from an authority with the same name as one in {}, but a different key: set --tls-ca to a \
             file with this authority",
            shown(&tls.files.ca)
        ),
        TlsError::InvalidCertificate(why) => rejected(why, host),
        TlsError::AlertReceived(alert) => {
            alerted(*alert, tls.files.cert.as_ref().map(|file| file.display().to_string()))
        }
        other => format!("speaks TLS, but the handshake failed: {other}"),
    })
}

/// Describes why a server rejected a handshake. `cert` is the client certificate that was used, if any.
fn alerted(alert: AlertDescription, cert: Option<String>) -> String {
    use AlertDescription as Alert;
    const NOTHING_SHARED: &str = "in zoo.cfg, ssl.enabledProtocols must include TLSv1.2 or later, and ssl.ciphersuites, \
                                  if set, suites with ECDHE and GCM";
    let (by_certificate, remedy) = match cert {
        Some(cert) => (
            format!("rejects the client certificate {cert}"),
            "add the authority that signed this certificate to the server's trust store",
        ),
        None => ("requires a client certificate".to_owned(), "set --tls-cert and --tls-key"),
    };
    match alert {
        Alert::ProtocolVersion | Alert::InsufficientSecurity => {
            format!("shares no TLS version or cipher suite with this client ({alert:?}): {NOTHING_SHARED}")
        }
        Alert::HandshakeFailure => format!(
            "shares no cipher suite with this client, or {by_certificate} ({alert:?}): {NOTHING_SHARED}; or {remedy}"
        ),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::CertificateRequired
        | Alert::AccessDenied => format!("{by_certificate} ({alert:?}): {remedy}"),
        other => format!("speaks TLS, but rejects the handshake ({other:?}): check its log"),
    }
}

/// Describes the problem with the certificate of the server `host`.
fn rejected(why: &CertificateError, host: &str) -> String {
    let kind = if host.parse::<IpAddr>().is_ok() { "ip" } else { "dns" };
    let new = format!(
        "create a new one with `keytool -genkeypair -alias zk -keyalg RSA -dname CN={host} -ext san={kind}:{host} \
         -storetype PKCS12 -keystore keystore.p12`"
    );
    // The verifier reports these errors only as text.
    let text = why.to_string();
    let is = |reason: &str| text.contains(reason);
    match why {
        CertificateError::NotValidForNameContext { presented, .. } => match &of_hosts(presented)[..] {
            [] => format!("has a certificate without a subject alternative name: {new}"),
            names => match usable_name(names) {
                Some(name) => format!(
                    "has a certificate for {}, not for `{host}`: connect by a name in the certificate, or add \
                     --tls-server-name {name}",
                    listed(names)
                ),
                None => format!(
                    "has a certificate for {}, but TLS allows `*` only as the whole first label: {new}",
                    listed(names)
                ),
            },
        },
        CertificateError::NotValidForName => {
            format!(
                "has a certificate that is not for `{host}`: connect by a name in the certificate, or set --tls-server-name to that name"
            )
        }
        _ if is("CaUsedAsEndEntity") => {
            format!("uses an authority's certificate (CA:TRUE) as its own, which TLS does not allow: {new}")
        }
        _ if is("UnsupportedCertVersion") => {
            format!("has a certificate of X.509 version 1, which has no names: {new}")
        }
        _ => match wrong_dates(why) {
            Some(dates) => format!("has an invalid certificate: {dates}"),
            None => format!("has an unacceptable certificate: {text}"),
        },
    }
}

/// Returns a name that matches one of a certificate's names; a wildcard is the last choice.
fn usable_name(names: &[&str]) -> Option<String> {
    let in_domain = |name: &&str| {
        let domain = name.strip_prefix("*.")?;
        Some(format!("zk.{domain} (or another name with one label before {domain})"))
    };
    let plain = names.iter().find(|name| !name.contains('*'));
    plain.map(|name| (*name).to_owned()).or_else(|| names.iter().find_map(in_domain))
}

/// Extracts host names and addresses from a certificate's names, which look like `DnsName("zk1")` or
/// `IpAddress(127.0.0.1)`.
fn of_hosts(presented: &[String]) -> Vec<&str> {
    let all = presented.iter().filter_map(|name| {
        let rest = name.strip_prefix("DnsName(").or_else(|| name.strip_prefix("IpAddress("))?;
        Some(rest.strip_suffix(')')?.trim_matches('"'))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::{Access, TlsFiles};

    #[tokio::test]
    async fn is_on_this_host_recognises_only_addresses_of_this_host() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let own = format!("{}:2181", own.trim());
        for address in ["127.0.0.1:1", "localhost:2", "127.1.2.3:3", "[::ffff:127.0.0.1]:4", "0.0.0.0:5"] {
            assert!(is_on_this_host(address).await, "{address}");
        }
        // Documentation addresses, and a name that does not resolve.
        for address in ["192.0.2.1:1", "[2001:db8::1]:2", "no..where:3"] {
            assert!(!is_on_this_host(address).await, "{address}");
        }
        if lookup_host(&own).await.is_ok() {
            assert!(is_on_this_host(&own).await, "{own}");
        }
        // This host's outward address, if it has one.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let outer = socket.local_addr().unwrap().to_string();
            assert!(is_on_this_host(&outer).await, "{outer}");
        }
    }

    #[tokio::test]
    async fn listens_fails_only_when_every_address_is_closed_or_unknown() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().to_string();
        let closed = {
            let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            closed.local_addr().unwrap().to_string()
        };
        // An invalid name, which fails without a DNS query
        let unknown = "no..where:2181".to_owned();
        assert_eq!(listens(&[closed.clone(), open.clone()]).await, Ok(()));
        assert_eq!(listens(&[unknown.clone(), open]).await, Ok(()));
        let error = listens(&[closed.clone(), unknown]).await.unwrap_err();
        let expected = format!(
            "nothing is listening on {closed} (connection refused); cannot resolve the host in no..where:2181"
        );
        assert!(error.starts_with(&expected), "{error}");
    }

    /// Returns the diagnosis for a server that sends this reply and closes the connection.
    async fn diagnosis_for_answer(answer: &'static [u8]) -> Option<String> {
        diagnosis_for(answer, false).await
    }

    async fn diagnosis_for(answer: &'static [u8], keeps_open: bool) -> Option<String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target =
            Target { connect: listener.local_addr().unwrap().to_string(), access: Access::default() };
        let serving = async {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 16]).await;
                let _ = stream.write_all(answer).await;
                open.extend(keeps_open.then_some(stream));
            }
        };
        tokio::select! {
            diagnosis = why_no_session(&target) => diagnosis,
            () = serving => None,
        }
    }

    #[tokio::test]
    async fn diagnosis_distinguishes_servers_without_quorum_tls_ports_and_other_programs() {
        let read_only = diagnosis_for_answer(b"Zookeeper version: 3.8.0\nZxid: 0x0\nMode: read-only\n");
        assert!(read_only.await.unwrap().contains("read-only mode"));
        let not_serving =
            diagnosis_for_answer(b"This ZooKeeper instance is not currently serving requests\n");
        assert!(not_serving.await.unwrap().contains("has no quorum, or it is a leader with leaderServes=no"));
        // A TLS alert, and a connection that is merely closed
        for answer in [&b"\x15\x03\x03\x00\x02\x02\x50"[..], b""] {
            let diagnosis = diagnosis_for_answer(answer).await.unwrap();
            let causes =
                ["(--tls)", "maxClientCnxns", "not a client port", "a proxy without a running server"];
            assert!(causes.iter().all(|cause| diagnosis.contains(cause)), "{diagnosis}");
        }
        let http = diagnosis_for_answer(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let redis = diagnosis_for(b"-ERR unknown command\r\n", true).await.unwrap();
        for other in [http, redis] {
            assert!(other.ends_with("does not reply like a ZooKeeper server"), "{other}");
        }
        let silent = diagnosis_for(b"", true).await.unwrap();
        assert!(silent.ends_with("it hangs, or it is not a ZooKeeper server"), "{silent}");
        for right in [
            &b"Zookeeper version: 3.8.0\n"[..],
            b"srvr is not executed because it is not in the whitelist.\n",
        ] {
            assert_eq!(diagnosis_for_answer(right).await, None);
        }
    }

    fn pem(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/tls").join(name)
    }

    fn trusting(ca: &str) -> Tls {
        Tls::read(&TlsFiles { ca: Some(pem(ca)), ..TlsFiles::default() }, None).unwrap()
    }

    /// Starts a TLS server for one connection, with or without client authentication.
    fn server(asks: bool) -> (String, JoinHandle<()>) {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_file_iter(pem("ca.pem")).unwrap().flatten());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = if asks {
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let chain = CertificateDer::pem_file_iter(pem("server.pem")).unwrap().flatten().collect();
        let key = PrivateKeyDer::from_pem_file(pem("server.key")).unwrap();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut connection = ServerConnection::new(config).unwrap();
            let mut tls = rustls::Stream::new(&mut connection, &mut stream);
            if tls.read(&mut [0; 4]).is_ok() {
                tls.write_all(b"imok").unwrap();
            }
        });
        (address, served)
    }

    #[test]
    fn tls_diagnosis_suggests_the_option_that_helps() {
        for (asks, trusted, expected) in [
            (false, "ca.pem", None),
            (true, "ca.pem", Some("--tls-cert and --tls-key")),
            (false, "other.pem", Some("set --tls-ca to a file with this authority")),
        ] {
            let (address, served) = server(asks);
            let complaint = complaint(&address, &trusting(trusted));
            match expected {
                None => assert_eq!(complaint, None),
                Some(expected) => {
                    assert!(
                        complaint.as_deref().is_some_and(|complaint| complaint.contains(expected)),
                        "{complaint:?}"
                    )
                }
            }
            served.join().unwrap();
        }
    }

    #[test]
    fn certificate_signed_with_another_key_is_attributed_to_the_authority() {
        let error = io::Error::other(TlsError::InvalidCertificate(CertificateError::BadSignature));
        let wrong = in_words(&error, &trusting("ca.pem"), "zk1").unwrap();
        assert!(wrong.contains("ca.pem, but a different key: set --tls-ca to"), "{wrong}");
    }

    #[test]
    fn certificate_for_other_names_is_reported_with_a_usable_name() {
        for (names, expected) in [
            (&["zk2"][..], "add --tls-server-name zk2"),
            (&["*.zk.svc", "zk.test"], "*.zk.svc and zk.test, not for `a.b.zk.svc`"),
            (&["*.zk.svc", "zk.test"], "add --tls-server-name zk.test"),
            (&["*.zk.svc"], "add --tls-server-name zk.zk.svc (or another name with one label before zk.svc)"),
            (&["zk*.svc"], "TLS allows `*` only as the whole first label: create a new one"),
            (&[], "without a subject alternative name"),
        ] {
            let presented = names.iter().map(|name| format!("DnsName(\"{name}\")")).collect();
            let expected_name = ServerName::try_from("a.b.zk.svc").unwrap();
            let why = CertificateError::NotValidForNameContext { expected: expected_name, presented };
            let told = rejected(&why, "a.b.zk.svc");
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn tls_alert_is_attributed_to_versions_ciphers_or_the_client_certificate() {
        use AlertDescription::{
            CertificateRequired, HandshakeFailure, InsufficientSecurity, InternalError, ProtocolVersion,
            UnknownCA,
        };
        let (nothing, no_suite) = ("shares no TLS version or cipher suite", "shares no cipher suite");
        for (alert, has_certificate, causes) in [
            (ProtocolVersion, true, &[nothing, "ssl.enabledProtocols"][..]),
            (InsufficientSecurity, false, &[nothing, "ssl.ciphersuites"]),
            (HandshakeFailure, false, &[no_suite, "or requires a client certificate"]),
            (HandshakeFailure, true, &[no_suite, "or rejects the client certificate a.pem"]),
            (CertificateRequired, false, &["requires a client certificate", "set --tls-cert and --tls-key"]),
            (UnknownCA, true, &["rejects the client certificate a.pem", "the server's trust store"]),
            (InternalError, true, &["rejects the handshake (InternalError): check its log"]),
        ] {
            let told = alerted(alert, has_certificate.then(|| "a.pem".to_owned()));
            assert!(causes.iter().all(|cause| told.contains(cause)), "{alert:?}: {told}");
            let is_about_certificates = told.contains("client certificate");
            let expected = causes.concat().contains("client certificate");
            assert_eq!(is_about_certificates, expected, "{alert:?}: {told}");
        }
    }

    #[test]
    fn closed_connection_or_plain_text_reply_is_diagnosed_as_no_tls() {
        for answer in [&b""[..], b"This ZooKeeper instance is not currently serving requests\n"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // The name may also have an IPv6 address, where no server listens.
            let address = format!("localhost:{}", listener.local_addr().unwrap().port());
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                stream.write_all(answer).unwrap();
            });
            let complaint = complaint(&address, &trusting("ca.pem"));
            assert!(
                complaint.as_deref().is_some_and(|complaint| complaint.contains("remove --tls")),
                "{complaint:?}"
            );
            served.join().unwrap();
        }
    }
}
