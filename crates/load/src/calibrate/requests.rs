//! Requests of each kind on one server, one at a time and many at once.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use rustix::time::{ClockId, clock_gettime};

use super::Slice;
use super::sessions::{DATA, Lists, Nodes, ServerSessions, timed};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Histogram, new_histogram};
use zklockbench_record::{RawRequest, Saturation};
use zklockbench_zk::{EventKind, Failure, NodeKind, Op, Session};

pub const SESSIONS: usize = 4;
pub const IN_FLIGHT: usize = 16;
/// Maximum number of nodes at a time, because the end of a session deletes all its nodes in one transaction.
const NODES_AT_MOST: usize = 20_000;

const WITHIN: Duration = Duration::from_secs(10);

pub(super) struct AskedServer<'a> {
    pub(super) sessions: &'a ServerSessions,
    pub(super) lists: &'a Lists,
    pub(super) server: usize,
}

/// Time of each kind of request on an otherwise idle server, one request at a time.
pub(super) struct Alone {
    /// Times by kind of request, in the order of [`RawRequest::ALL`].
    pub(super) requests: Vec<Histogram>,
    pub(super) watch: Histogram,
    pub(super) session_open: Histogram,
    pub(super) session_close: Histogram,
}

impl Default for Alone {
    fn default() -> Self {
        Self {
            requests: RawRequest::ALL.map(|_| new_histogram()).into(),
            watch: new_histogram(),
            session_open: new_histogram(),
            session_close: new_histogram(),
        }
    }
}

impl Alone {
    pub(super) async fn measure(&mut self, on: &AskedServer<'_>, slice: Slice) -> Result<(), String> {
        let (session, other) = (on.sessions.session(on.server, 0), on.sessions.session(on.server, 1));
        let site = &on.sessions.site;
        let nodes = Nodes::of(&site.place, on.server);
        let created = RefCell::new(Vec::new());
        for (request, samples) in RawRequest::ALL.into_iter().zip(&mut self.requests) {
            let list = on.lists.of(request);
            let asked = Asked { request, nodes: &nodes, list: list.as_deref(), created: &created };
            let measured = repeat(slice, samples, async || {
                site.admit(1).await;
                let (is_sent, us) = timed(session, || asked.send(session)).await?;
                Ok(is_sent.then_some(us))
            });
            on.sessions.at(on.server, request.name(), measured.await)?;
            if request == RawRequest::Delete {
                // Delete the nodes that no sample deleted.
                let left = created.take();
                let delete = async |path: &String| {
                    site.admit(1).await;
                    session.delete(path).await
                };
                on.sessions.at(on.server, "delete", try_join_all(left.iter().map(delete)).await)?;
            }
        }
        let watched = repeat(slice, &mut self.watch, async || {
            site.admit(2).await;
            watched(session, other, &nodes.data).await
        });
        on.sessions.at(on.server, "watch", watched.await)?;
        on.sessions.at(on.server, "open a session", self.sessions(on, slice).await)
    }

    async fn sessions(&mut self, on: &AskedServer<'_>, slice: Slice) -> Result<(), Failure> {
        let site = &on.sessions.site;
        let target = site.target.on(&on.sessions.servers[on.server].address);
        let closing = &mut self.session_close;
        repeat(slice, &mut self.session_open, async || {
            site.admit_session().await;
            let begun = clock::now();
            let session = site.open(&target, WITHIN).await?;
            let opened = clock::now();
            session.close(WITHIN).await;
            closing.saturating_record(clock::now().saturating_sub(opened));
            Ok(Some(opened.saturating_sub(begun)))
        })
        .await
    }
}

/// Takes samples (at least one) until the time is up, there are enough samples, or no request is left to send.
async fn repeat(
    slice: Slice,
    samples: &mut Histogram,
    mut sample: impl AsyncFnMut() -> Result<Option<u64>, Failure>,
) -> Result<(), Failure> {
    let end = clock::now() + clock::micros(slice.lasts);
    for _ in 0..slice.rounds {
        let Some(us) = sample().await? else { break };
        samples.saturating_record(us);
        if clock::now() >= end {
            break;
        }
    }
    Ok(())
}

struct Asked<'a> {
    request: RawRequest,
    nodes: &'a Nodes,
    list: Option<&'a str>,
    created: &'a RefCell<Vec<String>>,
}

impl Asked<'_> {
    /// Sends one request. Returns false if no request was left to send.
    async fn send(&self, session: &Session) -> Result<bool, Failure> {
        let Nodes { parent, data, other } = self.nodes;
        match self.request {
            RawRequest::Create => {
                if self.created.borrow().len() >= NODES_AT_MOST {
                    return Ok(false);
                }
                let path = format!("{parent}/n-");
                let node = session.create(&path, &[], NodeKind::EphemeralSequential).await?;
                self.created.borrow_mut().push(node.path);
            }
            RawRequest::Delete => {
                let Some(path) = self.created.borrow_mut().pop() else { return Ok(false) };
                session.delete(&path).await?;
            }
            RawRequest::Exists => drop(session.exists(data).await?),
            RawRequest::GetData => drop(session.get_data(data).await?),
            RawRequest::SetData => drop(session.set_data(data, DATA).await?),
            RawRequest::Multi => {
                let writes = [Op::SetData(data, DATA), Op::SetData(other, DATA)];
                session.multi(&writes).await?;
            }
            RawRequest::Sync => session.sync(data).await?,
            RawRequest::GetChildren1 | RawRequest::GetChildren100 | RawRequest::GetChildren1000 => {
                let Some(path) = self.list else { return Ok(false) };
                session.get_children(path).await?;
            }
        }
        Ok(true)
    }
}

