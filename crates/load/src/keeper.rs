//! Stores the contenders' notes and the servers' logs on disk for the trial's judge, so that memory does not
//! grow with the trial.
//!
//! A separate thread writes to the disk. Generator threads hand over their notes in batches and do not wait while
//! they generate load. If notes arrive faster than the disk can store them, a thread stores nothing after its first
//! lost batch: a judge that missed a release would take later acquisitions for violations. Logs in files on this
//! host are followed during the trial, so that the servers may purge them.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use super::missing::{Changes, LoggedChange, PathQuestion, answer};
use super::shared::Shared;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::ThreadRecorder;
use zklockbench_core::spool::{Sorted, Sorter, SpooledTable};
use zklockbench_core::units::shown;
use zklockbench_ensemble::log_follower::LogFollower;
use zklockbench_ensemble::transactions::{Happened, Living, Transaction, number_of};
use zklockbench_ensemble::{Logs, transactions};
use zklockbench_record::{EnteredAsOf, Facts, Life, Lives, Moment, Noted, Occurrences, Trial};
use zklockbench_zk::changes::ChangeLogs;
use zklockbench_zk::{Observed, is_own_session};

const AT_ONCE: usize = 512;
/// Maximum number of batches waiting to be written (20 MB).
const WAITING: usize = 256;
/// Interval at which the logs are read; servers purge only much older logs.
const READ_LOGS_EVERY: Duration = Duration::from_secs(10);
const NICE: i32 = 10;

#[derive(Debug)]
pub enum Note {
    /// An action of a contender.
    Did(Moment),
    /// A question about an acquisition that only the servers' logs can answer.
    Lacks(PathQuestion),
    /// Upper bound on the zxid of a hold's start, found only after the acquisition.
    EnteredAsOf(EnteredAsOf),
}

enum Message {
    Notes(usize, Vec<Note>),
    /// All notes of a thread have been handed over.
    Finished(usize),
    /// End of the trial, with the final logs unless they were followed.
    End(Option<Logs>),
}

/// Notes of a generator thread, which are discarded if there is no keeper.
#[derive(Debug, Default)]
pub struct Notes {
    thread: usize,
    fresh: Vec<Note>,
    to: Option<SyncSender<Message>>,
    /// Number of notes that could not be stored.
    lost: u64,
}

impl Notes {
    pub fn note(&mut self, note: Note) {
        if self.to.is_none() {
            return;
        }
        self.fresh.push(note);
        if self.fresh.len() >= AT_ONCE {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let Some(to) = &self.to else { return };
        let fresh = std::mem::replace(&mut self.fresh, Vec::with_capacity(AT_ONCE));
        if self.lost > 0 {
            self.lost += fresh.len() as u64;
            return;
        }
        let refused = to.try_send(Message::Notes(self.thread, fresh));
        if let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) = refused
            && let Message::Notes(_, fresh) = message
        {
            self.lost += fresh.len() as u64;
        }
    }

    /// Hands over the last notes, and waits for the disk if necessary. Returns the number of notes that could not
    /// be stored.
    pub fn finish(mut self) -> u64 {
        if self.lost > 0 {
            return self.lost + self.fresh.len() as u64;
        }
        let Some(to) = self.to.take() else { return 0 };
        // The keeper is gone if the run was abandoned.
        let _ = to.send(Message::Notes(self.thread, self.fresh));
        let _ = to.send(Message::Finished(self.thread));
        0
    }
}

#[derive(Debug)]
pub struct Kept {
    pub noted: Sorted<Noted, (Stamp, usize)>,
    /// Time from which moments may be missing; `None` if every thread handed over all its notes.
    pub complete_until: Option<Stamp>,
    pub created: Sorted<EnteredAsOf, (Stamp, usize)>,
    pub entered_as_of: Sorted<EnteredAsOf, (Stamp, usize)>,
    pub lives: Lives,
    /// Reason why the servers' logs could not be read.
    pub unread: Option<String>,
    /// Number of transactions that are missing from all logs although later ones are logged.
    pub missing: u64,
    /// First cases in which other programs' sessions interfered with the trial's nodes, one sentence each.
    pub interference: Vec<String>,
}

pub struct Keeper {
    to: SyncSender<Message>,
    kept: oneshot::Receiver<io::Result<Kept>>,
}

