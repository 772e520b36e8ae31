//! Opening sessions: connect string, chroot, digest authentication, TLS, and which server a session goes to.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zookeeper_client::{Client, Connector, TlsOptions};

use super::inner::Observed;
use super::outcome::Failure;
use super::reactor;
use super::session::{Session, SessionKey, close};
use crate::error::Error;

/// PEM files for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate authority that signed the servers' certificates.
    pub ca: Option<PathBuf>,
    /// The client's certificate, where servers ask for one.
    pub cert: Option<PathBuf>,
    /// The client's key.
    pub key: Option<PathBuf>,
}

/// How the suite identifies itself to an ensemble.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `user:password` of digest authentication; nodes are then created for this identity alone.
    pub digest: Option<String>,
    /// TLS, with the given files, read once.
    pub tls: Option<TlsOptions>,
}

impl Access {
    /// Reads the TLS files, where there are any.
    ///
    /// # Errors
    /// Names the file that cannot be read or is not what it should be.
    pub fn new(digest: Option<String>, files: Option<&TlsFiles>) -> Result<Self, Error> {
        if let Some(digest) = digest.as_deref().filter(|digest| !digest.contains(':')) {
            return Err(Error::usage(format!("`{digest}` is no digest identity; write `user:password`")));
        }
        Ok(Self { digest, tls: files.map(tls_options).transpose()? })
    }
}

fn tls_options(files: &TlsFiles) -> Result<TlsOptions, Error> {
    let mut options = TlsOptions::default();
    if let Some(ca) = &files.ca {
        options = options.with_pem_ca(&read(ca)?).map_err(|error| not_pem(ca, &error))?;
    }
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            options.with_pem_identity(&read(cert)?, &read(key)?).map_err(|error| not_pem(cert, &error))
        }
        (None, None) => Ok(options),
        _ => Err(Error::usage("a client certificate and its key belong together; give both or neither")),
    }
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
}

fn not_pem(path: &Path, error: &zookeeper_client::Error) -> Error {
    Error::usage(format!("{}: not usable as PEM: {error}", path.display()))
}

/// An ensemble that sessions can be opened to.
#[derive(Debug, Clone)]
pub struct Target {
    /// `host:port,host:port/chroot`.
    pub connect: String,
    /// Identity.
    pub access: Access,
}

impl Target {
    /// Opens a session, on the server at that position of the connect string (counted round) if it serves.
    ///
    /// # Errors
    /// [`Failure`] when no server grants one within the deadline.
    pub async fn open_at(
        &self,
        position: usize,
        session_timeout: Duration,
        deadline: Duration,
        observed: Observed,
    ) -> Result<Session, Failure> {
        let servers = self.connect.split(',').count();
        let connecting = begin_with(position % servers, servers, self.client(session_timeout));
        self.within(deadline, connecting, observed).await
    }

    /// Opens a session on any of the servers.
    ///
    /// # Errors
    /// [`Failure`] when no server grants one within the deadline.
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

    /// Expires somebody's session from outside: takes it over by another connection, and closes it. Returns when
    /// the server has answered.
    ///
    /// Source: the way in which the tests of Java's Curator and of Python's kazoo expire a session.
    ///
    /// # Errors
    /// [`Failure`] when the session could not be taken over.
    pub async fn expire(&self, key: SessionKey, deadline: Duration) -> Result<(), Failure> {
        let connector = Client::connector().with_session(key.0);
        let taken_over = reactor::timeout(deadline, self.by(connector))
            .await
            .ok_or_else(|| Failure::NotConnected(format!("not taken over within {deadline:?}")))?;
        match taken_over {
            Ok(client) => close(client, deadline).await,
            // Something else has ended it before.
            Err(Failure::SessionExpired) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Opens a plain client, for work that is not measured.
    ///
    /// # Errors
    /// [`Failure`] when no server grants a session.
    pub async fn client(&self, session_timeout: Duration) -> Result<Client, Failure> {
        let connecting = self.by(Client::connector().with_session_timeout(session_timeout));
        connecting.await.map_err(|failure| match failure {
            Failure::SessionExpired => Failure::NotConnected("no server answered in time".into()),
            other => other,
        })
    }

    async fn by(&self, mut connector: Connector) -> Result<Client, Failure> {
        if let Some(digest) = &self.access.digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        let client = match &self.access.tls {
            Some(tls) => connector.with_tls(tls.clone()).secure_connect(&self.connect).await,
            None => connector.connect(&self.connect).await,
        };
        client.map_err(Failure::from)
    }
}

/// Polls what connects with the generator of the library's shuffle set so that the server at this position
/// comes first.
///
/// The client library tries the servers in an order that it shuffles, as all clients do. With ten contenders
/// the shares are then rarely equal, and a session on the leader is served sooner: two trials of one lock
/// differ for no reason but the draw. So the draw is made to begin with a chosen server. After a lost connection the
/// library draws again, by itself.
async fn begin_with<T>(position: usize, servers: usize, connecting: impl Future<Output = T>) -> T {
    let mut connecting = pin!(connecting);
    let mut seed = seed_for(position, servers);
    std::future::poll_fn(|cx| match seed.take() {
        // The library shuffles before its first wait, on this thread.
        Some(seed) => {
            let before = fastrand::get_seed();
            fastrand::seed(seed);
            let polled: Poll<T> = connecting.as_mut().poll(cx);
            fastrand::seed(before);
            polled
        }
        None => connecting.as_mut().poll(cx),
    })
    .await
}

/// A seed by which the shuffle of so many puts that one first. One in as many seeds does.
fn seed_for(position: usize, servers: usize) -> Option<u64> {
    const TRIED_AT_MOST: u64 = 1_000;
    let mut order = Vec::with_capacity(servers);
    (0..TRIED_AT_MOST).find(|seed| {
        order.clear();
        order.extend(0..servers);
        fastrand::Rng::with_seed(*seed).shuffle(&mut order);
        order.first() == Some(&position)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_the_servers_can_be_put_first() {
        for servers in 1..=9 {
            for position in 0..servers {
                let drawn =
                    futures_util::future::FutureExt::now_or_never(begin_with(position, servers, async {
                        let mut order: Vec<usize> = (0..servers).collect();
                        fastrand::shuffle(&mut order);
                        order[0]
                    }));
                assert_eq!(drawn, Some(position));
            }
        }
    }

    #[test]
    fn what_is_drawn_later_is_as_random_as_before() {
        fastrand::seed(7);
        let expected: Vec<u64> = std::iter::repeat_with(|| fastrand::u64(..)).take(3).collect();
        fastrand::seed(7);
        futures_util::future::FutureExt::now_or_never(begin_with(0, 3, async { fastrand::u64(..) }));
        let drawn: Vec<u64> = std::iter::repeat_with(|| fastrand::u64(..)).take(3).collect();
        assert_eq!(drawn, expected);
    }
}
