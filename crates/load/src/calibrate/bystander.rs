//! A bystander's requests while sessions on its server are woken repeatedly, one of them or the whole herd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use super::sessions::{self, CLOSE_WITHIN, OPEN_WITHIN, On, event, timed};
use zklockbench_core::clock;
use zklockbench_core::measure::{Histogram, new_histogram};
use zklockbench_record::{Bystander, Timing};
use zklockbench_zk::{Failure, NodeKind, Session, Target, admin, reactor};

const HERD: usize = 100;
/// Number of comparisons between waking one session and the herd: enough for an interval of the ratio,
/// whatever disturbs one of them.
const ROUNDS: u64 = 8;
const BYSTANDING: Duration = Duration::from_secs(1);
const BETWEEN_CHANGES: Duration = Duration::from_millis(2);

pub(super) async fn beside_a_herd(on: &On<'_>) -> Result<Vec<Bystander>, Failure> {
    let directory = on.directory("bystander").await?;
    let own = format!("{directory}/own");
    on.first().create(&own, b"x", NodeKind::Persistent).await?;
    let server = &on.sessions.servers[0].address;
    let target = on.site.target.on(server);
    let herd = try_join_all((0..HERD).map(|_| sessions::open(&target, OPEN_WITHIN))).await?;
    let apart = Apart::of(&on.site.processes);
    let beside = Beside { on, server, directory, own, herd: &herd, apart: apart.is_some() };
    let measured = beside.rounds().await;
    drop(apart);
    join_all(herd.into_iter().map(|session| session.close(CLOSE_WITHIN))).await;
    measured
}

struct Beside<'a> {
    on: &'a On<'a>,
    server: &'a str,
    directory: String,
    /// Path of the bystander's node.
    own: String,
    herd: &'a [Session],
    /// Whether the servers have separate processors.
    apart: bool,
}

impl Beside<'_> {
    async fn rounds(&self) -> Result<Vec<Bystander>, Failure> {
        let mut all = Vec::new();
        // The second situation may find a warmer server, so their order alternates.
        let in_turn = |round: u64| if round.is_multiple_of(2) { [1, HERD] } else { [HERD, 1] };
        for (round, woken) in (0..ROUNDS).flat_map(|round| in_turn(round).map(|woken| (round, woken))) {
            all.push(self.situation(round, woken).await?);
        }
        Ok(all)
    }

    async fn situation(&self, round: u64, woken: usize) -> Result<Bystander, Failure> {
        let queue = format!("{}/{round}-woken-{woken}", self.directory);
        self.on.first().create(&queue, &[], NodeKind::Persistent).await?;
        let waking = Arc::new(Waking::default());
        let asking = on_its_own(self.on.site.target.on(self.server), self.own.clone(), Arc::clone(&waking));
        let before = Updates::of(self.server);
        let changes = self.wake(&queue, &self.herd[..woken], &waking).await;
        let after = Updates::of(self.server);
        waking.is_over.store(true, Ordering::SeqCst);
        let BystanderSamples { read, write } = asking.join().map_err(|_| Failure::NoReply)??;
        Ok(Bystander {
            round,
            waiting: self.herd.len() as u64,
            woken: woken as u64,
            changes: changes?,
            read: Timing::of(&read),
            write: Timing::of(&write),
            server_update_us: before.zip(after).and_then(|(before, after)| after.mean_us_since(before)),
            processors_apart: self.apart,
        })
    }

    /// Wakes these sessions repeatedly by a node that comes and goes; each then lists and sets its watch
    /// again, like a lock's waiters.
    async fn wake(&self, queue: &str, herd: &[Session], waking: &Waking) -> Result<u64, Failure> {
        let (node, list) = (format!("{queue}/node"), async |session: &Session| {
            session.get_children_and_watch(queue).await.map(|(_, watch)| watch)
        });
        let mut watches = try_join_all(herd.iter().map(&list)).await?;
        let (end, mut changes) = (clock::now() + clock::micros(BYSTANDING), 0_u64);
        while clock::now() < end {
            waking.turn();
            if changes.is_multiple_of(2) {
                self.on.second().create(&node, &[], NodeKind::Ephemeral).await?;
            } else {
                self.on.second().delete(&node).await?;
            }
            let relisting = herd.iter().zip(&mut watches).map(async |(session, watch)| {
                event(watch).await;
                list(session).await
            });
            watches = try_join_all(relisting).await?;
            waking.turn();
            changes += 1;
            reactor::sleep(BETWEEN_CHANGES).await;
        }
        Ok(changes)
    }
}

/// A server's counters of updates that its own clients requested.
#[derive(Clone, Copy)]
struct Updates {
    count: i64,
    /// Total time from reading a request to answering it. The server counts whole milliseconds, which give
    /// the right total over many requests.
    sum_ms: i64,
}