impl Keeper {
    pub fn start(scratch: &Path, log: Option<ServerLogs>, threads: usize) -> io::Result<Self> {
        let (to, from) = sync_channel(WAITING);
        let (sender, kept) = oneshot::channel();
        let keeping = Keeping {
            scratch: scratch.to_owned(),
            noted: Sorter::by(Facts::by_time, scratch),
            unfinished: vec![Some(0); threads],
            questions: Sorter::by(PathQuestion::order, scratch),
            entered_as_of: Sorter::by(Facts::by_entry, scratch),
            log,
            full: None,
        };
        std::thread::Builder::new().name("keeper".into()).spawn(move || {
            let _ = rustix::process::setpriority_process(None, NICE);
            // The receiver is gone if the run was abandoned.
            let _ = sender.send(keeping.run(&from));
        })?;
        Ok(Self { to, kept })
    }

    pub fn notes_of(&self, thread: usize) -> Notes {
        Notes { thread, to: Some(self.to.clone()), ..Notes::default() }
    }

    /// Waits until all notes and logs are stored, and returns them.
    pub async fn end(self, logs: Option<Logs>) -> io::Result<Kept> {
        let Self { to, kept } = self;
        let ended = tokio::task::spawn_blocking(move || to.send(Message::End(logs)).is_ok());
        if !ended.await.unwrap_or(false) {
            return Err(io::Error::other("the thread that stores the contenders' events has ended"));
        }
        kept.await.unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }
}

struct Keeping {
    scratch: PathBuf,
    noted: Sorter<Noted, (Stamp, usize)>,
    /// Time of each thread's last stored moment; `None` once the thread has handed over all its notes.
    unfinished: Vec<Option<Stamp>>,
    questions: Sorter<PathQuestion, (u64, i64)>,
    entered_as_of: Sorter<EnteredAsOf, (Stamp, usize)>,
    log: Option<ServerLogs>,
    full: Option<io::Error>,
}

/// The servers' logs, which are followed during the trial if they can be read while servers write them.
pub struct ServerLogs {
    at_hand: Option<Logs>,
    follower: LogFollower,
    seen: LogContents,
}

struct LogContents {
    living: Living,
    lives: Sorter<(i64, Life), i64>,
    changes: Sorter<LoggedChange, (u64, i64)>,
    interference: Vec<String>,
}

impl Keeping {
    fn run(mut self, from: &Receiver<Message>) -> io::Result<Kept> {
        let mut unread = None;
        let mut read_at = clock::now() + clock::micros(READ_LOGS_EVERY);
        loop {
            let left = Duration::from_micros(read_at.saturating_sub(clock::now()));
            match from.recv_timeout(left) {
                Ok(Message::Notes(thread, notes)) => self.keep(thread, notes),
                Ok(Message::Finished(thread)) => self.unfinished[thread] = None,
                Ok(Message::End(logs)) => return self.end(logs, unread),
                Err(RecvTimeoutError::Disconnected) => return self.end(None, unread),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if clock::now() >= read_at {
                read_at = clock::now() + clock::micros(READ_LOGS_EVERY);
                let read = self.log.as_mut().filter(|_| unread.is_none()).map_or(Ok(()), ServerLogs::follow);
                unread = unread.or(read.err());
            }
        }
    }

    fn keep(&mut self, thread: usize, notes: Vec<Note>) {
        if self.full.is_some() {
            return;
        }
        for note in notes {
            let kept = match note {
                Note::Did(moment) => {
                    self.unfinished[thread] = Some(moment.at);
                    self.noted.push((thread, moment))
                }
                Note::Lacks(question) => self.questions.push(question),
                Note::EnteredAsOf(known) => self.entered_as_of.push(known),
            };
            if let Err(error) = kept {
                self.full = Some(error);
            }
        }
    }

    fn end(self, logs: Option<Logs>, unread: Option<io::Error>) -> io::Result<Kept> {
        let Self { scratch, noted, unfinished, questions, mut entered_as_of, log, full } = self;
        if let Some(error) = full {
            return Err(error);
        }
        let (findings, unread) = match (log.map(|log| log.end(logs, &scratch)), unread) {
            (Some(Ok(findings)), None) => (findings, None),
            (None, None) => (LogFindings::default(), None),
            (Some(Err(why)), None) | (_, Some(why)) => (LogFindings::default(), Some(why.to_string())),
        };
        let LogFindings { lives, changes, missing, interference } = findings;
        let mut created = Sorter::by(Facts::by_entry, &scratch);
        answer(&questions.finish(), &changes, &mut created, &mut entered_as_of)?;
        let (noted, created, entered_as_of) = (noted.finish(), created.finish(), entered_as_of.finish());
        let complete_until = unfinished.into_iter().flatten().min();
        Ok(Kept { noted, complete_until, created, entered_as_of, lives, unread, missing, interference })
    }
}

struct LogFindings {
    lives: Lives,
    changes: Changes,
    missing: u64,
    interference: Vec<String>,
}

impl Default for LogFindings {
    fn default() -> Self {
        let changes = Sorted::of(LoggedChange::order, Vec::new());
        Self { lives: Lives::default(), changes, missing: 0, interference: Vec::new() }
    }
}

impl ServerLogs {
    /// Starts with the logs since this time. `below` is the root of the trial, with a trailing slash.
    pub fn new(at_hand: Option<Logs>, below: &str, since: SystemTime, scratch: &Path) -> Self {
        let seen = LogContents {
            living: Living::default(),
            lives: Sorter::by(|(created, _): &(i64, Life)| *created, scratch),
            changes: Sorter::by(LoggedChange::order, scratch),
            interference: Vec::new(),
        };
        Self { at_hand, follower: LogFollower::new(below, since), seen }
    }

