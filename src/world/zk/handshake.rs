//! A TLS handshake for its own sake: what a port says to it, and to the certificates that a session would show.
//!
//! The client library tries again and again whatever was wrong, and says only that no session came.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Error as TlsError, RootCertStore,
};

use super::connect::TlsFiles;

const STEP: Duration = Duration::from_secs(2);

/// What is wrong with TLS at an address, in words that go on from it; `None` where nothing is, or nothing can be told.
/// Blocks for some seconds at most.
pub(super) fn complaint(address: &str, files: &TlsFiles) -> Option<String> {
    let (host, _) = address.rsplit_once(':')?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()?;
    let mut connection = ClientConnection::new(Arc::new(config(files)?), name).ok()?;
    let mut stream = TcpStream::connect_timeout(&address.to_socket_addrs().ok()?.next()?, STEP).ok()?;
    stream.set_read_timeout(Some(STEP)).ok()?;
    let answered = converse(&mut connection, &mut stream);
    in_words(&answered.err()?, host, files.cert.is_some())
}

/// A server that misses a certificate may say so only after the handshake.
fn converse(connection: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while connection.is_handshaking() {
        if let (0, 0) = connection.complete_io(stream)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let mut tls = rustls::Stream::new(connection, stream);
    tls.write_all(b"ruok")?;
    match tls.read(&mut [0; 16]) {
        // What the answer is, and whether the word is allowed there, is no matter of TLS.
        Err(error) if tls_error(&error).is_some() => Err(error),
        _ => Ok(()),
    }
}

fn config(files: &TlsFiles) -> Option<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_file_iter(files.ca.as_ref()?).ok()?.flatten());
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?.with_root_certificates(roots);
    let (Some(cert), Some(key)) = (&files.cert, &files.key) else {
        return Some(builder.with_no_client_auth());
    };
    let chain = CertificateDer::pem_file_iter(cert).ok()?.flatten().collect();
    builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).ok()?).ok()
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

fn in_words(error: &io::Error, host: &str, shows_certificate: bool) -> Option<String> {
    const NOT_TLS: &str = "does not speak TLS: drop --tls, or use the port that does";
    let Some(error) = tls_error(error) else {
        let is_closed = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
        // A server whose own TLS cannot work closes the connection as one without TLS does.
        return is_closed
            .then(|| format!("{NOT_TLS}; or its own TLS is not set up correctly, which its log would say"));
    };
    Some(match error {
        TlsError::InvalidMessage(_) => NOT_TLS.to_owned(),
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "has a certificate from an untrusted authority: name the authority with --tls-ca".to_owned()
        }
        TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("has a certificate that is not for `{host}`: connect by a name in it"),
        TlsError::InvalidCertificate(why) => format!("has an unacceptable certificate: {why}"),
        TlsError::AlertReceived(_) if shows_certificate => {
            format!("rejects the client certificate: {error}")
        }
        TlsError::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::HandshakeFailure,
        ) => format!("requires a client certificate: give --tls-cert and --tls-key ({error})"),
        other => format!("speaks TLS, but: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::{Path, PathBuf};
    use std::thread::JoinHandle;

    use rustls::server::WebPkiClientVerifier;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    fn pem(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tls").join(name)
    }

    fn trusting(ca: &str) -> TlsFiles {
        TlsFiles { ca: Some(pem(ca)), cert: None, key: None }
    }

    /// A server of TLS for one connection, which asks for a client's certificate or does not.
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
    fn what_a_port_has_against_tls_is_told_with_the_option_that_mends_it() {
        for (asks, trusted, expected) in [
            (false, "ca.pem", None),
            (true, "ca.pem", Some("--tls-cert and --tls-key")),
            (false, "other.pem", Some("untrusted authority: name the authority with --tls-ca")),
        ] {
            let (address, served) = server(asks);
            let told = complaint(&address, &trusting(trusted));
            match expected {
                None => assert_eq!(told, None),
                Some(expected) => {
                    assert!(told.as_deref().is_some_and(|told| told.contains(expected)), "{told:?}")
                }
            }
            served.join().unwrap();
        }
    }

    #[test]
    fn a_port_that_closes_or_answers_in_plain_text_does_not_speak_tls() {
        for answer in [&b""[..], b"This ZooKeeper instance is not currently serving requests\n"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
                stream.write_all(answer).unwrap();
            });
            let told = complaint(&address, &trusting("ca.pem"));
            assert!(told.as_deref().is_some_and(|told| told.contains("drop --tls")), "{told:?}");
            served.join().unwrap();
        }
    }
}
