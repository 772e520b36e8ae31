//! PEM files for TLS. Errors for other formats include the command that converts the file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error as TlsError, InconsistentKeys, RootCertStore};

use zklockbench_core::error::Error;
use zklockbench_core::units::as_a_word;

/// Maximum file size in bytes: forty times the size of a bundle of all public authorities.
const LONGEST: u64 = 8 << 20;

/// Purpose of a PEM file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Authority,
    /// The client's own certificate.
    Certificate,
    /// Key of the client's certificate.
    Key,
}

impl Role {
    fn option(self) -> &'static str {
        match self {
            Self::Authority => "--tls-ca",
            Self::Certificate => "--tls-cert",
            Self::Key => "--tls-key",
        }
    }

    /// Describes a file that contains a key instead of a certificate, or a certificate instead of a key.
    fn mixed_up(self) -> String {
        let (there, needed, what) = match self {
            Self::Authority | Self::Certificate => ("private key", "certificate", "a certificate"),
            Self::Key => ("certificate", "private key", "the key"),
        };
        format!("contains a {there} instead of a {needed}: {} needs {what}", self.option())
    }

    /// Returns the name of the output file in a suggested command.
    fn converted(self) -> &'static str {
        match self {
            Self::Authority => "ca.pem",
            Self::Certificate => "client.pem",
            Self::Key => "client.key",
        }
    }
}

/// A PEM file that contains the section required for its role.
#[derive(Debug)]
pub struct Pem {
    path: PathBuf,
    role: Role,
    pub text: String,
}

impl Pem {
    /// Reads a file, ignoring Windows line endings, a byte order mark and text around the sections.
    pub fn read(path: &Path, role: Role) -> Result<Self, Error> {
        let bytes = bytes_of(path).map_err(|why| Error::usage(format!("{}: {why}", path.display())))?;
        let refused = |why: &str| Err(Error::usage(format!("{} {why}", path.display())));
        if let Some(format) = Format::of(&bytes) {
            return refused(&format.advice(path, role));
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.trim_start_matches('\u{feff}').split(['\n', '\r']).map(str::trim);
        let text = lines.filter(|line| !line.is_empty()).fold(String::new(), |text, line| text + line + "\n");
        match missing(path, role, &text) {
            Some(why) => refused(&why),
            None => Ok(Self { path: path.to_path_buf(), role, text }),
        }
    }

    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.text.as_bytes()).collect();
        all.map_err(|error| self.damaged(&error))
    }

    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        PrivateKeyDer::from_pem_slice(self.text.as_bytes()).map_err(|error| self.damaged(&error))
    }

    fn damaged(&self, error: &PemError) -> Error {
        self.refused(&format!("the file is damaged ({error}); copy it again"))
    }

    /// Returns the error for a file that cannot be used in its role.
    pub fn refused(&self, why: &str) -> Error {
        Error::usage(format!("{} cannot be used for {}: {why}", self.path.display(), self.role.option()))
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    // Pipes, such as a shell's `<(…)`, have no length, so limit the read itself.
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    match bytes.len() as u64 {
        0 => Err("is empty".into()),
        length if length > LONGEST => Err(format!("is longer than {} MiB: not a PEM file", LONGEST >> 20)),
        _ => Ok(bytes),
    }
}

/// A format other than PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Java's keystore.
    Jks,
    Pkcs12,
    Pkcs7,
    DerCertificate,
    DerKey,
    /// UTF-16 text, as written by some Windows tools.
    Utf16,
}