/// Changes a node that a session on the same server watches. Returns the time until the event arrives.
async fn watched(writer: &Session, watcher: &Session, path: &str) -> Result<Option<u64>, Failure> {
    let (_, mut watch) = watcher.get_data_and_watch(path).await?;
    let mut notifications = Vec::new();
    watcher.take_notifications(&mut notifications);
    notifications.clear();
    let begun = clock::now();
    let event = async {
        let kind = watch.changed().await;
        if kind == EventKind::SessionOver { Err(Failure::SessionExpired) } else { Ok(()) }
    };
    try_join(writer.set_data(path, DATA), event).await?;
    watcher.take_notifications(&mut notifications);
    Ok(notifications.last().map(|last| last.at.saturating_sub(begun)))
}

/// Totals of each kind of request over the rounds, with [`IN_FLIGHT`] requests at once from each session.
#[derive(Default)]
pub(super) struct Saturated(pub(super) [Sum; RawRequest::ALL.len()]);

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sum {
    count: u64,
    lasted_us: u64,
    /// Processor time of this thread; `None` if the system failed to report it.
    busy_us: Option<u64>,
}

impl Saturated {
    pub(super) async fn measure(&mut self, on: &AskedServer<'_>, lasts: Duration) -> Result<(), String> {
        if lasts.is_zero() {
            return Ok(());
        }
        let AskedServer { sessions, lists, server } = *on;
        let nodes = Nodes::of(&sessions.site.place, server);
        let created = RefCell::new(Vec::new());
        for (request, sum) in RawRequest::ALL.into_iter().zip(&mut self.0) {
            let list = lists.of(request);
            let asked = Asked { request, nodes: &nodes, list: list.as_deref(), created: &created };
            let work = Work { asked, answered: Cell::new(0), until: Cell::new(0) };
            let measured = work.saturate(&sessions.servers[server].sessions, lasts).await;
            sum.add(sessions.at(server, request.name(), measured)?);
            if request == RawRequest::Delete {
                let session = sessions.session(server, 0);
                let left = created.take();
                let left = left.iter().map(|path| session.delete(path));
                sessions.at(server, "delete", try_join_all(left).await)?;
            }
        }
        Ok(())
    }
}

impl Sum {
    pub(super) fn saturation(self) -> Option<Saturation> {
        let Self { count, lasted_us, busy_us } = self;
        (count > 0 && lasted_us > 0).then(|| Saturation {
            per_s: count as f64 / (lasted_us as f64 / 1e6),
            count,
            lasted_us,
            generator_share: busy_us.map(|busy| (busy as f64 / lasted_us as f64).min(1.0)),
        })
    }

    fn add(&mut self, more: Self) {
        let busy = if self.lasted_us == 0 { Some(0) } else { self.busy_us };
        self.busy_us = busy.zip(more.busy_us).map(|(busy, more)| busy + more);
        self.count += more.count;
        self.lasted_us += more.lasted_us;
    }
}

struct Work<'a> {
    asked: Asked<'a>,
    answered: Cell<u64>,
    /// Time until which replies count: the planned end, or earlier if no request was left to send.
    until: Cell<Stamp>,
}

impl Work<'_> {
    async fn saturate(&self, sessions: &[Session], lasts: Duration) -> Result<Sum, Failure> {
        let (begun, busy) = (clock::now(), busy_us());
        self.until.set(begun + clock::micros(lasts));
        let workers = sessions.iter().flat_map(|session| (0..IN_FLIGHT).map(move |_| self.worker(session)));
        try_join_all(workers).await?;
        let ended = clock::now();
        // Processor time is measured until the last reply, which may arrive after the counted time.
        let share = |busy: u64| {
            let all = ended.saturating_sub(begun).max(1);
            let counted = self.until.get().saturating_sub(begun);
            u64::try_from(u128::from(busy) * u128::from(counted) / u128::from(all)).unwrap_or(busy)
        };
        let busy_us = busy_us().zip(busy).map(|(after, before)| share(after.saturating_sub(before)));
        Ok(Sum { count: self.answered.get(), lasted_us: self.until.get().saturating_sub(begun), busy_us })
    }

    async fn worker(&self, session: &Session) -> Result<(), Failure> {
        while clock::now() < self.until.get() {
            if !self.asked.send(session).await? {
                self.until.set(self.until.get().min(clock::now()));
                break;
            }
            if clock::now() <= self.until.get() {
                self.answered.set(self.answered.get() + 1);
            }
        }
        Ok(())
    }
}

/// Returns the processor time of this thread so far, in microseconds.
fn busy_us() -> Option<u64> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let us = time.tv_sec.checked_mul(1_000_000)?.checked_add(time.tv_nsec / 1_000)?;
    u64::try_from(us).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_and_unmeasured_requests_have_no_rate() {
        let mut all = Saturated::default();
        assert_eq!(all.0[0].saturation(), None);
        all.0[0].add(Sum { count: 100, lasted_us: 50_000, busy_us: Some(10_000) });
        all.0[0].add(Sum { count: 300, lasted_us: 150_000, busy_us: Some(90_000) });
        let rate = all.0[0].saturation().unwrap();
        assert_eq!((rate.per_s, rate.count, rate.generator_share), (2_000.0, 400, Some(0.5)));
        all.0[0].add(Sum { count: 1, lasted_us: 1, busy_us: None });
        assert_eq!(all.0[0].saturation().unwrap().generator_share, None);
    }

    #[test]
    fn busy_us_grows_while_the_thread_works() {
        let before = busy_us().unwrap();
        let end = clock::now() + 20_000;
        while clock::now() < end {}
        assert!(busy_us().unwrap() > before);
    }
}
