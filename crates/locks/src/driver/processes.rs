//! The driver processes of one trial: which process serves which contender, and how contenders send requests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use rand::seq::{IteratorRandom, SliceRandom};
use tokio::sync::watch;

use super::DriverCommand;
use super::process::{DriverError, OpenRequest, Parameters, Process};
use super::protocol::{
    Abilities, Answer, Believed, Done, DriverClock, How, Request, WantedSasl, WantedTls, password_bytes,
    session_id,
};
use crate::{AcquireError, Acquired, Told};
use zklockbench_core::catalog::{LockCard, Mode};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_core::units::one_line;
use zklockbench_zk::gate::{Gate, Movement};
use zklockbench_zk::{Failure, ForeignSession, Sasl, SessionKey, SessionState, Target, Tls};

/// Maximum number of distinct failures reported for one trial.
const WORDS_KEPT: usize = 5;
/// Extra time after a request's own timeout before the driver counts as failed.
const GRACE: Duration = Duration::from_secs(5);
/// Number of echoes of each kind for measuring idle pipes.
const ECHOES: usize = 200;
const ECHO_UNDER_LOAD_EVERY: Duration = Duration::from_millis(20);
/// Number of failures in one trial after which a driver is not restarted; faults do not count.
const FAILURES_AT_MOST: usize = 3;

#[derive(Debug, Clone)]
pub struct Wanted {
    pub command: DriverCommand,
    pub lock: String,
    pub abilities: Abilities,
    pub parameters: Parameters,
    /// Number of leases per acquire, if the lock has leases.
    pub leases: Option<u64>,
    /// Number of processes over which the contenders are spread.
    pub processes: usize,
}

/// Driver processes of one trial. Dropping this value kills all of them.
pub struct Processes {
    wanted: Wanted,
    slots: Vec<tokio::sync::Mutex<Option<Arc<Process>>>>,
    links: Mutex<BTreeMap<usize, Arc<Link>>>,
    failures: Mutex<BTreeSet<String>>,
    failed: Mutex<Vec<DriverError>>,
    /// Number of late grants by processes that have since been replaced.
    late: AtomicU64,
    opened: AtomicUsize,
    pipe: Arc<Mutex<PipeEchoes>>,
}

/// A contender's session in a driver's process.
pub struct Link {
    /// Number that identifies the session to the driver.
    number: usize,
    process: Arc<Process>,
    abilities: Abilities,
    leases: Option<u64>,
    key: Option<SessionKey>,
    timeout: Duration,
    states: watch::Receiver<SessionState>,
    /// Measurements of the driver's clock and pipes.
    pipe: Arc<Mutex<PipeEchoes>>,
}

#[derive(Debug)]
pub struct Granted {
    pub done: Done,
    pub told: Told,
}

/// Round-trip times of empty requests, in microseconds.
#[derive(Debug, Clone, Default)]
pub struct PipeEchoes {
    /// Times of requests answered by the reading thread, while all contenders were idle.
    pub reader: Vec<u64>,
    /// Times of requests answered by contenders' own threads, while all contenders were idle.
    pub contender: Vec<u64>,
    /// Times of requests answered by the reading thread, during the warm-up.
    pub under_load: Vec<u64>,
    /// Whether every stamp lay between its request and its answer; `None` if no answer had a stamp.
    pub clock_fits: Option<bool>,
}

