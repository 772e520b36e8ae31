//! The processes that take locks for the contenders of one trial: which process serves whom, and what a contender asks of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::sync::watch;

use super::process::{Asked, DriverCommand, DriverError, Mishap, Parameters, Process, locked};
use super::protocol::{Abilities, Answer, Believed, Done, How, Request, WantedMode, session_id};
use crate::world::zk::gate::{Gate, Movement};
use crate::world::zk::{Failure, ForeignSession, SessionKey, SessionState, Target};

/// So many different failures of one trial are told.
const WORDS_KEPT: usize = 5;
/// Beyond what a request may take by itself, that much more passes before its driver has failed.
const GRACE: Duration = Duration::from_secs(5);
/// A driver that has failed so often by itself in one trial is not started again in it.
const FAILURES_AT_MOST: usize = 3;

/// What the contenders of a trial want of a driver.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub command: DriverCommand,
    pub lock: String,
    pub abilities: Abilities,
    pub parameters: Parameters,
    /// How many contenders share a process.
    pub per_process: usize,
}

/// The processes of one trial. Dropped, all are killed.
pub struct Processes {
    wanted: Wanted,
    slots: Vec<tokio::sync::Mutex<Option<Arc<Process>>>>,
    links: Mutex<BTreeMap<usize, Arc<Link>>>,
    /// What failed, once each.
    failures: Mutex<BTreeSet<String>>,
    /// How processes have failed by themselves.
    failed: Mutex<Vec<DriverError>>,
    /// Late grants of processes that have been replaced.
    late: AtomicU64,
    /// How many sessions have been asked for.
    opened: AtomicUsize,
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processes").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// A contender's session in a driver's process.
pub struct Link {
    /// By which number the driver knows it.
    number: usize,
    process: Arc<Process>,
    abilities: Abilities,
    key: SessionKey,
    timeout: Duration,
    states: watch::Receiver<SessionState>,
}

/// How an acquire ended without a grant.
#[derive(Debug)]
pub enum NotGranted {
    TimedOut,
    Cancelled,
    Failed(Failure),
}

impl Processes {
    pub fn new(wanted: Wanted, contenders: usize) -> Self {
        let slots = contenders.div_ceil(wanted.per_process.max(1));
        Self {
            slots: (0..slots).map(|_| tokio::sync::Mutex::default()).collect(),
            wanted,
            links: Mutex::default(),
            failures: Mutex::default(),
            failed: Mutex::default(),
            late: AtomicU64::new(0),
            opened: AtomicUsize::new(0),
        }
    }

    /// Keeps the driver's own words about a request that it did not carry out, of which tables have no more than the kind.
    pub fn note(&self, doing: &str, failure: &Failure) {
        let mut failures = locked(&self.failures);
        if matches!(failure, Failure::DriverInDoubt(_) | Failure::Refused(_)) && failures.len() < WORDS_KEPT {
            failures.insert(format!("driver `{}`, {doing}: {failure}", self.wanted.command.name));
        }
    }

    /// What has failed so far, but for what faults have killed.
    pub fn failures(&self) -> Vec<String> {
        for process in self.at_rest() {
            self.note_failure(&process);
        }
        locked(&self.failures).iter().cloned().collect()
    }

    /// The processes that nobody is starting at this moment.
    fn at_rest(&self) -> impl Iterator<Item = Arc<Process>> {
        self.slots.iter().filter_map(|slot| slot.try_lock().ok()?.clone())
    }

    fn note_failure(&self, process: &Process) {
        if let Some(error) = process.failure().filter(|error| error.what != Mishap::Killed) {
            locked(&self.failures).insert(error.to_string());
        }
    }

