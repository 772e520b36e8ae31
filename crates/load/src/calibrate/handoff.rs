//! The floor: handoffs and uncontended acquires without a lock.

use std::time::Duration;

use futures_util::future::{join_all, try_join};

use super::Slice;
use super::sessions::ServerSessions;
use zklockbench_core::clock;
use zklockbench_core::measure::{Histogram, new_histogram, pooled};
use zklockbench_record::{Floor, PairFigures, Timing};
use zklockbench_zk::{EventKind, Failure, NodeKind, Session, runtime};

struct SessionPair {
    from: usize,
    to: usize,
    handoff: Histogram,
    reply: Histogram,
    /// Time until the reply to the watcher's confirming read.
    confirmed: Histogram,
}

pub(super) struct Handoffs {
    pairs: Vec<SessionPair>,
    uncontended: Vec<Histogram>,
    /// Pause before each measurement.
    rest: Option<Duration>,
    took_us: u64,
}

/// Maximum number of servers to which a server hands over: the server itself and its next neighbours.
const NEIGHBOURS: usize = 5;

/// Requests of a handoff: create, watch, delete, confirm.
const HANDOFF_REQUESTS: usize = 4;
/// Requests of an uncontended acquire and its release.
const ACQUIRE_REQUESTS: usize = 3;

/// Times of one handoff, in microseconds since the delete call.
struct Handoff {
    event_us: u64,
    reply_us: u64,
    confirmed_us: u64,
}

impl Handoffs {
    pub(super) fn between(sessions: &ServerSessions, rest: Option<Duration>) -> Self {
        let servers = sessions.servers.len();
        let pair = |from: usize, step: usize| SessionPair {
            from,
            to: (from + step) % servers,
            handoff: new_histogram(),
            reply: new_histogram(),
            confirmed: new_histogram(),
        };
        let of = |from| (0..servers.min(NEIGHBOURS)).map(move |step| pair(from, step));
        Self {
            pairs: (0..servers).flat_map(of).collect(),
            uncontended: (0..servers).map(|_| new_histogram()).collect(),
            rest,
            took_us: 0,
        }
    }

    pub(super) async fn prepare(&self, sessions: &ServerSessions) -> Result<(), String> {
        for server in 0..self.uncontended.len() {
            let path = queue(&sessions.site.place, server);
            let made = sessions.session(server, 0).create(&path, &[], NodeKind::Persistent).await;
            sessions.at(server, "create", made)?;
        }
        Ok(())
    }

    /// Measures in rounds of one handoff per pair and one uncontended acquire per server.
    pub(super) async fn measure(&mut self, sessions: &ServerSessions, slice: Slice) -> Result<(), String> {
        let begun = clock::now();
        let end = begun + clock::micros(slice.lasts);
        for _ in 0..slice.rounds {
            let requests = HANDOFF_REQUESTS * self.pairs.len() + ACQUIRE_REQUESTS * self.uncontended.len();
            sessions.site.admit(u32::try_from(requests).unwrap_or(u32::MAX)).await;
            self.round(sessions).await?;
            if clock::now() >= end {
                break;
            }
        }
        self.took_us += clock::now().saturating_sub(begun);
        Ok(())
    }

    async fn round(&mut self, sessions: &ServerSessions) -> Result<(), String> {
        let place = &sessions.site.place;
        // Create all nodes first and concurrently, to save time.
        let create = |pair: &SessionPair| {
            let (from, path) = (pair.from, node(place, pair));
            async move {
                let made = sessions.session(from, 0).create(&path, &[], NodeKind::Ephemeral).await;
                sessions.at(from, "create", made)
            }
        };
        join_all(self.pairs.iter().map(create)).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut handed_over = Vec::with_capacity(self.pairs.len());
        for pair in &self.pairs {
            let path = node(place, pair);
            let (holder, waiter) = (sessions.session(pair.from, 0), sessions.session(pair.to, 1));
            handed_over.push(sessions.at(
                pair.from,
                "handoff",
                hand_over(holder, waiter, &path, self.rest).await,
            )?);
        }
        let mut acquired = Vec::with_capacity(self.uncontended.len());
        for server in 0..self.uncontended.len() {
            pause(self.rest).await;
            let alone = acquire_alone(sessions.session(server, 0), &queue(place, server)).await;
            acquired.push(sessions.at(server, "uncontended acquire", alone)?);
        }
        // An incomplete round contributes no samples, so that all pairs have the same number of samples.
        for (pair, Handoff { event_us, reply_us, confirmed_us }) in self.pairs.iter_mut().zip(handed_over) {
            pair.handoff.saturating_record(event_us);
            pair.reply.saturating_record(reply_us);
            pair.confirmed.saturating_record(confirmed_us);
        }
        for (samples, us) in self.uncontended.iter_mut().zip(acquired) {
            samples.saturating_record(us);
        }
        Ok(())
    }