impl Processes {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            slots: (0..wanted.processes.max(1)).map(|_| tokio::sync::Mutex::default()).collect(),
            wanted,
            links: Mutex::default(),
            failures: Mutex::default(),
            failed: Mutex::default(),
            late: AtomicU64::new(0),
            opened: AtomicUsize::new(0),
            pipe: Arc::default(),
        }
    }

    pub fn pipe(&self) -> PipeEchoes {
        locked(&self.pipe).clone()
    }

    /// Measures round trips of empty requests to the reading thread and to contenders' threads, while all
    /// contenders are idle.
    pub async fn measure_at_rest(&self) {
        let mut links: Vec<Arc<Link>> = locked(&self.links).values().cloned().collect();
        // Use a random sample, because the first contenders may share a process.
        links.shuffle(&mut rand::rng());
        if links.is_empty() {
            return;
        }
        let mut fits = None;
        for at in 0..ECHOES {
            let link = &links[at % links.len()];
            for c in [None, Some(link.number)] {
                let Some(echo) = link.process.echo(c).await else { return };
                let mut pipe = locked(&self.pipe);
                let times = if c.is_some() { &mut pipe.contender } else { &mut pipe.reader };
                times.push(echo.took_us);
                if link.process.ready.clock == Some(DriverClock::Monotonic) {
                    fits = echo.fits.map(|one| fits.unwrap_or(true) && one).or(fits);
                }
            }
        }
        locked(&self.pipe).clock_fits = fits;
    }

    /// Measures the round trip to the reading thread at intervals, under load. Never returns.
    pub async fn measure_under_load(&self) {
        loop {
            tokio::time::sleep(ECHO_UNDER_LOAD_EVERY).await;
            let link = locked(&self.links).values().choose(&mut rand::rng()).cloned();
            let Some(link) = link else { continue };
            if let Some(echo) = link.process.echo(None).await {
                locked(&self.pipe).under_load.push(echo.took_us);
            }
        }
    }

    /// Returns the number of processes. Contender `c` uses process `c` modulo this number.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Records the driver's message about a failed request; tables show only the kind of failure.
    pub fn note(&self, doing: &str, failure: &Failure) {
        let mut failures = locked(&self.failures);
        if matches!(failure, Failure::DriverInDoubt(_) | Failure::Refused(_)) && failures.len() < WORDS_KEPT {
            failures.insert(format!("driver `{}`, {doing}: {failure}", self.wanted.command.name));
        }
    }

    /// Returns the failures of requests and these failures of processes.
    pub fn failures(&self, failed: &[DriverError]) -> BTreeSet<String> {
        locked(&self.failures).iter().cloned().chain(failed.iter().map(ToString::to_string)).collect()
    }

    /// Returns the failures of current and replaced processes, except kills by faults.
    pub fn failed(&self) -> Vec<DriverError> {
        let there = self.at_rest().filter_map(|process| process.own_failure().cloned());
        locked(&self.failed).iter().cloned().chain(there).collect()
    }

    /// Removes failed processes and returns their failures, except kills by faults. The failure of a process that
    /// has not been replaced yet comes with the process's number, which is the contender's number if each
    /// contender has its own process.
    pub fn take_failed(&self) -> Vec<(Option<usize>, DriverError)> {
        let mut failed: Vec<_> = locked(&self.failed).drain(..).map(|error| (None, error)).collect();
        for (number, slot) in self.slots.iter().enumerate() {
            let Ok(mut slot) = slot.try_lock() else { continue };
            let ended = slot.take_if(|process| process.failure().is_some());
            let error = ended.as_ref().and_then(|process| process.own_failure().cloned());
            failed.extend(error.map(|error| (Some(number), error)));
        }
        failed
    }

    /// Returns the numbers of sessions that clients opened to replace lost sessions, with and without a
    /// reported ID.
    pub fn reopened(&self) -> [u64; 2] {
        self.at_rest().fold([0, 0], |[named, others], process| {
            let [more, unnamed] = process.reopened();
            [named + more, others + unnamed]
        })
    }

    fn at_rest(&self) -> impl Iterator<Item = Arc<Process>> {
        self.slots.iter().filter_map(|slot| slot.try_lock().ok()?.clone())
    }

    /// Opens a session for a contender, in a new process if its own has ended.
    pub async fn open(
        &self,
        contender: usize,
        target: &Target,
        session_timeout: Duration,
        within: Duration,
        gate: &Arc<Gate>,
    ) -> Result<Arc<Link>, Failure> {
        let process = self.process_of(contender).await.map_err(ended)?;
        // Each session gets a new number, so that late answers and events of the previous session cannot be mistaken
        // for its own.
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let states = process.follow(number);
        let mut asked = process.ask("`open`", Some(within + GRACE), |id| Request::Open {
            id,
            c: number,
            connect: target.connect_from(contender),
            auth: target.access.digest.as_ref().map(|identity| identity.told().to_owned()),
            tls: target.access.tls.as_ref().map(wanted_tls),
            sasl: target.access.sasl.as_ref().and_then(wanted_sasl),
            session_ms: clock::millis(session_timeout),
            lock: self.wanted.lock.clone(),
            parameters: self.wanted.parameters.clone(),
        });
        let answered = process.answer(&mut asked).await.map_err(ended)?;
        let done = done(answered)?;
        let key = Self::key_of(&process, &done)?;
        let link = Arc::new(Link {
            number,
            process: Arc::clone(&process),
            abilities: self.wanted.abilities.clone(),
            leases: self.wanted.leases,
            key,
            timeout: done.session_ms.map_or(session_timeout, Duration::from_millis),
            states,
            pipe: Arc::clone(&self.pipe),
        });
        gate.follow(Arc::new(move |movement| match movement {
            Movement::Shut => process.stop(),
            Movement::Opened => process.go_on(),
        }));
        locked(&self.links).insert(contender, Arc::clone(&link));
        Ok(link)
    }

    /// Returns the session's key; `None` if the driver's system is not ZooKeeper.
    fn key_of(process: &Process, opened: &Done) -> Result<Option<SessionKey>, Failure> {
        if process.ready.system != LockCard::ZOOKEEPER {
            return Ok(None);
        }
        session_key(opened).map(Some).map_err(|why| Failure::Refused(format!("the driver's `open` {why}")))
    }

    pub fn link(&self, contender: usize) -> Option<Arc<Link>> {
        locked(&self.links).get(&contender).cloned()
    }

    async fn process_of(&self, contender: usize) -> Result<Arc<Process>, DriverError> {
        let mut process = self.slots[contender % self.slots.len()].lock().await;
        if let Some(process) = process.as_ref().filter(|process| process.failure().is_none()) {
            return Ok(Arc::clone(process));
        }
        if let Some(ended) = process.take() {
            self.late.fetch_add(ended.late_grants(), Ordering::Relaxed);
            locked(&self.failed).extend(ended.own_failure().cloned());
        }
        let failed = locked(&self.failed).clone();
        if let Some(last) = failed.last().filter(|_| failed.len() >= FAILURES_AT_MOST) {
            return Err(last.clone());
        }
        let started = Process::start(self.wanted.command.clone()).await;
        let started = Arc::new(started.inspect_err(|error| locked(&self.failed).push(error.clone()))?);
        *process = Some(Arc::clone(&started));
        Ok(started)
    }

    /// Ends all processes and kills those that do not exit in time. Blocks the caller's thread.
    pub fn close(&self) {
        locked(&self.links).clear();
        let processes = self.slots.iter().filter_map(|slot| slot.try_lock().ok()?.take());
        std::thread::scope(|scope| {
            for process in processes {
                scope.spawn(move || process.close());
            }
        });
    }

    /// Closes the input of the first process, as [`Process::end_input`] does.
    pub fn end_input(&self, within: Duration) -> Option<ExitStatus> {
        self.at_rest().next()?.end_input(within)
    }

    pub fn late_grants(&self) -> u64 {
        let now: u64 = self.at_rest().map(|process| process.late_grants()).sum();
        now + self.late.load(Ordering::Relaxed)
    }
}

