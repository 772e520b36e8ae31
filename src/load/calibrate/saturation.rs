//! As many requests at once as a server takes: several sessions, each with many requests under way.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::try_join_all;
use rustix::time::{ClockId, clock_gettime};

use super::nodes::{DATA, Lists, Nodes};
use super::sessions::ServerSessions;
use crate::record::{RawRequest, Saturation};
use crate::words::clock::{self, Stamp};
use crate::world::zk::{Failure, NodeKind, Op, Session};

pub const SESSIONS: usize = 4;
pub const IN_FLIGHT: usize = 16;
/// Nodes that are created at once, at most: all of them go in one transaction if their session does.
const NODES_AT_MOST: usize = 20_000;

/// What one server took of each kind, added up over the rounds.
#[derive(Default)]
pub(super) struct Saturated([Sum; RawRequest::ALL.len()]);

/// Replies of one kind, and in which time.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    count: u64,
    lasted_us: u64,
    /// Processor time of this thread; `None` once the system did not tell.
    busy_us: Option<u64>,
}

impl Saturated {
    pub(super) async fn measure(
        &mut self,
        sessions: &ServerSessions,
        place: &str,
        lists: &Lists,
        server: usize,
        lasts: Duration,
    ) -> Result<(), String> {
        let nodes = Nodes::of(place, server);
        let created = RefCell::new(Vec::new());
        for (request, sum) in RawRequest::ALL.into_iter().zip(&mut self.0) {
            let list = lists.of(request);
            let work = Work {
                request,
                nodes: &nodes,
                list: list.as_deref(),
                created: &created,
                answered: Cell::new(0),
                until: Cell::new(0),
            };
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

    /// What came of one kind; `None` when nothing did.
    pub(super) fn of(&self, request: RawRequest) -> Option<Saturation> {
        let at = RawRequest::ALL.iter().position(|one| *one == request)?;
        let Sum { count, lasted_us, busy_us } = self.0[at];
        (count > 0 && lasted_us > 0).then(|| Saturation {
            per_s: count as f64 / (lasted_us as f64 / 1e6),
            count,
            lasted_us,
            generator_share: busy_us.map(|busy| (busy as f64 / lasted_us as f64).min(1.0)),
        })
    }
}

impl Sum {
    fn add(&mut self, more: Self) {
        let busy = if self.lasted_us == 0 { Some(0) } else { self.busy_us };
        self.busy_us = busy.zip(more.busy_us).map(|(busy, more)| busy + more);
        self.count += more.count;
        self.lasted_us += more.lasted_us;
    }
}

/// One kind of request, by many at once.
struct Work<'a> {
    request: RawRequest,
    nodes: &'a Nodes,
    list: Option<&'a str>,
    created: &'a RefCell<Vec<String>>,
    answered: Cell<u64>,
    /// Until when replies count: the end, or when one found nothing left to do.
    until: Cell<Stamp>,
}

impl Work<'_> {
    async fn saturate(&self, sessions: &[Session], lasts: Duration) -> Result<Sum, Failure> {
        let (begun, busy) = (clock::now(), busy_us());
        self.until.set(begun + clock::micros(lasts));
        let workers = sessions.iter().flat_map(|session| (0..IN_FLIGHT).map(move |_| self.worker(session)));
        try_join_all(workers).await?;
        let ended = clock::now();
        // The processor time is of a moment longer, until the last reply has come.
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
            if !self.one(session).await? {
                self.until.set(self.until.get().min(clock::now()));
                break;
            }
            if clock::now() <= self.until.get() {
                self.answered.set(self.answered.get() + 1);
            }
        }
        Ok(())
    }

    /// One request; whether there was one to send.
    async fn one(&self, session: &Session) -> Result<bool, Failure> {
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

/// Processor time of this thread so far, in microseconds.
fn busy_us() -> Option<u64> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let us = time.tv_sec.checked_mul(1_000_000)?.checked_add(time.tv_nsec / 1_000)?;
    u64::try_from(us).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_and_what_was_not_measured_has_no_rate() {
        let mut all = Saturated::default();
        assert_eq!(all.of(RawRequest::Create), None);
        all.0[0].add(Sum { count: 100, lasted_us: 50_000, busy_us: Some(10_000) });
        all.0[0].add(Sum { count: 300, lasted_us: 150_000, busy_us: Some(90_000) });
        let rate = all.of(RawRequest::Create).unwrap();
        assert_eq!((rate.per_s, rate.count, rate.generator_share), (2_000.0, 400, Some(0.5)));
        all.0[0].add(Sum { count: 1, lasted_us: 1, busy_us: None });
        assert_eq!(all.of(RawRequest::Create).unwrap().generator_share, None);
    }

    #[test]
    fn this_thread_s_processor_time_goes_on_while_it_works() {
        let before = busy_us().unwrap();
        let end = clock::now() + 20_000;
        while clock::now() < end {}
        assert!(busy_us().unwrap() > before);
    }
}
