//! Whether a driver keeps the protocol: all that `docs/testing-your-client.md` requires is tried, a check at a time, and what that has
//! come to.
//!
//! It is not what trials speak to drivers by. That only has to notice that something is wrong; this has to find it, on purpose,
//! and to say what it is.

mod conversation;
mod endings;
mod exclusion;
mod program;
mod sessions;
mod stage;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use schemars::JsonSchema;
use serde::Serialize;

use conversation::Conversation;
use stage::Stage;
use zklockbench_locks::driver::DriverCommand;
use zklockbench_locks::driver::protocol::{Ready, WantedMode};
use zklockbench_zk::reactor;

pub use stage::CheckSite;

const CHECK_WITHIN: Duration = Duration::from_secs(90);

type OfProgram = for<'a> fn(&'a mut Conversation) -> LocalBoxFuture<'a, Tried>;
type OfLock = for<'a> fn(&'a mut Stage<'_>) -> LocalBoxFuture<'a, Tried>;

/// Makes a table of checks: how each is tried, and what to do where it fails.
macro_rules! checks {
    ($table:ident: $kind:ty; $($name:literal: $($tries:ident)::+ $(($argument:expr))?, $advice:literal;)*) => {
        const $table: &[(&str, &str, $kind)] =
            &[$(($name, $advice, |it| $($tries)::+(it $(, $argument)?).boxed_local())),*];
    };
}

checks! {
    OF_PROGRAM: OfProgram;
    "ready": program::declares, "see \"What `ready` declares\" in docs/testing-your-client.md";
    "flush": program::flushes, "flush standard output after each line";
    "unknown field": program::unknown_field, "ignore fields that you don't know";
    "unknown request": program::unknown_request, "answer what you don't know with \"err\":\"unsupported\"";
    "echoes": program::echoes(None),
        "answer an echo at once from the thread that reads, with CLOCK_MONOTONIC in microseconds as `now`";
    "end of input": program::exits("with nobody in it"),
        "exit when standard input ends, and end what you have started";
    "SIGKILL": program::is_killed, "start nothing outside of your process group";
}

checks! {
    OF_LOCK: OfLock;
    "sessions": sessions::one_each, "give each contender a client, and so a session, of its own";
    "session timeout": sessions::granted,
        "ask the servers for `session_ms`, if the client can; tell what they granted, not what was asked for";
    "contender's echo": sessions::contenders_echo, "answer an echo with `c` from the contender's own thread";
    "exclusion": exclusion::cycles,
        "answer an acquire with `ok` only when the contender's own session has the lock";
    "order": exclusion::order, "serve those who wait as they came, or leave `order` out";
    "readers": exclusion::readers,
        "let readers in together, and a writer alone, or leave the mode `read` out";
    "leases": exclusion::leases, "let in as many as the parameter says, or leave `leases` out";
    "reentrant": exclusion::again, "let the holder in again, and count, or leave `reentrant` out";
    "echo while waiting": endings::echo_while_waiting, "never wait for a lock on the thread that reads";
    "timeout": endings::times_out(endings::TIMEOUT),
        "end the wait and leave the queue when `timeout_ms` are over, or declare `timeout` as `none`";
    "timeout of 0": endings::times_out(Duration::ZERO),
        "answer `timeout` at once where `timeout_ms` is 0 and another has the lock";
    "late grants": endings::late_grants,
        "release at once what is granted after `timeout` has been answered, and tell it by the event `late`";
    "cancel at once": endings::cancel_before,
        "answer the acquire and the cancel, each once, also where the wait has not begun";
    "cancel a wait": endings::cancel_during,
        "end the wait, leave the queue, and answer the acquire with `cancelled`";
    "cancel a hold": endings::cancel_after, "leave a lock alone that has been granted";
    "close while holding": endings::close_while_holding,
        "release what is held and end the session when asked to close";
    "wire cut for a moment": sessions::cut_shortly,
        "tell `suspended`, `connected` and `expired` as the client learns of them";
    "wire cut for long": sessions::cut_for_long,
        "tell `expired` when the session is over, or don't declare `lost`; answer all that is asked then, too";
    "session expired": sessions::expired,
        "tell the session's `password` with `open`: hexadecimal digits, as the client has it";
    "nothing left": endings::nothing_left,
        "delete what a contender has made when it closes, or end its session";
    "end while holding": end_while_holding, "exit when standard input ends, whoever holds or waits";
}

pub async fn introduce(command: &DriverCommand) -> Result<Ready, String> {
    Conversation::start(command).await.map(|driver| driver.ready.clone())
}

pub fn names() -> impl Iterator<Item = &'static str> {
    let of_program = OF_PROGRAM.iter().map(|(name, ..)| *name);
    std::iter::once(BY_HAND.0).chain(of_program).chain(OF_LOCK.iter().map(|(name, ..)| *name))
}