impl Link {
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Waits for the lock until `cancelled` completes. A lock granted afterwards is released.
    pub async fn acquire(
        &self,
        on: &str,
        mode: Mode,
        timeout: Option<Duration>,
        cancelled: impl Future<Output = ()>,
    ) -> Acquired<Granted> {
        let within = timeout.map(|timeout| timeout + self.patience());
        let mut asked = self.process.ask("`acquire`", within, |id| Request::Acquire {
            id,
            c: self.number,
            on: on.to_owned(),
            mode,
            leases: self.leases,
            timeout_ms: timeout.map(clock::millis),
        });
        let early = {
            let mut answer = std::pin::pin!(self.answer(&mut asked).fuse());
            let mut cancelled = std::pin::pin!(cancelled.fuse());
            futures_util::select_biased! {
                answered = answer => Some(answered),
                () = cancelled => None,
            }
        };
        let Some(answered) = early else { return Err(self.give_up(asked, on).await) };
        self.granted(asked.asked, answered?)
    }

    fn granted(&self, asked: Stamp, answered: Answer) -> Acquired<Granted> {
        let (from, to, arrived) = (answered.from, answered.to, answered.arrived);
        let done = granted(answered)?;
        let own = from.zip(to).map(|(from, to)| to.saturating_sub(from));
        let pipe_us = own.map(|own| arrived.saturating_sub(asked).saturating_sub(own));
        let fits = locked(&self.pipe).clock_fits == Some(true);
        let granted = to.filter(|_| fits).map(|to| granted_at(to, arrived));
        Ok(Granted { done, told: Told { granted, pipe_us } })
    }

