//! Credentials for an ensemble.

use std::fmt;
use std::path::Path;

use zookeeper_client::SaslOptions;

use super::tls::Tls;
use zklockbench_core::error::Error;

/// A string hidden from `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl From<String> for Secret {
    /// Keeps only the first line, because editors and shells append a line break, and drops a byte order mark.
    fn from(text: String) -> Self {
        let line = text.trim_start_matches('\u{feff}').lines().next();
        Self(line.unwrap_or_default().to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Returns the plain text. Pass the text only where other users of the host cannot read it.
    pub fn told(&self) -> &str {
        &self.0
    }

    pub fn drawn() -> Self {
        Self(format!("zklockbench:{}", uuid::Uuid::new_v4()))
    }

    /// Reads the first line of a file.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::usage(format!("{}: {error}", file.display())))?;
        Ok(Self::from(text))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `user:password` for digest authentication.
    pub digest: Option<Secret>,
    pub sasl: Option<Sasl>,
    pub tls: Option<Tls>,
}

impl Access {
    /// Returns an error if `digest` is not `USER:PASSWORD`. The error does not contain the credentials.
    pub fn new(digest: Option<Secret>, sasl: Option<Sasl>, tls: Option<Tls>) -> Result<Self, Error> {
        let is_whole =
            |Secret(digest): &Secret| digest.split_once(':').is_some_and(|(user, _)| !user.is_empty());
        if !digest.as_ref().is_none_or(is_whole) {
            return Err(Error::usage(
                "--auth must be USER:PASSWORD, and so must the first line of --auth-file",
            ));
        }
        Ok(Self { digest, sasl, tls })
    }

    /// Returns whether sessions authenticate. If so, only the same identity may access the nodes that they
    /// create.
    pub fn has_identity(&self) -> bool {
        self.digest.is_some() || self.sasl.is_some()
    }
}

/// SASL identity of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sasl {
    DigestMd5 {
        user: String,
        password: Secret,
    },
    /// Kerberos, with the ticket of the user running the suite.
    #[cfg(feature = "gssapi")]
    Gssapi {
        /// Service name: the first part of the servers' principal.
        service: String,
    },
}

impl Sasl {
    /// Parses `USER`, `digest-md5:USER`, `gssapi` or `gssapi:SERVICE`.
    /// Errors do not contain `name`, which may include a password by mistake.
    pub fn named(
        name: &str,
        password: impl FnOnce() -> Result<Option<Secret>, Error>,
    ) -> Result<Self, Error> {
        let (mechanism, rest) = name.split_once(':').unwrap_or(("", name));
        match (mechanism.to_ascii_lowercase().as_str(), rest) {
            ("gssapi", service) => Self::gssapi(service),
            ("", "gssapi" | "GSSAPI") => Self::gssapi(""),
            ("" | "digest-md5", user) if !user.is_empty() && !user.contains(':') => match password()? {
                Some(password) if !password.0.is_empty() => {
                    Ok(Self::DigestMd5 { user: user.to_owned(), password })
                }
                _ => Err(Error::usage(
                    "--sasl requires a password: set ZKLOCKBENCH_SASL_PASSWORD or --sasl-password-file",
                )),
            },
            _ => Err(Error::usage(
                "--sasl needs USER, digest-md5:USER, gssapi or gssapi:SERVICE; a password belongs in \
                 ZKLOCKBENCH_SASL_PASSWORD or in a file (--sasl-password-file)",
            )),
        }
    }

    #[cfg(feature = "gssapi")]
    fn gssapi(service: &str) -> Result<Self, Error> {
        let service = if service.is_empty() { "zookeeper" } else { service };
        Ok(Self::Gssapi { service: service.to_owned() })
    }

    #[cfg(not(feature = "gssapi"))]
    fn gssapi(_: &str) -> Result<Self, Error> {
        Err(Error::usage(
            "this build does not support GSSAPI (Kerberos): install libkrb5-dev and libclang-dev, then rebuild it with \
             `cargo build --release --features gssapi`",
        ))
    }

    /// Returns the user and password, for clients started by the suite; `None` for Kerberos.
    pub fn user(&self) -> Option<(&str, &Secret)> {
        match self {
            Self::DigestMd5 { user, password } => Some((user, password)),
            #[cfg(feature = "gssapi")]
            Self::Gssapi { .. } => None,
        }
    }

    pub(super) fn options(&self) -> SaslOptions {
        match self {
            Self::DigestMd5 { user, password } => {
                SaslOptions::digest_md5(user.clone(), password.0.clone()).into()
            }
            #[cfg(feature = "gssapi")]
            Self::Gssapi { service } => SaslOptions::gssapi().with_username(service.clone()).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn credentials_are_hidden_in_errors_and_debug_output() {
        let wrong = Access::new(Some(Secret("hunter2".into())), None, None).unwrap_err().to_string();
        assert!(wrong.starts_with("--auth must be USER:PASSWORD") && !wrong.contains("hunter2"), "{wrong}");
        assert!(Access::new(Some(Secret(":hunter2".into())), None, None).is_err());
        let sasl = Sasl::named("bench", || Ok(Some(Secret("hunter2".into())))).unwrap();
        let access = Access::new(Some(Secret("bench:hunter2".into())), Some(sasl), None).unwrap();
        let target = Target { connect: "zk:1".into(), access };
        assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
    }

    #[test]
    fn secret_is_read_from_the_first_line_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "bench:hunter2\r\n").unwrap();
        assert!(Secret::read(file.path()).unwrap() == Secret("bench:hunter2".into()));
        std::fs::write(file.path(), "\u{feff}bench:hunter2\n\n").unwrap();
        assert!(Secret::read(file.path()).unwrap() == Secret("bench:hunter2".into()));
        let missing = Secret::read(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("/no/such/file"), "{missing}");
    }

    #[test]
    fn secret_from_a_variable_is_its_first_line() {
        for text in ["hunter2", "hunter2\n", "hunter2\r\n", "\u{feff}hunter2\n"] {
            assert!(Secret::from(text.to_owned()) == Secret("hunter2".into()), "{text:?}");
        }
    }

    #[test]
    fn sasl_identity_accepts_a_user_with_an_optional_mechanism() {
        let named = |name: &str, password: &str| {
            Sasl::named(name, || Ok(Some(Secret(password.into())))).map_err(|error| error.to_string())
        };
        let bench = Sasl::DigestMd5 { user: "bench".into(), password: Secret("hunter2".into()) };
        for name in ["bench", "digest-md5:bench", "DIGEST-MD5:bench"] {
            assert_eq!(named(name, "hunter2"), Ok(bench.clone()), "{name}");
        }
        for (name, password, expected) in [
            ("bench", "", "--sasl requires a password"),
            ("", "hunter2", "--sasl needs USER"),
            ("bench:secret", "hunter2", "--sasl needs USER"),
            ("digest-md5:", "hunter2", "--sasl needs USER"),
            ("digest-md5:bench:secret", "hunter2", "--sasl needs USER"),
            ("plain:bench", "hunter2", "--sasl needs USER"),
        ] {
            let error = named(name, password).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret"), "{name}: {error}");
        }
        if cfg!(not(feature = "gssapi")) {
            assert!(named("gssapi", "").unwrap_err().contains("--features gssapi"));
        }
    }
}