impl Updates {
    /// Reads the counters; `None` if the server does not report them. Uses a separate thread, because the
    /// request does not go through the client library.
    fn of(server: &str) -> Option<Self> {
        let server = server.to_owned();
        let asked = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            let mntr = runtime.block_on(admin::mntr(&server)).ok()?;
            let number = |key| mntr.number(key);
            Some(Self { count: number("zk_cnt_updatelatency")?, sum_ms: number("zk_sum_updatelatency")? })
        });
        asked.join().ok()?
    }

    fn mean_us_since(self, before: Self) -> Option<f64> {
        let (count, sum_ms) = (self.count - before.count, self.sum_ms - before.sum_ms);
        (count > 0).then(|| 1_000.0 * sum_ms as f64 / count as f64)
    }
}

#[derive(Default)]
struct Waking {
    /// Odd while sessions are being woken: from before a change until all of them have listed again.
    turns: AtomicU64,
    is_over: AtomicBool,
}

impl Waking {
    fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

struct BystanderSamples {
    read: Histogram,
    write: Histogram,
}

/// A bystander on a separate thread, so that the woken sessions' work in this program does not delay it. It
/// reads and writes its node alternately until stopped. Only requests sent during wake-ups count; in between,
/// nothing can delay them.
fn on_its_own(
    target: Target,
    own: String,
    waking: Arc<Waking>,
) -> std::thread::JoinHandle<Result<BystanderSamples, Failure>> {
    std::thread::spawn(move || {
        reactor::block_on(async move {
            let session = sessions::open(&target, OPEN_WITHIN).await?;
            let mut samples = BystanderSamples { read: new_histogram(), write: new_histogram() };
            while !waking.is_over.load(Ordering::SeqCst) {
                let began = waking.turns.load(Ordering::SeqCst);
                let (_, us) = timed(&session, || session.get_data(&own)).await?;
                let between = waking.turns.load(Ordering::SeqCst);
                if began % 2 == 1 || between != began {
                    samples.read.saturating_record(us);
                }
                let (_, us) = timed(&session, || session.set_data(&own, b"y")).await?;
                if between % 2 == 1 || between != waking.turns.load(Ordering::SeqCst) {
                    samples.write.saturating_record(us);
                }
            }
            session.close(CLOSE_WITHIN).await;
            Ok(samples)
        })
    })
}

#[cfg(target_os = "linux")]
use linux::Apart;

/// Other systems have no such interface.
#[cfg(not(target_os = "linux"))]
struct Apart;

#[cfg(not(target_os = "linux"))]
impl Apart {
    fn of(_: &[u32]) -> Option<Self> {
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io;

    use rustix::io::Errno;
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Separates the servers' processors from this program's during a comparison. Dropping it undoes the
    /// separation.
    pub struct Apart {
        threads: Vec<Kept>,
    }

    struct Kept {
        thread: Pid,
        /// Processors that the thread was allowed to use before.
        before: CpuSet,
    }

    impl Apart {
        /// Gives this program the first of its processors and the servers the others. `None` if there is only
        /// one, if the servers are not processes of this host, or if the system refuses.
        pub fn of(servers: &[u32]) -> Option<Self> {
            let all = sched_getaffinity(None).ok()?;
            let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
            let [first, others @ ..] = usable.as_slice() else { return None };
            if others.is_empty() || servers.is_empty() {
                return None;
            }
            let mut apart = Self { threads: Vec::new() };
            let mut all_kept = apart.keep(std::process::id(), &[*first]).is_ok();
            for server in servers {
                all_kept &= apart.keep(*server, others).is_ok();
            }
            all_kept.then_some(apart)
        }

        /// Pins all threads of a process to these processors; threads started later inherit that.
        fn keep(&mut self, process: u32, processors: &[usize]) -> io::Result<()> {
            let mut only = CpuSet::new();
            processors.iter().for_each(|cpu| only.set(*cpu));
            for task in fs::read_dir(format!("/proc/{process}/task"))? {
                let id = task?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
                let Some(thread) = id else { continue };
                let kept = sched_getaffinity(Some(thread)).and_then(|before| {
                    sched_setaffinity(Some(thread), &only)?;
                    Ok(Kept { thread, before })
                });
                match kept {
                    Ok(kept) => self.threads.push(kept),
                    // The thread has ended meanwhile.
                    Err(Errno::SRCH) => {}
                    Err(why) => return Err(why.into()),
                }
            }
            Ok(())
        }
    }

    impl Drop for Apart {
        fn drop(&mut self) {
            for Kept { thread, before } in &self.threads {
                // The thread may have ended meanwhile.
                let _ = sched_setaffinity(Some(*thread), before);
            }
        }
    }
}
