//! Setup of a calibration: the same number of sessions on each server, on one thread.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use zklockbench_core::clock;
use zklockbench_zk::keep_awake::{Unread, keep_awake};
use zklockbench_zk::runtime::Task;
use zklockbench_zk::throttle::Throttle;
use zklockbench_zk::{Failure, Observed, Session, Target, runtime};

#[derive(Debug, Clone)]
pub struct CalibrationSite {
    pub target: Target,
    pub servers: Vec<String>,
    /// Path of an existing empty node, the parent of all created nodes.
    pub place: String,
    /// Interval between the reads that keep the suite's own servers awake; `None` if no reads are needed.
    pub keep_awake: Option<Duration>,
    /// Rate limiter for requests, if any.
    pub throttle: Option<Arc<Throttle>>,
}

impl CalibrationSite {
    /// Waits until this many requests may be sent.
    pub(super) async fn admit(&self, requests: u32) {
        if let Some(throttle) = &self.throttle {
            throttle.admit(requests).await;
        }
    }

    /// Opens a session whose requests count towards the rate limit.
    pub(super) async fn open(&self, target: &Target, within: Duration) -> Result<Session, Failure> {
        let observed = Observed { throttle: self.throttle.clone(), ..Observed::by_nobody() };
        target.open(SESSION_TIMEOUT, within, observed).await
    }

    pub(super) async fn admit_session(&self) {
        if let Some(throttle) = &self.throttle {
            throttle.admit_session().await;
        }
    }
}

/// Session timeout; a shorter timeout would have no benefit.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for closing all sessions together.
const ALL_CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// Maximum number of measured servers.
const SERVERS_AT_MOST: usize = 9;

pub(super) struct OnServer {
    pub(super) address: String,
    pub(super) sessions: Vec<Session>,
}

pub(super) struct ServerSessions {
    pub(super) site: CalibrationSite,
    pub(super) servers: Vec<OnServer>,
    /// Servers that were left out, each with the reason.
    pub(super) left_out: Vec<String>,
    awake: Vec<Task<Unread>>,
    close: CancellationToken,
}

impl ServerSessions {
    /// Opens this many sessions on each server. Leaves out servers that do not grant all of them.
    pub(super) async fn open(site: CalibrationSite, each: usize, within: Duration) -> Result<Self, String> {
        let (used, spare) = site.servers.split_at(site.servers.len().min(SERVERS_AT_MOST));
        let opened = join_all(used.iter().map(|address| on_server(&site, address, each, within))).await;
        let (mut servers, mut left_out) = (Vec::new(), Vec::new());
        for opened in opened {
            match opened {
                Ok(on_server) => servers.push(on_server),
                Err(why) => left_out.push(why),
            }
        }
        if servers.is_empty() {
            return Err(left_out.join("; "));
        }
        if !spare.is_empty() {
            left_out.push(format!("servers not measured, to save time: {}", spare.join(", ")));
        }
        let close = CancellationToken::new();
        let keep = |(on_server, every): (&OnServer, Duration)| {
            runtime::spawn_local(keep_awake(site.target.on(&on_server.address), every, close.clone()))
        };
        let awake = servers.iter().zip(site.keep_awake.into_iter().cycle()).map(keep).collect();
        Ok(Self { site, servers, left_out, awake, close })
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|on_server| on_server.address.clone()).collect()
    }

    pub(super) fn session(&self, server: usize, which: usize) -> &Session {
        &self.servers[server].sessions[which]
    }

    pub(super) fn at<T, E: Display>(
        &self,
        server: usize,
        what: &str,
        done: Result<T, E>,
    ) -> Result<T, String> {
        done.map_err(|why| format!("{what} on {}: {why}", self.servers[server].address))
    }

    /// Closes all sessions, which deletes their ephemeral nodes.
    pub(super) async fn close(self) {
        self.close.cancel();
        join_all(self.awake).await;
        close_all(self.servers.into_iter().flat_map(|on_server| on_server.sessions)).await;
    }
}

async fn close_all(sessions: impl IntoIterator<Item = Session>) {
    join_all(sessions.into_iter().map(|session| session.close(ALL_CLOSED_WITHIN))).await;
}

async fn on_server(
    site: &CalibrationSite,
    address: &str,
    each: usize,
    within: Duration,
) -> Result<OnServer, String> {
    let target = site.target.on(address);
    let open = async |_| {
        site.admit_session().await;
        site.open(&target, within).await
    };
    let (mut sessions, mut refused) = (Vec::new(), None);
    for opened in join_all((0..each).map(open)).await {
        match opened {
            Ok(session) => sessions.push(session),
            Err(why) => {
                refused.get_or_insert(why);
            }
        }
    }
    match refused {
        Some(why) => {
            close_all(sessions).await;
            Err(format!("no session on {address}: {why}"))
        }
        None => Ok(OnServer { address: address.to_owned(), sessions }),
    }
}

/// Times a request until its reply arrives, in microseconds, excluding this thread's own lag.
pub(super) async fn timed<T>(
    session: &Session,
    request: impl AsyncFnOnce() -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let _ = session.take_lag_us();
    let begun = clock::now();
    let reply = request().await?;
    let took = clock::now().saturating_sub(begun);
    Ok((reply, took.saturating_sub(session.take_lag_us())))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;
    use zklockbench_zk::Access;

    use super::*;
    use crate::one_ensemble::tests::serve;

    #[tokio::test]
    async fn granted_sessions_are_closed_if_the_server_refuses_another() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let closed = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&closed);
        tokio::spawn(async move {
            for id in [7, 0] {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, id, true, Arc::clone(&counted)));
            }
        });
        let site = CalibrationSite {
            target: Target { connect: address.clone(), access: Access::default() },
            servers: vec![address.clone()],
            place: "/x".into(),
            keep_awake: None,
            throttle: None,
        };
        let opened = on_server(&site, &address, 2, OPEN_WITHIN).await;
        assert!(opened.is_err_and(|why| why.starts_with("no session on 127.0.0.1:")));
        assert_eq!(closed.load(Ordering::SeqCst), 1);
    }
}
