//! TLS for the suite's sessions: the user's PEM files, and the names required in servers' certificates.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use zookeeper_client::TlsOptions;

use super::pem::{self, Pem, Role};
use zklockbench_core::error::Error;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate authority that signed the servers' certificates; `None` to use the system's authorities.
    pub ca: Option<PathBuf>,
    /// Client certificate, if servers require one.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// TLS options from files that were read and validated.
#[derive(Debug, Clone)]
pub struct Tls {
    pub(super) options: TlsOptions,
    /// Configuration for handshakes outside any session.
    pub(super) config: Arc<ClientConfig>,
    /// The PEM files; `ca` is always set.
    pub files: TlsFiles,
    /// Name that the servers' certificates must have, instead of the host in the connect string.
    pub(super) server_name: Option<ServerName<'static>>,
    /// Names that the servers' certificates must have instead of their addresses.
    names: Arc<HashMap<SocketAddr, ServerName<'static>>>,
    /// Whether drivers connect to hosts other than the names in the servers' certificates.
    pub has_other_names: bool,
}

impl Tls {
    /// Reads the files. For the certificate check, `server_name` replaces the hosts of the connect string.
    pub fn read(files: &TlsFiles, server_name: Option<&str>) -> Result<Self, Error> {
        // The client library trusts no authority by default.
        let system = || system_authorities(std::env::var_os(AUTHORITIES), &SYSTEM_AUTHORITIES.map(Path::new));
        let ca = files.ca.clone().map_or_else(system, Ok)?;
        let authorities = Pem::read(&ca, Role::Authority)?;
        let (options, config) = configured(&authorities, files)?;
        let server_name = server_name.map(named).transpose()?;
        let options = match server_name.clone() {
            Some(name) => options.with_server_names(move |_, _| Some(name.clone())),
            None => options,
        };
        let has_other_names = server_name.is_some();
        let files = TlsFiles { ca: Some(ca), ..files.clone() };
        let names = Arc::default();
        Ok(Self { options, config: Arc::new(config), files, server_name, names, has_other_names })
    }

    /// Returns the name that the certificate of the server at this address must have; `None` if the host is
    /// invalid.
    pub(super) fn name_of(&self, address: &str) -> Option<ServerName<'static>> {
        let host = address.rsplit_once(':')?.0.trim_matches(['[', ']']);
        let listed = || self.names.get(&address.parse::<SocketAddr>().ok()?).cloned();
        self.server_name.clone().or_else(listed).or_else(|| ServerName::try_from(host.to_owned()).ok())
    }

    /// Returns the name, with the port, that was resolved to this address; `None` if there is none.
    pub(super) fn resolved_from(&self, address: &str) -> Option<String> {
        let place: SocketAddr = address.parse().ok()?;
        match self.names.get(&place)? {
            name @ ServerName::DnsName(_) if !self.has_other_names => {
                Some(format!("{}:{}", name.to_str(), place.port()))
            }
            _ => None,
        }
    }

    /// Returns the same settings for other addresses of the servers, where address i leads to server i. The
    /// certificate at an address must have the server's name.
    pub fn at(&self, addresses: &[impl AsRef<str>], servers: &[String]) -> Self {
        let pairs = addresses.iter().zip(servers);
        self.with_names(pairs.filter_map(|(address, server)| {
            Some((address.as_ref().parse::<SocketAddr>().ok()?, self.name_of(server)?))
        }))
    }

    /// Returns the same settings for connections through proxies, where proxy i forwards to server i.
    pub(super) fn behind(&self, proxies: &[&str], servers: &[String]) -> Self {
        Self { has_other_names: true, ..self.at(proxies, servers) }
    }

    /// Returns these settings with the names in other settings added.
    pub(super) fn with_names_of(&self, other: &Self) -> Self {
        self.with_names(other.names.iter().map(|(address, name)| (*address, name.clone())))
    }

    fn with_names(&self, more: impl IntoIterator<Item = (SocketAddr, ServerName<'static>)>) -> Self {
        if self.server_name.is_some() {
            return self.clone();
        }
        let mut names = (*self.names).clone();
        names.extend(more);
        let names = Arc::new(names);
        let listed = Arc::clone(&names);
        let find =
            move |host: &str, port: u16| listed.get(&SocketAddr::new(host.parse().ok()?, port)).cloned();
        Self { options: self.options.clone().with_server_names(find), names, ..self.clone() }
    }
}

fn named(name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        Error::usage(format!("--tls-server-name `{name}` is neither a host name nor an IP address"))
    })
}

fn configured(authorities: &Pem, files: &TlsFiles) -> Result<(TlsOptions, ClientConfig), Error> {
    let roots = Arc::new(roots(authorities)?);
    let library = |pem: &Pem, error: zookeeper_client::Error| pem.refused(&error.to_string());
    let options =
        TlsOptions::default().with_pem_ca(&authorities.text).map_err(|error| library(authorities, error))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::environment)?
        .with_root_certificates(Arc::clone(&roots));
    let (cert, key) = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => (Pem::read(cert, Role::Certificate)?, Pem::read(key, Role::Key)?),
        (None, None) => return Ok((options, builder.with_no_client_auth())),
        _ => {
            return Err(Error::usage(
                "a client certificate requires its key: set both --tls-cert and --tls-key, or neither",
            ));
        }
    };
    let chain = cert.certificates()?;
    let config = builder
        .with_client_auth_cert(chain.clone(), key.private_key()?)
        .map_err(|error| pem::not_a_pair(&cert, &key, &error))?;
    pem::check_client_certificate(&cert, &chain, roots)?;
    let options = options.with_pem_identity(&cert.text, &key.text).map_err(|error| library(&key, error))?;
    Ok((options, config))
}

fn roots(authorities: &Pem) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let failures: Vec<_> = authorities
        .certificates()?
        .into_iter()
        .filter_map(|certificate| roots.add(certificate).err())
        .collect();
    match failures.first().filter(|_| roots.is_empty()) {
        Some(why) => Err(authorities.refused(&why.to_string())),
        None => Ok(roots),
    }
}

/// Environment variable that names a file of certificate authorities.
const AUTHORITIES: &str = "SSL_CERT_FILE";
/// Usual CA bundles: Debian and derivatives; Fedora and derivatives; SUSE; Alpine, BSD and macOS.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the file with the authorities trusted by this system.
fn system_authorities(variable: Option<OsString>, places: &[&Path]) -> Result<PathBuf, Error> {
    if let Some(file) = variable.filter(|file| !file.is_empty()).map(PathBuf::from) {
        let missing =
            || Error::usage(format!("{AUTHORITIES} is set to {}, which is not a file", file.display()));
        return if file.is_file() { Ok(file) } else { Err(missing()) };
    }
    places.iter().find(|file| file.is_file()).map(|file| file.to_path_buf()).ok_or_else(|| {
        let names: Vec<_> = places.iter().map(|file| file.display().to_string()).collect();
        Error::usage(format!(
            "no system certificate authorities found in {}: set --tls-ca to a file",
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_come_from_ssl_cert_file_or_the_first_existing_file() {
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
