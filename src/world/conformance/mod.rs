//! Whether a driver keeps the protocol: all that `docs/drivers.md` says of one is tried, a check at a time.
//!
//! It is not what trials speak to drivers by. That only has to notice that something is wrong; this has to find it, on purpose,
//! and to say what it is.

mod conversation;
mod endings;
mod exclusion;
mod family;
mod finding;
mod holding;
mod program;
mod sessions;
mod stage;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

pub use finding::{Finding, Outcome};
pub use stage::Site;

use crate::world::driver::DriverCommand;
use crate::world::driver::protocol::{Ready, WantedMode};
use crate::world::zk::reactor;
use conversation::Conversation;
use finding::{Seen, Tried, wrong};
use stage::Stage;

const CHECK_WITHIN: Duration = Duration::from_secs(90);

/// What a driver has said that it is.
#[derive(Debug, Clone)]
pub struct Introduction {
    pub ready: Ready,
}

type OfProgram = for<'a> fn(&'a mut Conversation) -> LocalBoxFuture<'a, Tried>;
type OfLock = for<'a> fn(&'a mut Stage<'_>) -> LocalBoxFuture<'a, Tried>;

/// Checks of the program: what is tried, what to do where it fails, and how it is tried.
const OF_PROGRAM: &[(&str, &str, OfProgram)] = &[
    ("ready", "see \"What `ready` declares\" in docs/drivers.md", |driver| {
        async { program::declares(driver) }.boxed_local()
    }),
    ("flush", "flush standard output after each line", |driver| program::flushes(driver).boxed_local()),
    ("unknown field", "ignore fields that you don't know", |driver| {
        program::unknown_field(driver).boxed_local()
    }),
    ("unknown request", "answer what you don't know with \"err\":\"unsupported\"", |driver| {
        program::unknown_request(driver).boxed_local()
    }),
    (
        "echoes",
        "answer an echo at once from the thread that reads, with CLOCK_MONOTONIC in microseconds as `now`",
        |driver| program::echoes(driver, None).boxed_local(),
    ),
    ("end of input", "exit when standard input ends, and end what you have started", |driver| {
        program::exits(driver, "with nobody in it").boxed_local()
    }),
    ("SIGKILL", "start nothing outside of your process group", |driver| {
        program::is_killed(driver).boxed_local()
    }),
];