    /// Opens a session for a contender, in a new process where its own has ended.
    ///
    /// # Errors
    /// When the driver fails, or says that it can't.
    pub async fn open(
        &self,
        contender: usize,
        target: &Target,
        session_timeout: Duration,
        within: Duration,
        gate: &Arc<Gate>,
    ) -> Result<Arc<Link>, Failure> {
        let process = self.process_of(contender).await.map_err(|error| self.failure_of(error))?;
        // Each session has a number of its own: what is still said of the one before can't be taken for this one's.
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let states = process.follow(number);
        let session_ms = u64::try_from(session_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut asked = process.ask("`open`", Some(within + GRACE), |id| Request::Open {
            id,
            c: number,
            connect: target.connect.clone(),
            auth: target.access.digest.as_ref().map(|identity| identity.told().to_owned()),
            session_ms,
            lock: self.wanted.lock.clone(),
            parameters: self.wanted.parameters.clone(),
        });
        let answered = process.answer(&mut asked).await.map_err(|error| self.failure_of(error))?;
        let done = done(answered)?;
        let id = done.session.as_deref().and_then(session_id);
        let id = id.ok_or_else(|| Failure::Refused("the driver's `open` told no session id".into()))?;
        let password = done.password.as_deref().and_then(bytes).unwrap_or_default();
        let link = Arc::new(Link {
            number,
            process: Arc::clone(&process),
            abilities: self.wanted.abilities.clone(),
            key: SessionKey::of_another(id, password),
            timeout: done.session_ms.map_or(session_timeout, Duration::from_millis),
            states,
        });
        gate.follow(Arc::new(move |movement| match movement {
            Movement::Shut => process.stop(),
            Movement::Opened => process.go_on(),
        }));
        locked(&self.links).insert(contender, Arc::clone(&link));
        Ok(link)
    }

    /// The session that a contender has.
    pub fn link(&self, contender: usize) -> Option<Arc<Link>> {
        locked(&self.links).get(&contender).cloned()
    }

    async fn process_of(&self, contender: usize) -> Result<Arc<Process>, DriverError> {
        let slot = contender / self.wanted.per_process.max(1);
        let mut process = self.slots[slot % self.slots.len().max(1)].lock().await;
        if let Some(process) = process.as_ref().filter(|process| process.failure().is_none()) {
            return Ok(Arc::clone(process));
        }
        if let Some(ended) = process.take() {
            self.late.fetch_add(ended.late_grants(), Ordering::Relaxed);
            self.note_failure(&ended);
            self.failed_by_itself(ended.failure());
        }
        if let Some(error) = self.given_up() {
            return Err(error);
        }
        let started = Process::start(self.wanted.command.clone()).await;
        let started = Arc::new(started.inspect_err(|error| self.failed_by_itself(Some(error)))?);
        *process = Some(Arc::clone(&started));
        Ok(started)
    }

    fn failed_by_itself(&self, error: Option<&DriverError>) {
        let error = error.filter(|error| error.what != Mishap::Killed).cloned();
        locked(&self.failed).extend(error);
    }

    /// Why no process is started any more.
    fn given_up(&self) -> Option<DriverError> {
        let failed = locked(&self.failed);
        failed.last().filter(|_| failed.len() >= FAILURES_AT_MOST).cloned()
    }

    fn failure_of(&self, error: DriverError) -> Failure {
        if error.what != Mishap::Killed {
            locked(&self.failures).insert(error.to_string());
        }
        Failure::DriverEnded(error.to_string())
    }

    /// Ends all of them; whoever does not end by itself is killed. On the caller's thread.
    pub fn close(&self) {
        locked(&self.links).clear();
        let processes = self.slots.iter().filter_map(|slot| slot.try_lock().ok()?.take());
        std::thread::scope(|scope| {
            for process in processes {
                scope.spawn(move || process.close());
            }
        });
    }

    /// How many locks were granted too late, in all.
    pub fn late_grants(&self) -> u64 {
        let now: u64 = self.at_rest().map(|process| process.late_grants()).sum();
        now + self.late.load(Ordering::Relaxed)
    }
}

impl Link {
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Waits for the lock. Ends early when `cancelled` does; what is granted all the same is then released.
    ///
    /// # Errors
    /// Why it was not granted.
    pub async fn acquire(
        &self,
        on: &str,
        mode: WantedMode,
        timeout: Option<Duration>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Done, NotGranted> {
        let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let within = timeout.map(|timeout| timeout + self.patience());
        let mut asked = self.process.ask("`acquire`", within, |id| Request::Acquire {
            id,
            c: self.number,
            on: on.to_owned(),
            mode,
            timeout_ms,
        });
        let early = {
            let mut answer = std::pin::pin!(self.process.answer(&mut asked).fuse());
            let mut cancelled = std::pin::pin!(cancelled.fuse());
            futures_util::select_biased! {
                answered = answer => Some(answered),
                () = cancelled => None,
            }
        };
        if let Some(answered) = early {
            return granted(
                answered.map_err(|error| NotGranted::Failed(Failure::DriverEnded(error.to_string())))?,
            );
        }
        self.give_up(&mut asked, on).await
    }

    /// The wait is not wanted any more; its one answer has to come all the same.
    async fn give_up(&self, asked: &mut Asked, on: &str) -> Result<Done, NotGranted> {
        let of = asked.id;
        if self.abilities.cancel != How::None {
            self.process.expect(of, self.patience());
            drop(self.process.ask("`cancel`", Some(self.patience()), |id| Request::Cancel { id, of }));
        }
        let answered = self.process.answer(asked).await;
        match answered.map_err(|error| Failure::DriverEnded(error.to_string())) {
            Err(failure) => Err(NotGranted::Failed(failure)),
            Ok(answered) => match granted(answered) {
                Ok(_) => {
                    Err(self.release(on).await.map_or_else(NotGranted::Failed, |()| NotGranted::Cancelled))
                }
                Err(not) => Err(not),
            },
        }
    }

    /// Lets the lock go.
    ///
    /// # Errors
    /// What the driver says, or that it has failed.
    pub async fn release(&self, on: &str) -> Result<(), Failure> {
        let mut asked = self.process.ask("`release`", Some(self.patience()), |id| Request::Release {
            id,
            c: self.number,
            on: on.to_owned(),
        });
        let answered = self.process.answer(&mut asked).await;
        let answered = answered.map_err(|error| Failure::DriverEnded(error.to_string()))?;
        // A release that failed although the lock is not held has released it.
        if answered.err.is_some() && answered.held == Some(Believed::No) {
            return Ok(());
        }
        done(answered).map(drop)
    }

    fn patience(&self) -> Duration {
        2 * self.timeout + GRACE
    }
}

impl ForeignSession for Link {
    fn id(&self) -> i64 {
        self.key.id()
    }

