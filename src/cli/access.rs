//! From options to the way into an ensemble.

use super::args::AccessArgs;
use crate::error::Error;
use crate::zk::{Access, TlsFiles};

impl AccessArgs {
    /// Whether any option asks for TLS.
    pub fn wants_tls(&self) -> bool {
        self.tls || self.tls_ca.is_some() || self.tls_cert.is_some()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Names what is missing or wrong.
    pub fn access(&self) -> Result<Access, Error> {
        let files =
            TlsFiles { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() };
        Access::new(self.auth.clone(), self.wants_tls().then_some(&files))
    }
}