    /// Abandons a wait: awaits its answer, and releases the lock if it was granted after all.
    async fn give_up(&self, mut asked: OpenRequest, on: &str) -> AcquireError {
        if self.abilities.cancel != How::None {
            self.process.expect(asked.id, self.patience());
            let of = asked.id;
            drop(self.process.ask("`cancel`", Some(self.patience()), |id| Request::Cancel { id, of }));
        }
        match self.answer(&mut asked).await.map_err(AcquireError::Failed).and_then(granted) {
            Ok(_) => AcquireError::Cancelled.after(self.release(on)).await,
            Err(not_granted) => not_granted,
        }
    }

    pub async fn release(&self, on: &str) -> Result<(), Failure> {
        let mut asked = self.process.ask("`release`", Some(self.patience()), |id| Request::Release {
            id,
            c: self.number,
            on: on.to_owned(),
        });
        let answered = self.answer(&mut asked).await?;
        // If the lock is not held after a failed release, the release counts as successful.
        if answered.err.is_some() && answered.held == Some(Believed::No) {
            return Ok(());
        }
        done(answered).map(drop)
    }

    async fn answer(&self, asked: &mut OpenRequest) -> Result<Answer, Failure> {
        self.process.answer(asked).await.map_err(ended)
    }

    fn patience(&self) -> Duration {
        2 * self.timeout + GRACE
    }
}

impl ForeignSession for Link {
    fn id(&self) -> Option<i64> {
        self.key.as_ref().map(SessionKey::id)
    }

    fn key(&self) -> Option<SessionKey> {
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
            self.answer(&mut asked).await.is_ok_and(|answered| answered.ok.is_some())
        };
        closing.boxed_local()
    }

    fn crash(&self) {
        self.process.kill();
    }
}

fn ended(error: DriverError) -> Failure {
    Failure::DriverEnded(error.to_string())
}

fn session_key(opened: &Done) -> Result<SessionKey, String> {
    let session = opened.session.as_deref().ok_or("returned no session id")?;
    let id = session_id(session).filter(|id| *id != 0).ok_or_else(|| {
        format!(
            "returned the session id `{}`; return a connected session's id: `0x` and up to 16 hexadecimal digits",
            one_line(session)
        )
    })?;
    let password = opened.password.as_deref().map(|password| {
        password_bytes(password).ok_or("returned a `password` that is not pairs of hexadecimal digits")
    });
    Ok(SessionKey::of_another(id, password.transpose()?))
}

/// Returns the time of a grant, according to the driver; at the latest, the arrival of its answer.
fn granted_at(to: u64, arrived: Stamp) -> Stamp {
    clock::of_monotonic(to).min(arrived)
}

/// Errors after which the lock is certainly not held.
const DEFINITE: [&str; 6] = ["timeout", "cancelled", "busy", "refused", "unsupported", "bad-request"];