    pub(super) fn floor(&self) -> Floor {
        let of = |chosen: &dyn Fn(&&SessionPair) -> bool| {
            let samples = self.pairs.iter().filter(chosen).map(|pair| pair.handoff.clone());
            Timing::of(&samples.reduce(pooled)?)
        };
        Floor {
            handoff: of(&|_| true),
            handoff_same_server: of(&|pair| pair.from == pair.to),
            handoff_other_server: of(&|pair| pair.from != pair.to),
            uncontended: self.uncontended.iter().cloned().reduce(pooled).as_ref().and_then(Timing::of),
            took_us: self.took_us,
            missing: None,
            outlier_us: None,
        }
    }

    pub(super) fn told(&self, addresses: &[String]) -> Vec<PairFigures> {
        let pairs = self.pairs.iter().map(|pair| PairFigures {
            from: addresses[pair.from].clone(),
            to: addresses[pair.to].clone(),
            handoff: Timing::of(&pair.handoff),
            reply: Timing::of(&pair.reply),
            confirmed: Timing::of(&pair.confirmed),
        });
        pairs.collect()
    }
}

fn node(place: &str, pair: &SessionPair) -> String {
    format!("{place}/handoff-{}-{}", pair.from, pair.to)
}

fn queue(place: &str, server: usize) -> String {
    format!("{place}/queue-{server}")
}

/// Times one handoff: the holder deletes its node, which the waiter watches.
async fn hand_over(
    holder: &Session,
    waiter: &Session,
    path: &str,
    rest: Option<Duration>,
) -> Result<Handoff, Failure> {
    let mut watch = loop {
        let (found, mut watch) = waiter.exists_and_watch(path).await?;
        if found.is_some() {
            break watch;
        }
        // The waiter's server is behind: this watch fires once the server has applied the create.
        if watch.changed().await == EventKind::SessionOver {
            return Err(Failure::SessionExpired);
        }
    };
    let mut notifications = Vec::new();
    waiter.take_notifications(&mut notifications);
    notifications.clear();
    pause(rest).await;
    let _ = holder.take_lag_us();
    let begun = clock::now();
    let reply = async {
        holder.delete(path).await?;
        Ok::<u64, Failure>(clock::now().saturating_sub(begun).saturating_sub(holder.take_lag_us()))
    };
    let event = async {
        if watch.changed().await == EventKind::SessionOver {
            return Err(Failure::SessionExpired);
        }
        let found = waiter.exists(path).await?;
        let confirmed = clock::now().saturating_sub(begun);
        if found.is_some() { Err(Failure::NodeExists) } else { Ok(confirmed) }
    };
    let (reply_us, confirmed_us) = try_join(reply, event).await?;
    waiter.take_notifications(&mut notifications);
    let event_us = notifications.last().map_or(confirmed_us, |last| last.at.saturating_sub(begun));
    Ok(Handoff { event_us, reply_us, confirmed_us })
}

async fn pause(rest: Option<Duration>) {
    if let Some(rest) = rest {
        runtime::sleep(rest).await;
    }
}

/// Creates a node and lists the queue, like an uncontended queue lock. Returns the time in microseconds.
async fn acquire_alone(session: &Session, queue: &str) -> Result<u64, Failure> {
    let begun = clock::now();
    let created = session.create(&format!("{queue}/n-"), &[], NodeKind::EphemeralSequential).await?;
    let names = session.get_children(queue).await?;
    let took = clock::now().saturating_sub(begun);
    session.delete(&created.path).await?;
    if names.len() == 1 { Ok(took) } else { Err(Failure::Refused("not alone in the queue".into())) }
}