impl Format {
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xfe, 0xed, 0xfe, 0xed, ..] | [0xce, 0xce, 0xce, 0xce, ..] => Some(Self::Jks),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(Self::Utf16),
            // A DER sequence with a long-form length, or exactly as long as its short-form length.
            [0x30, 0x80..=0x84, ..] => Some(Self::in_der(value(bytes))),
            [0x30, length, rest @ ..] if rest.len() == usize::from(*length) => Some(Self::in_der(rest)),
            _ => None,
        }
    }

    /// Returns the format of a DER sequence with these contents.
    fn in_der(contents: &[u8]) -> Self {
        match contents {
            [0x02, 0x01, 0x03, ..] => Self::Pkcs12,
            [0x02, 0x01, 0x00 | 0x01, ..] => Self::DerKey,
            [0x06, ..] => Self::Pkcs7,
            // An encrypted key starts with its algorithm identifier.
            [0x30, ..] if value(contents).first() == Some(&0x06) => Self::DerKey,
            _ => Self::DerCertificate,
        }
    }

    /// Describes the file's format and the command that converts the file.
    fn advice(self, path: &Path, role: Role) -> String {
        let (option, out) = (role.option(), role.converted());
        let file = as_a_word(&path.display().to_string());
        let (what, command) = match (self, role) {
            (Self::DerKey, Role::Authority | Role::Certificate)
            | (Self::DerCertificate | Self::Pkcs7, Role::Key) => return role.mixed_up(),
            (Self::Jks, Role::Authority) => {
                ("a Java keystore (JKS)", format!("keytool -list -rfc -keystore {file} > {out}"))
            }
            (Self::Jks, _) => (
                "a Java keystore (JKS)",
                format!(
                    "keytool -importkeystore -noprompt -srckeystore {file} -destkeystore client.p12 -deststoretype PKCS12 && \
                     openssl pkcs12 -in client.p12 {} -out {out}",
                    of_pkcs12(role)
                ),
            ),
            (Self::Pkcs12, _) => {
                ("a PKCS#12 store", format!("openssl pkcs12 -in {file} {} -out {out}", of_pkcs12(role)))
            }
            (Self::Pkcs7, _) => {
                ("in PKCS#7", format!("openssl pkcs7 -inform DER -print_certs -in {file} -out {out}"))
            }
            (Self::DerCertificate, _) => {
                ("in DER", format!("openssl x509 -inform DER -in {file} -out {out}"))
            }
            (Self::DerKey, _) => ("in DER", format!("openssl pkey -inform DER -in {file} -out {out}")),
            (Self::Utf16, _) => ("in UTF-16", format!("iconv -f UTF-16 -t UTF-8 {file} > {out}")),
        };
        let hint = if self == Self::Pkcs12 { " (with -legacy if the store is old)" } else { "" };
        format!("is {what}, but {option} requires PEM: convert it with `{command}`{hint}")
    }
}

/// Returns the options of `openssl pkcs12` that extract what the role needs.
fn of_pkcs12(role: Role) -> &'static str {
    match role {
        Role::Authority => "-nokeys",
        Role::Certificate => "-clcerts -nokeys",
        Role::Key => "-nocerts -nodes",
    }
}

/// Returns the contents of the DER value at the start of `bytes`; empty if truncated.
fn value(bytes: &[u8]) -> &[u8] {
    let length_bytes = match bytes.get(1) {
        Some(long @ 0x80..) => usize::from(long & 0x7f),
        _ => 0,
    };
    bytes.get(2 + length_bytes..).unwrap_or_default()
}