pub async fn of_program(command: &DriverCommand, wanted: &impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut all = Vec::new();
    let (by_hand, advice) = BY_HAND;
    if wanted(by_hand) {
        all.push(Finding::of(by_hand, None, advice, program::by_hand(command).await));
    }
    for (name, advice, tries) in OF_PROGRAM.iter().filter(|(name, ..)| wanted(name)) {
        // Each has a process of its own: what one has broken is not the next one's fault.
        let tried = match Conversation::start(command).await {
            Ok(mut driver) => within(tries(&mut driver)).await,
            Err(why) => wrong(why),
        };
        all.push(Finding::of(name, None, advice, tried));
    }
    all
}

const BY_HAND: (&str, &str) =
    ("by hand", "without ZKLOCKBENCH_DRIVER=1 in the environment say what you are and exit with 2");

pub async fn of_lock(
    command: &DriverCommand,
    lock: &str,
    site: &CheckSite,
    wanted: &impl Fn(&str) -> bool,
) -> Result<Vec<Finding>, String> {
    let driver = Conversation::start(command).await?;
    let (ready, declared) = (driver.ready.clone(), driver.declared.clone());
    drop(driver);
    if !ready.locks.contains_key(lock) {
        return Err(format!("has no lock `{lock}`"));
    }
    let stage = Stage::set(site, command, &ready, &declared, lock).await;
    let mut stage = stage.map_err(|failure| format!("can't be tried: no session: {failure}"))?;
    let mut all = Vec::new();
    for (name, advice, tries) in OF_LOCK.iter().filter(|(name, ..)| wanted(name)) {
        let tried = within(tries(&mut stage)).await;
        if !matches!(tried, Ok(_) | Err(Trouble::NotTried(_))) {
            stage.give_up();
            stage.places.clear();
        }
        all.push(Finding::of(name, Some(lock), advice, tried));
    }
    Ok(all)
}

async fn within(check: LocalBoxFuture<'_, Tried>) -> Tried {
    let late = || wrong(format!("the check was not over within {} s", CHECK_WITHIN.as_secs()));
    reactor::timeout(CHECK_WITHIN, check).await.unwrap_or_else(late)
}

async fn end_while_holding(stage: &mut Stage<'_>) -> Tried {
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    stage.takes(holder, &on).await?;
    stage.asks(other, &on, WantedMode::Write, None).await?;
    let driver = stage.driver().await?;
    driver.listen(Duration::from_millis(50)).await?;
    let seen = program::exits(driver, "while one held and one waited").await?;
    stage.give_up();
    Ok(seen)
}

/// What one check has come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What was checked, in a few words that do not change.
    pub check: &'static str,
    /// The lock that it was tried on; null where it is about the program.
    pub lock: Option<String>,
    pub outcome: Outcome,
    /// What was seen, or why it was not tried.
    pub seen: String,
    /// What to do about it; null where there is nothing to do.
    pub advice: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Ok,
    Failed,
    /// What a driver should do, and need not.
    Warning,
    NotTried,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Warning => "warning",
            Self::NotTried => "not tried",
        }
    }
}

/// What a check has seen where nothing was wrong.
#[derive(Debug, PartialEq, Eq)]
enum CheckNote {
    Fine(String),
    Better(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Trouble {
    /// The driver did what it must not.
    Wrong(String),
    /// The same, where more is known than what the check advises: what to do.
    Advised(String, &'static str),
    /// It was the ensemble, of which the driver is not guilty.
    Elsewhere(String),
    /// There is nothing to try, and why.
    NotTried(String),
}

type Tried = Result<CheckNote, Trouble>;

fn wrong<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Wrong(why.into()))
}

fn not_tried<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::NotTried(why.into()))
}

fn needs(is_so: bool, otherwise: &str) -> Result<(), Trouble> {
    if is_so { Ok(()) } else { not_tried(otherwise) }
}

impl Finding {
    fn of(check: &'static str, lock: Option<&str>, advice: &'static str, tried: Tried) -> Self {
        let (outcome, seen, advice) = match tried {
            Ok(CheckNote::Fine(seen)) => (Outcome::Ok, seen, None),
            Ok(CheckNote::Better(seen)) => (Outcome::Warning, seen, Some(advice)),
            Err(Trouble::Wrong(why)) => (Outcome::Failed, why, Some(advice)),
            Err(Trouble::Advised(why, better)) => (Outcome::Failed, why, Some(better)),
            Err(Trouble::Elsewhere(why)) => (Outcome::NotTried, format!("the ensemble: {why}"), None),
            Err(Trouble::NotTried(why)) => (Outcome::NotTried, why, None),
        };
        Self { check, lock: lock.map(str::to_owned), outcome, seen, advice }
    }
}