    fn follow(&mut self) -> io::Result<()> {
        let Self { at_hand, follower, seen } = self;
        let Some(logs) = at_hand else { return Ok(()) };
        follower.read(&logs.directories, &mut |transaction| seen.note(transaction))
    }

    fn end(mut self, logs: Option<Logs>, scratch: &Path) -> io::Result<LogFindings> {
        self.at_hand = self.at_hand.or(logs);
        self.follow()?;
        let Self { follower, mut seen, .. } = self;
        let missing = follower.end(&mut |transaction| seen.note(transaction))?;
        let LogContents { living, mut lives, changes, interference } = seen;
        for life in living.end() {
            lives.push(of(life))?;
        }
        let (lives, changes) = (SpooledTable::of(&lives.finish(), scratch)?, changes.finish());
        Ok(LogFindings { lives, changes, missing, interference })
    }
}

impl LogContents {
    fn note(&mut self, transaction: &Transaction) -> io::Result<()> {
        let Self { living, lives, changes, interference } = self;
        let transaction = &*living.complete(transaction);
        for change in &transaction.changes {
            let path = number_of(&change.path);
            changes.push(LoggedChange { path, zxid: transaction.zxid, happened: change.happened })?;
        }
        if interference.len() < Trial::INTERFERENCE_KEPT {
            interference.extend(interfered(transaction));
        }
        living.go_on(transaction).into_iter().try_for_each(|life| lives.push(of(life)))
    }
}

/// Describes interference by another program's session, without a full stop; `None` if there is none.
fn interfered(transaction: &Transaction) -> Option<String> {
    let first = transaction.changes.first()?;
    let session = transaction.session;
    if session == transactions::SERVERS_OWN || is_own_session(session) {
        return None;
    }
    let did = match first.happened {
        Happened::Created => "created",
        Happened::Written => "wrote",
        Happened::Deleted => "deleted",
    };
    Some(format!("session {session:#x}, which is not from this run, {did} {}", shown(&first.path, 200)))
}

fn of(life: transactions::NodeLife) -> (i64, Life) {
    let transactions::NodeLife { created, deleted, deleted_at_ms, with_its_session } = life;
    (created, Life { deleted, deleted_at_ms, with_its_session })
}

/// Observations of a thread that its recorder does not contain.
#[derive(Debug, Default)]
pub struct ThreadLog {
    pub occurrences: Occurrences,
    pub notes: Notes,
}

/// Recorder, log and session observers shared by the contenders of one thread.
#[derive(Clone)]
pub struct Observation {
    pub recorder: Rc<RefCell<ThreadRecorder>>,
    pub log: Rc<RefCell<ThreadLog>>,
    pub observed: Observed,
}

impl Observation {
    pub fn new(shared: &Shared, notes: Notes, seconds: usize) -> Self {
        let recorder = Rc::new(RefCell::new(ThreadRecorder::new(seconds)));
        let observed = Observed {
            recorder: Rc::clone(&recorder),
            pulse: Arc::clone(&shared.pulse),
            last_reply: Arc::clone(&shared.last_reply),
            changes: Some(Arc::clone(&shared.lock_states) as Arc<dyn ChangeLogs>),
            throttle: shared.throttle.clone(),
            trace: None,
            messages: None,
        };
        let log = Rc::new(RefCell::new(ThreadLog { notes, ..ThreadLog::default() }));
        Self { recorder, log, observed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::spool::RUN;
    use zklockbench_record::{Deed, LockClaim};

    fn asks(at: Stamp, contender: usize) -> Note {
        Note::Did(Moment { at, contender, lock: 0, session: None, deed: Deed::Asks(LockClaim::WRITE) })
    }

    #[tokio::test]
    async fn notes_of_all_threads_are_stored_in_order() {
        let keeper = Keeper::start(&std::env::temp_dir(), None, 2).unwrap();
        // Given two threads that hand over their notes one after the other
        let mut notes = [0, 1].map(|thread| keeper.notes_of(thread));
        for at in 0..2_000 {
            notes[1].note(asks(at, 1));
            notes[0].note(asks(at, 0));
            notes[0].note(Note::EnteredAsOf((at, 0, 7)));
        }
        assert_eq!(notes.into_iter().rev().map(Notes::finish).sum::<u64>(), 0);
        let kept = keeper.end(None).await.unwrap();
        // Then moments are sorted by time, and simultaneous moments by thread
        let order: Vec<_> = kept.noted.iter().unwrap().map(|one| one.unwrap()).collect();
        let order: Vec<_> = order.iter().map(|(_, moment)| (moment.at, moment.contender)).collect();
        assert!(order.is_sorted() && order.len() == 4_000);
        assert_eq!((kept.entered_as_of.iter().unwrap().count(), kept.unread), (2_000, None));
        assert_eq!(kept.complete_until, None);
    }

    #[test]
    fn full_keeper_ends_the_notes_of_a_thread_without_blocking() {
        // Given a keeper that stores nothing
        let (to, from) = sync_channel(2);
        let mut notes = Notes { to: Some(to), ..Notes::default() };
        // When more notes arrive than fit
        let at_once = AT_ONCE as u64;
        (0..at_once * 3).for_each(|at| notes.note(asks(at, 0)));
        // Then no later notes are stored, even if there is room for them again
        let stored = from.try_iter().count();
        (0..at_once + 5).for_each(|at| notes.note(asks(at, 0)));
        assert_eq!((stored, notes.finish(), from.try_iter().count()), (2, 2 * at_once + 5, 0));
    }

    #[tokio::test]
    async fn notes_are_complete_until_the_last_note_of_a_thread_that_did_not_finish() {
        let until = async |finished: [bool; 2]| {
            let keeper = Keeper::start(&std::env::temp_dir(), None, 2).unwrap();
            for (thread, is_finished) in finished.into_iter().enumerate() {
                let mut notes = keeper.notes_of(thread);
                // One batch and three further notes
                let from = 100 * thread as u64;
                (from..from + AT_ONCE as u64 + 3).for_each(|at| notes.note(asks(at, thread)));
                if is_finished {
                    notes.finish();
                }
            }
            keeper.end(None).await.unwrap().complete_until
        };
        let batch = AT_ONCE as u64;
        assert_eq!(until([true, true]).await, None);
        assert_eq!(until([true, false]).await, Some(100 + batch - 1));
        assert_eq!(until([false, false]).await, Some(batch - 1));
    }

    #[tokio::test]
    async fn disk_failure_is_an_error() {
        let keeper = Keeper::start(Path::new("/nowhere"), None, 1).unwrap();
        let mut notes = keeper.notes_of(0);
        // More notes than can be sorted in memory
        (0..2 * RUN as u64).for_each(|at| notes.note(asks(at, 0)));
        assert_eq!(notes.finish(), 0);
        assert!(keeper.end(None).await.is_err());
    }
}