/// Describes why the text is unusable in its role; `None` if it contains a usable section.
fn missing(path: &Path, role: Role, text: &str) -> Option<String> {
    let (option, out) = (role.option(), role.converted());
    let file = as_a_word(&path.display().to_string());
    let begin = |line: &str| Some(line.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?.to_owned());
    let labels: Vec<String> = text.lines().filter_map(begin).collect();
    let has = |wanted: &str| labels.iter().any(|label| label == wanted);
    let has_any = |part: &str| labels.iter().any(|label| label.ends_with(part));
    let is_encrypted = has("ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED");
    Some(match role {
        Role::Authority | Role::Certificate if has("CERTIFICATE") => return None,
        Role::Key if is_encrypted => format!(
            "is encrypted with a passphrase, but {option} requires an unencrypted key: decrypt it with \
             `openssl pkey -in {file} -out {out}`"
        ),
        Role::Key if ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"].iter().any(|key| has(key)) => {
            return None;
        }
        Role::Key if has("OPENSSH PRIVATE KEY") => {
            format!(
                "is an OpenSSH key: copy it to {out}, and convert the copy with `ssh-keygen -p -m PKCS8 -f {out}`"
            )
        }
        Role::Key if has("DSA PRIVATE KEY") => {
            format!("is a DSA key, which cannot be used: {KEYS}. {OTHER_KEY}")
        }
        Role::Key if has_any("CERTIFICATE") => role.mixed_up(),
        Role::Authority | Role::Certificate if has_any("PRIVATE KEY") => role.mixed_up(),
        Role::Authority | Role::Certificate if has_any("CERTIFICATE REQUEST") => {
            format!("is a certificate request: {option} requires the certificate signed by an authority")
        }
        Role::Authority | Role::Certificate if has("PKCS7") => {
            format!("is in PKCS#7: convert it with `openssl pkcs7 -print_certs -in {file} -out {out}`")
        }
        Role::Authority | Role::Certificate if has("TRUSTED CERTIFICATE") || has("X509 CERTIFICATE") => {
            format!(
                "contains a section that only OpenSSL can read: convert it with `openssl x509 -in {file} -out {out}`"
            )
        }
        _ if labels.is_empty() => {
            let label = if role == Role::Key { "PRIVATE KEY" } else { "CERTIFICATE" };
            format!("is not PEM: missing line `-----BEGIN {label}-----`")
        }
        _ => {
            let what = if role == Role::Key { "private key" } else { "certificate" };
            format!("contains a section `{}`, but no {what}, which {option} requires", labels[0])
        }
    })
}

const KEYS: &str = "TLS requires RSA with 2048 to 4096 bits, ECDSA (P-256, P-384) or Ed25519";
/// Remedy for a key that cannot be converted.
const OTHER_KEY: &str = "Create another key with `openssl req -new -newkey rsa:2048 -nodes -subj /CN=client -keyout client.key \
                         -out client.csr`, and let your authority sign client.csr";

/// Names the kind of a key that TLS cannot use, whatever its format; `None` if the kind is usable or unknown.
fn unusable_kind(der: &[u8]) -> Option<String> {
    // Object identifiers in DER
    const KINDS: [(&[u8], &str); 5] = [
        (b"\x06\x07\x2a\x86\x48\xce\x38\x04\x01", "a DSA key"),
        (b"\x06\x05\x2b\x81\x04\x00\x23", "an ECDSA key with the curve P-521"),
        (b"\x06\x05\x2b\x81\x04\x00\x0a", "an ECDSA key with the curve secp256k1"),
        (b"\x06\x03\x2b\x65\x71", "an Ed448 key"),
        (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a", "an RSA-PSS key"),
    ];
    let has = |part: &[u8]| der.windows(part.len()).any(|window| window == part);
    let kind = KINDS.iter().find(|(part, _)| has(part)).map(|(_, kind)| (*kind).to_owned());
    let rsa = || rsa_bits(der).filter(|bits| !(2048..=4096).contains(bits));
    kind.or_else(|| rsa().map(|bits| format!("an RSA key with {bits} bits")))
}

/// Returns the length of an RSA key's modulus, which follows the version 0.
fn rsa_bits(der: &[u8]) -> Option<usize> {
    let at = der.windows(4).position(|window| window == [0x02, 0x01, 0x00, 0x02])?;
    let bytes = match der.get(at + 4..at + 7)? {
        [0x82, high, low] => usize::from(u16::from_be_bytes([*high, *low])),
        [0x81, length, _] => usize::from(*length),
        _ => return None,
    };
    // A zero precedes the modulus.
    Some(bytes.saturating_sub(1) * 8)
}

/// Returns the error for a key that does not match the certificate, or for a key or certificate that TLS
/// cannot use.
pub fn not_a_pair(cert: &Pem, key: &Pem, error: &TlsError) -> Error {
    match error {
        TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            let [cert, key] = [cert, key].map(|pem| as_a_word(&pem.path.display().to_string()));
            Error::usage(format!(
                "the key in {key} does not belong to the first certificate in {cert}: compare \
                 `openssl pkey -in {key} -pubout` and `openssl x509 -in {cert} -noout -pubkey`"
            ))
        }
        TlsError::InvalidCertificate(why) => cert.refused(&why.to_string()),
        other => key.refused(&match key.private_key().ok().and_then(|key| unusable_kind(key.secret_der())) {
            Some(kind) => format!("it is {kind}. {KEYS}. {OTHER_KEY}"),
            None => format!(
                "{other}. {KEYS}. keytool writes ECDSA keys without their public part; to add it, run `openssl ec \
                 -in {} -out {}`",
                as_a_word(&key.path.display().to_string()),
                key.role.converted()
            ),
        }),
    }
}