    fn key(&self) -> SessionKey {
        self.key.clone()
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn states(&self) -> watch::Receiver<SessionState> {
        self.states.clone()
    }

    fn close(&self) -> LocalBoxFuture<'_, bool> {
        let closing = async {
            let mut asked = self
                .process
                .ask("`close`", Some(self.patience()), |id| Request::Close { id, c: self.number });
            self.process.answer(&mut asked).await.is_ok_and(|answered| answered.ok.is_some())
        };
        closing.boxed_local()
    }

    fn crash(&self) {
        self.process.kill();
    }
}

/// Which error words say that the lock is certainly not held.
const DEFINITE: [&str; 6] = ["timeout", "cancelled", "busy", "refused", "unsupported", "bad-request"];

fn granted(answer: Answer) -> Result<Done, NotGranted> {
    let doubtful = answer.held.is_some_and(|held| held != Believed::No);
    match answer.err.as_deref() {
        Some("timeout") if !doubtful => return Err(NotGranted::TimedOut),
        Some("cancelled") if !doubtful => return Err(NotGranted::Cancelled),
        _ => {}
    }
    done(answer).map_err(NotGranted::Failed)
}

fn done(answer: Answer) -> Result<Done, Failure> {
    let Some(word) = answer.err else { return Ok(answer.ok.unwrap_or_default()) };
    let said = answer.message.map_or_else(|| word.clone(), |message| format!("{word}: {message}"));
    let definite = match answer.held {
        Some(Believed::No) => true,
        Some(Believed::Maybe | Believed::Yes) => false,
        None => DEFINITE.contains(&word.as_str()),
    };
    Err(match (definite, word.as_str()) {
        (true, _) => Failure::Refused(said),
        (false, "session") => Failure::SessionExpired,
        (false, _) => Failure::DriverInDoubt(said),
    })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::driver::protocol::Line;

    fn answered(line: &str) -> Answer {
        match Line::read(line.as_bytes()) {
            Ok(Line::Answer(answer)) => *answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_is_definite_only_if_its_word_or_the_driver_says_so() {
        let failure = |line: &str| done(answered(line)).unwrap_err();
        assert!(failure(r#"{"id":1,"err":"busy"}"#).is_definite());
        assert!(!failure(r#"{"id":1,"err":"busy","held":"maybe"}"#).is_definite());
        assert!(!failure(r#"{"id":1,"err":"a word of its own"}"#).is_definite());
        assert!(failure(r#"{"id":1,"err":"connection","held":"no"}"#).is_definite());
        assert_eq!(failure(r#"{"id":1,"err":"session"}"#), Failure::SessionExpired);
    }

    #[test]
    fn a_timeout_that_leaves_it_open_is_no_timeout() {
        assert!(matches!(granted(answered(r#"{"id":1,"err":"timeout"}"#)), Err(NotGranted::TimedOut)));
        let open = granted(answered(r#"{"id":1,"err":"timeout","held":"maybe"}"#));
        assert!(matches!(open, Err(NotGranted::Failed(failure)) if !failure.is_definite()));
    }

    #[test]
    fn a_session_is_told_by_its_hexadecimal_number() {
        assert_eq!(session_id("0x10001f2a3b40007"), Some(0x0100_01f2_a3b4_0007));
        assert_eq!(session_id("0xffffffffffffffff"), Some(-1));
        assert_eq!((session_id("no"), bytes("00ff"), bytes("0")), (None, Some(vec![0, 255]), None));
    }
}
