//! Requests of each kind on one server, one at a time and many at once.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use rustix::time::{ClockId, clock_gettime};

use super::Slice;
use super::sessions::{CalibrationSite, ServerSessions, timed};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Histogram, new_histogram};
use zklockbench_record::{RawRequest, Saturation};
use zklockbench_zk::{EventKind, Failure, NodeKind, Op, Session, Target};

pub const SESSIONS: usize = 4;
pub const IN_FLIGHT: usize = 16;
/// Maximum number of nodes at a time, because the end of a session deletes all its nodes in one transaction.
const NODES_AT_MOST: usize = 20_000;

const WITHIN: Duration = Duration::from_secs(10);

const DATA: &[u8] = &[b'x'; 16];
const LISTED: [usize; 3] = [1, 100, 1_000];

/// Nodes for the requests to one server.
struct Nodes {
    parent: String,
    data: String,
    other: String,
    /// Nodes with 1, 100 and 1,000 children, which all servers share.
    lists: [String; 3],
    /// Nodes that a request created and none has deleted.
    created: RefCell<Vec<String>>,
}

impl Nodes {
    fn of(place: &str, server: usize) -> Self {
        let path = |name| format!("{place}/{name}-{server}");
        Self {
            parent: path("parent"),
            data: path("data"),
            other: path("other"),
            lists: LISTED.map(|names| list(place, names)),
            created: RefCell::default(),
        }
    }

    /// Sends one request. Returns false if no request was left to send.
    async fn send(&self, session: &Session, request: RawRequest) -> Result<bool, Failure> {
        let Self { parent, data, other, lists: [list_1, list_100, list_1000], created } = self;
        match request {
            RawRequest::Create => {
                if created.borrow().len() >= NODES_AT_MOST {
                    return Ok(false);
                }
                let path = format!("{parent}/n-");
                let node = session.create(&path, &[], NodeKind::EphemeralSequential).await?;
                created.borrow_mut().push(node.path);
            }
            RawRequest::Delete => {
                let Some(path) = created.borrow_mut().pop() else { return Ok(false) };
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
            RawRequest::GetChildren1 => drop(session.get_children(list_1).await?),
            RawRequest::GetChildren100 => drop(session.get_children(list_100).await?),
            RawRequest::GetChildren1000 => drop(session.get_children(list_1000).await?),
        }
        Ok(true)
    }

    /// Deletes the created nodes that no request has deleted.
    async fn delete_left(&self, site: &CalibrationSite, session: &Session) -> Result<(), Failure> {
        let left = self.created.take();
        let delete = async |path: &String| {
            site.admit(1).await;
            session.delete(path).await
        };
        try_join_all(left.iter().map(delete)).await.map(drop)
    }
}

fn list(place: &str, names: usize) -> String {
    format!("{place}/list-{names}")
}

/// Creates the nodes for all requests. One session owns the children of the lists, which disappear with it.
pub(super) async fn prepare(sessions: &ServerSessions) -> Result<(), String> {
    let place = sessions.site.place.as_str();
    let session = sessions.session(0, 0);
    for names in LISTED {
        let parent = list(place, names);
        let made = async {
            session.create(&parent, &[], NodeKind::Persistent).await?;
            // Make the names as long as the names of queue nodes.
            let prefix = format!("{parent}/n-");
            let create = async |_| {
                sessions.site.admit(1).await;
                session.create(&prefix, &[], NodeKind::EphemeralSequential).await
            };
            try_join_all((0..names).map(create)).await
        };
        sessions.at(0, "create", made.await)?;
    }
    for server in 0..sessions.servers.len() {
        let session = sessions.session(server, 0);
        // After a sync, readers on this server see all children.
        sessions.at(server, "sync", session.sync(place).await)?;
        let nodes = Nodes::of(place, server);
        // Once the server has answered the creates, its other sessions see the nodes, too.
        for path in [&nodes.parent, &nodes.data, &nodes.other] {
            sessions.at(server, "create", session.create(path, DATA, NodeKind::Persistent).await)?;
        }
    }
    Ok(())
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
    pub(super) async fn measure(
        &mut self,
        sessions: &ServerSessions,
        server: usize,
        slice: Slice,
    ) -> Result<(), String> {
        let (session, other) = (sessions.session(server, 0), sessions.session(server, 1));
        let site = &sessions.site;
        let nodes = Nodes::of(&site.place, server);
        for (request, samples) in RawRequest::ALL.into_iter().zip(&mut self.requests) {
            let measured = repeat(slice, samples, async || {
                site.admit(1).await;
                let (is_sent, us) = timed(session, || nodes.send(session, request)).await?;
                Ok(is_sent.then_some(us))
            });
            sessions.at(server, request.name(), measured.await)?;
            if request == RawRequest::Delete {
                sessions.at(server, "delete", nodes.delete_left(site, session).await)?;
            }
        }
        let watched = repeat(slice, &mut self.watch, async || {
            site.admit(2).await;
            watched(session, other, &nodes.data).await
        });
        sessions.at(server, "watch", watched.await)?;
        let target = site.target.on(&sessions.servers[server].address);
        sessions.at(server, "open a session", self.sessions(site, &target, slice).await)
    }

    async fn sessions(
        &mut self,
        site: &CalibrationSite,
        target: &Target,
        slice: Slice,
    ) -> Result<(), Failure> {
        let closing = &mut self.session_close;
        repeat(slice, &mut self.session_open, async || {
            site.admit_session().await;
            let begun = clock::now();
            let session = site.open(target, WITHIN).await?;
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
    pub(super) async fn measure(
        &mut self,
        sessions: &ServerSessions,
        server: usize,
        lasts: Duration,
    ) -> Result<(), String> {
        if lasts.is_zero() {
            return Ok(());
        }
        let nodes = Nodes::of(&sessions.site.place, server);
        for (request, sum) in RawRequest::ALL.into_iter().zip(&mut self.0) {
            let work = Work { nodes: &nodes, request, answered: Cell::new(0), until: Cell::new(0) };
            let measured = work.saturate(&sessions.servers[server].sessions, lasts).await;
            sum.add(sessions.at(server, request.name(), measured)?);
            if request == RawRequest::Delete {
                let deleted = nodes.delete_left(&sessions.site, sessions.session(server, 0)).await;
                sessions.at(server, "delete", deleted)?;
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
    nodes: &'a Nodes,
    request: RawRequest,
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
            if !self.nodes.send(session, self.request).await? {
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