/// Rejects a client certificate that no server would accept.
pub fn check_client_certificate(
    cert: &Pem,
    chain: &[CertificateDer<'static>],
    roots: Arc<RootCertStore>,
) -> Result<(), Error> {
    let provider = Arc::new(ring::default_provider());
    let Ok(verifier) = WebPkiClientVerifier::builder_with_provider(roots, provider).build() else {
        return Ok(());
    };
    let Some((own, others)) = chain.split_first() else { return Ok(()) };
    match verifier.verify_client_cert(own, others, UnixTime::now()) {
        Err(TlsError::InvalidCertificate(why)) => {
            wrong_dates(&why).or_else(|| wrong_purpose(&why)).map_or(Ok(()), |why| Err(cert.refused(&why)))
        }
        // The authorities trusted by the servers are unknown here.
        _ => Ok(()),
    }
}

fn wrong_purpose(why: &CertificateError) -> Option<String> {
    let is_wrong =
        matches!(why, CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. });
    is_wrong.then(|| "it is not valid for clients (extended key usage clientAuth)".to_owned())
}

/// Describes why a certificate is outside its validity period, if it is.
pub fn wrong_dates(why: &CertificateError) -> Option<String> {
    let date =
        |time: &UnixTime| humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(time.as_secs()));
    Some(match why {
        CertificateError::Expired => "it has expired: renew it".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("it expired on {}: renew it", date(not_after))
        }
        CertificateError::NotValidYet => "it is not valid yet: check this host's clock".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("it is not valid before {}: check this host's clock", date(not_before))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tls, TlsFiles};

    fn refusal(contents: &[u8], role: Role) -> String {
        let file = tempfile::NamedTempFile::with_suffix(".bin").unwrap();
        std::fs::write(file.path(), contents).unwrap();
        match Pem::read(file.path(), role) {
            Ok(pem) => pem.private_key().map(drop).or(pem.certificates().map(drop)).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn files_in_other_formats_are_rejected_with_a_remedy() {
        const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        for (contents, role, expected) in [
            (&b""[..], Role::Authority, "is empty"),
            (b"hello\n", Role::Authority, "is not PEM: missing line `-----BEGIN CERTIFICATE-----`"),
            (b"0 s:CN = zk1\n", Role::Key, "is not PEM: missing line `-----BEGIN PRIVATE KEY-----`"),
            (b"\xff\xfe-\0-\0", Role::Key, "iconv -f UTF-16"),
            (b"\xfe\xed\xfe\xed\0\0\0\x02", Role::Authority, "keytool -list -rfc -keystore "),
            (b"\xfe\xed\xfe\xed\0\0\0\x02", Role::Key, "-nocerts -nodes -out client.key"),
            (b"\x30\x82\x01\x00\x02\x01\x03", Role::Certificate, "-clcerts -nokeys -out client.pem"),
            (b"\x30\x82\x01\x00\x02\x01\x00", Role::Key, "openssl pkey -inform DER"),
            (b"\x30\x82\x01\x00\x02\x01\x00", Role::Authority, "a private key instead of a certificate"),
            (b"\x30\x82\x01\x00\x30\x40\x06\x09", Role::Key, "openssl pkey -inform DER"),
            (b"\x30\x82\x01\x00\x30\x82\x01\x00\xa0\x03", Role::Authority, "openssl x509 -inform DER"),
            (b"\x30\x82\x01\x00\x06\x09", Role::Authority, "openssl pkcs7 -inform DER"),
            (b"\x30\x84", Role::Authority, "in DER"),
            // An Ed25519 key is short.
            (b"\x30\x05\x02\x01\x00\x30\x00", Role::Key, "in DER"),
            (CERTIFICATE, Role::Key, "a certificate instead of a private key"),
            (KEY, Role::Certificate, "a private key instead of a certificate"),
            (&CERTIFICATE[..34], Role::Certificate, "the file is damaged"),
            (b"-----BEGIN CERTIFICATE REQUEST-----\n", Role::Certificate, "is a certificate request"),
            (b"-----BEGIN OPENSSH PRIVATE KEY-----\n", Role::Key, "ssh-keygen -p -m PKCS8"),
            (
                b"-----BEGIN DSA PRIVATE KEY-----\n",
                Role::Key,
                "is a DSA key, which cannot be used: TLS requires RSA",
            ),
            (b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n", Role::Key, "decrypt it with `openssl pkey"),
            (b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", Role::Key, "decrypt it with"),
            (b"-----BEGIN DH PARAMETERS-----\n", Role::Key, "a section `DH PARAMETERS`, but no private key"),
        ] {
            let refusal = refusal(contents, role);
            assert!(refusal.contains(expected), "{role:?}: {refusal}");
            assert!(refusal.contains(".bin"), "{refusal}");
        }
    }

    #[test]
    fn key_that_tls_cannot_use_is_named_with_the_command_that_replaces_it() {
        let tls =
            |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/tls").join(name);
        for (label, key, kind) in [
            ("RSA PRIVATE KEY", "MAkCAQACgYEAww==", "it is an RSA key with 1024 bits. TLS requires RSA"),
            ("EC PRIVATE KEY", "MAsCAQEEAQCgBwYFK4EEACM=", "it is an ECDSA key with the curve P-521."),
            ("PRIVATE KEY", "MBACAQAwCQYHKoZIzjgEAQQBAA==", "it is a DSA key."),
            ("PRIVATE KEY", "MAA=", "keytool writes ECDSA keys without their public part"),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = format!("-----BEGIN {label}-----\n{key}\n-----END {label}-----\n");
            std::fs::write(file.path(), text).unwrap();
            let files = TlsFiles {
                ca: Some(tls("ca.pem")),
                cert: Some(tls("server.pem")),
                key: Some(file.path().to_owned()),
            };
            let told = Tls::read(&files, None).unwrap_err().to_string();
            assert!(told.contains(kind), "{label}: {told}");
            assert!(told.contains("`openssl req -new -newkey") || label == "PRIVATE KEY", "{label}: {told}");
        }
    }

    #[test]
    fn read_ignores_line_endings_indentation_and_surrounding_text() {
        let ca =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/support/tls/ca.pem"));
        let ca = ca.unwrap();
        let whole = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            Pem::read(file.path(), Role::Authority).unwrap().certificates().unwrap()
        };
        let expected = whole(&ca);
        assert_eq!(expected.len(), 1);
        for text in [
            ca.replace('\n', "\r\n"),
            ca.replace('\n', "\r"),
            ca.replace('\n', "\n    "),
            format!("\u{feff}{ca}"),
            format!("Alias name: ca\nEntry type: trustedCertEntry\n\n{ca}\n\n*****\n"),
        ] {
            assert_eq!(whole(&text), expected, "{text}");
        }
    }
}
