//! `driver check`: eight checks of the driver protocol, each with new processes. Checks and trials share the
//! driver code, so a driver failure that would end a trial also fails a check.

mod checks;
mod stage;
mod turns;

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use schemars::JsonSchema;
use serde::Serialize;

use stage::Stage;
use zklockbench_core::worded;
use zklockbench_locks::driver::protocol::Ready;
use zklockbench_locks::driver::{DriverCommand, DriverError, Process};
use zklockbench_record::Timeline;
use zklockbench_zk::{Failure, runtime};

pub use stage::CheckSite;

/// Name of the driver in messages.
pub const NAME: &str = "checked";
const CHECK_WITHIN: Duration = Duration::from_secs(90);

/// A check of the program, or of one of its locks.
enum Check {
    Program(for<'a> fn(&'a DriverCommand) -> LocalBoxFuture<'a, Tried>),
    Lock(for<'a> fn(&'a Stage<'a>) -> LocalBoxFuture<'a, Tried>),
}

/// All checks in order, each with its name, the advice for a failure, and its function.
const CHECKS: [(&str, &str, Check); 8] = [
    (
        "ready",
        "see \"What `ready` declares\" in docs/testing-your-client.md",
        Check::Program(|command| checks::ready(command).boxed_local()),
    ),
    (
        "messages",
        "flush after each line; ignore unknown fields; answer an unknown request with `unsupported`; report a line \
         that is not JSON on standard error",
        Check::Program(|command| checks::messages(command).boxed_local()),
    ),
    (
        "exclusion",
        "answer an acquire with `ok` only when the contender's own session holds the lock, and run each contender on \
        its own thread",
        Check::Lock(|stage| checks::exclusion(stage).boxed_local()),
    ),
    (
        "acquire timeout",
        "end the wait and leave the queue after `timeout_ms`, release a late grant, or declare `timeout` as `none`",
        Check::Lock(|stage| checks::acquire_timeout(stage).boxed_local()),
    ),
    (
        "cancel",
        "end the wait, leave the queue, and answer the acquire with `cancelled`, or declare `cancel` as `none`",
        Check::Lock(|stage| checks::cancel(stage).boxed_local()),
    ),
    (
        "close",
        "release held locks and end the session on `close`",
        Check::Lock(|stage| checks::close(stage).boxed_local()),
    ),
    (
        "lost session",
        "send `expired` when the session is over, the session's own `password` with `open`, and a new `session` with \
         `connected`, or do not declare `lost`",
        Check::Lock(|stage| checks::lost_session(stage).boxed_local()),
    ),
    (
        "end of input",
        "exit when standard input ends, and create only ephemeral nodes",
        Check::Lock(|stage| checks::end_of_input(stage).boxed_local()),
    ),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, ..)| *name)
}

/// Returns the driver's answer to `hello`, or why there is none.
pub async fn introduce(command: &DriverCommand) -> Result<Ready, String> {
    Process::start(command.clone()).await.map(|process| process.ready.clone()).map_err(|error| why(&error))
}

/// Runs the selected checks of the program and of these locks.
pub async fn check(
    command: &DriverCommand,
    ready: &Ready,
    locks: &[String],
    site: &CheckSite,
    is_chosen: &impl Fn(&str) -> bool,
) -> Result<Vec<Finding>, Failure> {
    let mut all = Vec::new();
    let chosen = || CHECKS.iter().filter(|(name, ..)| is_chosen(name));
    for (name, advice, check) in chosen() {
        if let Check::Program(check) = check {
            all.push(Finding::new(name, None, advice, in_time(check(command)).await));
        }
    }
    // A driver that fails `messages` would fail all lock checks for the same reason.
    let understands = all.iter().all(|finding| finding.check != "messages" || finding.outcome == Outcome::Ok);
    for lock in locks {
        let stage = Stage::new(site, command, ready, lock).await?;
        for (name, advice, check) in chosen() {
            if let Check::Lock(check) = check {
                let tried = if understands {
                    in_time(check(&stage)).await
                } else {
                    not_tried("the driver failed `messages`")
                };
                all.push(Finding::new(name, Some(lock), advice, tried));
            }
        }
    }
    Ok(all)
}

async fn in_time(check: LocalBoxFuture<'_, Tried>) -> Tried {
    let late = || wrong(format!("the check did not finish within {} s", CHECK_WITHIN.as_secs()));
    runtime::timeout(CHECK_WITHIN, check).await.unwrap_or_else(late)
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Name of the check, which does not change between versions.
    pub check: &'static str,
    /// Lock that was checked; null for a check of the program.
    pub lock: Option<String>,
    pub outcome: Outcome,
    /// Observation, or why the check was not tried.
    pub seen: String,
    /// Advice if the check failed; null otherwise.
    pub advice: Option<&'static str>,
    /// Timeline of the violation, if two contenders held the lock at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome by word {
        Ok = "ok",
        Failed = "FAILED",
        /// The check does not apply, or could not run.
        NotTried = "not tried",
        /// The ensemble failed.
        Unknown = "unknown",
    }
}

/// Reason that a check did not pass.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Wrong(String),
    /// Two contenders held the lock at the same time.
    Violated(Box<Timeline>),
    Ensemble(String),
    NotTried(String),
}

/// Observation of a passed check, or the reason that the check did not pass.
type Tried = Result<String, Trouble>;

fn wrong<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Wrong(why.into()))
}

fn not_tried<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::NotTried(why.into()))
}

fn applies_if(is_so: bool, otherwise: &str) -> Result<(), Trouble> {
    if is_so { Ok(()) } else { not_tried(otherwise) }
}

/// Describes a driver's failure on one line, without the driver's name.
fn why(error: &DriverError) -> String {
    format!("{}{}", error.what, error.stderr.replace("\n    ", " "))
}

impl Finding {
    fn new(check: &'static str, lock: Option<&str>, advice: &'static str, tried: Tried) -> Self {
        let mut timeline = None;
        let (outcome, seen) = match tried {
            Err(Trouble::Violated(found)) => {
                let seen = format!("two contenders held the lock at once: {}", found.summary);
                timeline = Some(*found);
                (Outcome::Failed, seen)
            }
            Ok(seen) => (Outcome::Ok, seen),
            Err(Trouble::Wrong(why)) => (Outcome::Failed, why),
            Err(Trouble::Ensemble(why)) => (Outcome::Unknown, format!("the ensemble failed: {why}")),
            Err(Trouble::NotTried(why)) => (Outcome::NotTried, why),
        };
        let advice = (outcome == Outcome::Failed).then_some(advice);
        Self { check, lock: lock.map(str::to_owned), outcome, seen, advice, timeline }
    }
}