const OF_LOCK: &[(&str, &str, OfLock)] = &[
    ("sessions", "give each contender a client, and so a session, of its own", |stage| {
        sessions::one_each(stage).boxed_local()
    }),
    (
        "session timeout",
        "ask the servers for `session_ms`, if the client can; tell what they granted, not what was asked for",
        |stage| sessions::granted(stage).boxed_local(),
    ),
    ("contender's echo", "answer an echo with `c` from the contender's own thread", |stage| {
        sessions::contenders_echo(stage).boxed_local()
    }),
    (
        "exclusion",
        "answer an acquire with `ok` only when the contender's own session has the lock",
        |stage| exclusion::cycles(stage).boxed_local(),
    ),
    ("order", "serve those who wait as they came, or leave `order` out", |stage| {
        exclusion::order(stage).boxed_local()
    }),
    ("readers", "let readers in together, and a writer alone, or leave the mode `read` out", |stage| {
        exclusion::readers(stage).boxed_local()
    }),
    ("leases", "let in as many as the parameter says, or leave `leases` out", |stage| {
        exclusion::leases(stage).boxed_local()
    }),
    ("reentrant", "let the holder in again, and count, or leave `reentrant` out", |stage| {
        exclusion::again(stage).boxed_local()
    }),
    ("echo while waiting", "never wait for a lock on the thread that reads", |stage| {
        endings::echo_while_waiting(stage).boxed_local()
    }),
    (
        "timeout",
        "end the wait and leave the queue when `timeout_ms` are over, or declare `timeout` as `none`",
        |stage| endings::timeout(stage).boxed_local(),
    ),
    ("timeout of 0", "answer `timeout` at once where `timeout_ms` is 0 and another has the lock", |stage| {
        endings::no_time(stage).boxed_local()
    }),
    (
        "late grants",
        "release at once what is granted after `timeout` has been answered, and tell it by the event `late`",
        |stage| endings::late_grants(stage).boxed_local(),
    ),
    (
        "cancel at once",
        "answer the acquire and the cancel, each once, also where the wait has not begun",
        |stage| endings::cancel_before(stage).boxed_local(),
    ),
    ("cancel a wait", "end the wait, leave the queue, and answer the acquire with `cancelled`", |stage| {
        endings::cancel_during(stage).boxed_local()
    }),
    ("cancel a hold", "leave a lock alone that has been granted", |stage| {
        endings::cancel_after(stage).boxed_local()
    }),
    ("hold", "answer at the grant, hold, release, and answer `released`, or leave `hold` out", |stage| {
        holding::by_itself(stage).boxed_local()
    }),
    (
        "ahead",
        "do acquires that come `after` others one by one and in order, and none behind one that was not released",
        |stage| holding::ahead(stage).boxed_local(),
    ),
    ("close while holding", "release what is held and end the session when asked to close", |stage| {
        endings::close_while_holding(stage).boxed_local()
    }),
    (
        "wire cut for a moment",
        "tell `suspended`, `connected` and `expired` as the client learns of them",
        |stage| sessions::cut_shortly(stage).boxed_local(),
    ),
    (
        "wire cut for long",
        "tell `expired` when the session is over, or don't declare `lost`; answer all that is asked then, too",
        |stage| sessions::cut_for_long(stage).boxed_local(),
    ),
    (
        "session expired",
        "tell the session's `password` with `open`: hexadecimal digits, as the client has it",
        |stage| sessions::expired(stage).boxed_local(),
    ),
    ("nothing left", "delete what a contender has made when it closes, or end its session", |stage| {
        endings::nothing_left(stage).boxed_local()
    }),
    ("end while holding", "exit when standard input ends, whoever holds or waits", |stage| {
        end_while_holding(stage).boxed_local()
    }),
];

/// Asks a driver what it is.
///
/// # Errors
/// Why it can't be asked.
pub async fn introduce(command: &DriverCommand) -> Result<Introduction, String> {
    Conversation::start(command).await.map(|driver| Introduction { ready: driver.ready.clone() })
}

pub fn names() -> impl Iterator<Item = &'static str> {
    let of_program = OF_PROGRAM.iter().map(|(name, ..)| *name);
    std::iter::once(BY_HAND.0).chain(of_program).chain(OF_LOCK.iter().map(|(name, ..)| *name))
}

/// Tries all that is about the program, and is wanted.
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

/// Tries all that is about one of its locks, and is wanted.
///
/// # Errors
/// When the driver can't be started, has no such lock, or the ensemble gives no session.
pub async fn of_lock(
    command: &DriverCommand,
    lock: &str,
    site: &Site,
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
        if tried.is_err() {
            stage.give_up();
            stage.forget_places();
        }
        all.push(Finding::of(name, Some(lock), advice, tried));
    }
    Ok(all)
}

async fn within(check: LocalBoxFuture<'_, Tried>) -> Tried {
    let late = || wrong(format!("the check was not over within {} s", CHECK_WITHIN.as_secs()));
    reactor::timeout(CHECK_WITHIN, check).await.unwrap_or_else(late)
}

/// The end of its input finds one that holds and one that waits.
async fn end_while_holding(stage: &mut Stage<'_>) -> Tried {
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    stage.takes(holder, &on).await?;
    stage.asks(other, &on, WantedMode::Write, None).await?;
    let driver = stage.driver().await?;
    driver.listen(Duration::from_millis(50)).await?;
    let seen: Seen = program::exits(driver, "while one held and one waited").await?;
    stage.give_up();
    Ok(seen)
}