fn granted(answer: Answer) -> Acquired<Done> {
    let doubtful = answer.held.is_some_and(|held| held != Believed::No);
    match answer.err.as_deref() {
        Some("timeout") if !doubtful => Err(AcquireError::TimedOut),
        Some("cancelled") if !doubtful => Err(AcquireError::Cancelled),
        _ => Ok(done(answer)?),
    }
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

/// Returns the TLS files as absolute paths, because the driver may run in another directory.
fn wanted_tls(tls: &Tls) -> WantedTls {
    let files = &tls.files;
    let whole = |file: &PathBuf| std::path::absolute(file).unwrap_or_else(|_| file.clone());
    WantedTls {
        ca: files.ca.as_ref().map(whole).unwrap_or_default(),
        cert: files.cert.as_ref().map(whole),
        key: files.key.as_ref().map(whole),
        other_names: tls.has_other_names,
    }
}

fn wanted_sasl(sasl: &Sasl) -> Option<WantedSasl> {
    let (user, password) = sasl.user()?;
    Some(WantedSasl { mechanism: "DIGEST-MD5", user: user.to_owned(), password: password.told().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::protocol::Line;

    fn answered(line: &str) -> Answer {
        match Line::read(line.as_bytes()) {
            Ok(Line::Answer(answer)) => *answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn error_is_definite_only_if_its_kind_or_the_driver_rules_out_a_hold() {
        let failure = |line: &str| done(answered(line)).unwrap_err();
        assert!(failure(r#"{"id":1,"err":"busy"}"#).is_definite());
        assert!(!failure(r#"{"id":1,"err":"busy","held":"maybe"}"#).is_definite());
        assert!(!failure(r#"{"id":1,"err":"a word of its own"}"#).is_definite());
        assert!(failure(r#"{"id":1,"err":"connection","held":"no"}"#).is_definite());
        assert_eq!(failure(r#"{"id":1,"err":"session"}"#), Failure::SessionExpired);
    }

    #[test]
    fn timeout_with_unknown_outcome_is_reported_as_a_failure() {
        assert!(matches!(granted(answered(r#"{"id":1,"err":"timeout"}"#)), Err(AcquireError::TimedOut)));
        let open = granted(answered(r#"{"id":1,"err":"timeout","held":"maybe"}"#));
        assert!(matches!(open, Err(AcquireError::Failed(failure)) if !failure.is_definite()));
    }

    #[test]
    fn grant_is_never_later_than_its_answer() {
        assert_eq!(granted_at(u64::MAX, 7), 7);
        assert_eq!(granted_at(0, 7), 0);
    }

    #[test]
    fn session_without_a_usable_id_or_password_is_refused() {
        let key = |session: Option<&str>, password: Option<&str>| {
            let [session, password] = [session, password].map(|text| text.map(str::to_owned));
            session_key(&Done { session, password, ..Done::default() })
        };
        assert_eq!(key(Some("0x7f"), None).unwrap().id(), 0x7f);
        assert!(key(Some("0x7f"), Some("00ff")).unwrap().has_password());
        assert_eq!(key(None, None).err().unwrap(), "returned no session id");
        for id in ["0x0", "-0x7f", "72058159523987463", "lease 7"] {
            let why = key(Some(id), None).err().unwrap();
            assert!(why.starts_with(&format!("returned the session id `{id}`; return a connected")), "{why}");
        }
        assert!(key(Some("0x7f"), Some("secret")).err().unwrap().contains("`password`"));
    }

    #[test]
    fn session_ids_and_passwords_are_parsed_from_hexadecimal_digits() {
        assert_eq!(session_id("0x10001f2a3b40007"), Some(0x0100_01f2_a3b4_0007));
        assert_eq!(session_id("0xffffffffffffffff"), Some(-1));
        assert_eq!((session_id("no"), password_bytes("00ff")), (None, Some(vec![0, 255])));
        assert_eq!(password_bytes("0"), None);
    }
}
