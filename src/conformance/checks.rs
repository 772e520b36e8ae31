//! The eight checks. Each check returns its observation.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::stage::{Contender, FREED_WITHIN, Pair, SESSION, SOON, Stage, failed, failure_of, let_in};
use super::turns::Turns;
use super::{Tried, Trouble, applies_if, not_tried, why, wrong};
use zklockbench_core::clock::{self, Stamp, micros};
use zklockbench_locks::AcquireError;
use zklockbench_locks::driver::protocol::{Answer, How};
use zklockbench_locks::driver::{DriverCommand, Mishap, Process, how};
use zklockbench_locks::{DrivenLocks, Program};
use zklockbench_zk::{ForeignSession, runtime};

/// Total number of acquisitions by all contenders.
const ACQUISITIONS: usize = 60;
const GRANTED_WITHIN: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_millis(400);
/// Maximum time from a timeout to the driver's reply.
const LATE_BY: Duration = Duration::from_secs(5);
const CANCELLED_AFTER: Duration = Duration::from_millis(200);
/// Must be long, because a client is notified only after it reconnects, and pauses between attempts.
const REPORTS_WITHIN: Duration = Duration::from_secs(20);
/// Time for a client to replace a lost session automatically.
const REOPENS_WITHIN: Duration = Duration::from_secs(5);
const SHORT_SESSION: Duration = Duration::from_secs(2);
const EXITS_WITHIN: Duration = Duration::from_secs(5);
/// Maximum delay of a session's expiry, because servers check for expired sessions only at intervals.
const EXPIRES_LATE_BY: Duration = Duration::from_secs(10);
const NOT_ZOOKEEPER: &str = "the driver's locks are not ZooKeeper locks";

/// Checks that `ready` declares locks that scenarios can use.
pub(super) async fn ready(command: &DriverCommand) -> Tried {
    let process = Process::start(command.clone()).await.map_err(|error| Trouble::Wrong(why(&error)))?;
    let ready = process.ready.clone();
    let names: Vec<&str> = ready.locks.keys().map(String::as_str).collect();
    let seen = format!("locks: {}", names.join(", "));
    let program = Program { command: command.clone(), ready };
    DrivenLocks::of(vec![program]).map(|_| seen).map_err(Trouble::Wrong)
}

/// Checks that the driver tolerates unknown fields and requests, and reports a line that is not JSON.
pub(super) async fn messages(command: &DriverCommand) -> Tried {
    let process = Process::start(command.clone()).await.map_err(|error| Trouble::Wrong(why(&error)))?;
    let echo = answer(&process, json!({ "t": "echo", "later": { "than": [1] } })).await?;
    if let Some(word) = echo.err {
        return wrong(format!("an echo with an unknown field was answered with `{word}`"));
    }
    let unknown = answer(&process, json!({ "t": "tomorrow" })).await?;
    if unknown.err.as_deref() != Some("unsupported") {
        let word = unknown.err.as_deref().unwrap_or("ok");
        return wrong(format!("an unknown request was answered with `{word}`"));
    }
    let before = process.last_errors();
    process.write_line(b"this line is not JSON");
    let until = clock::now() + micros(SOON);
    let reported = loop {
        match process.failure().map(|error| &error.what) {
            Some(Mishap::Exited(how)) if !how.starts_with("exit status 0") => break how.clone(),
            Some(_) => break String::new(),
            None if process.last_errors() != before => break "standard error".to_owned(),
            None if clock::now() >= until => break String::new(),
            None => runtime::sleep(Duration::from_millis(10)).await,
        }
    };
    match (reported.as_str(), process.failure()) {
        ("", Some(error)) => wrong(format!("after a line that is not JSON, the driver {}", why(error))),
        ("", None) => wrong("the driver did not report a line that is not JSON"),
        (by, _) => Ok(format!(
            "ignored an unknown field, rejected an unknown request, and reported invalid JSON by {by}"
        )),
    }
}

async fn answer(process: &Process, mut request: Value) -> Result<Answer, Trouble> {
    let mut asked = process.ask("a request", Some(SOON), |id| {
        request["id"] = id.into();
        request
    });
    process.answer(&mut asked).await.map_err(|error| Trouble::Wrong(why(&error)))
}

/// Checks that contenders in several processes never hold the same lock at the same time.
pub(super) async fn exclusion(stage: &Stage<'_>) -> Tried {
    let on = stage.directory().await?;
    let count = stage.site.contenders;
    let processes = stage.processes(count.div_ceil(stage.contenders_each).max(2));
    let mut contenders = Vec::new();
    for number in 0..count {
        contenders.push(stage.open(&processes, number, SESSION, &on).await?);
    }
    let (turns, each) = (Turns::default(), ACQUISITIONS.div_ceil(count));
    try_join_all(contenders.iter().map(|one| takes_turns(one, each, &turns))).await?;
    for one in &contenders {
        one.leaves(&format!("although contender {} has released the lock", one.number)).await?;
        one.closes().await?;
    }
    let nodes = if stage.is_zookeeper { "; each time, the holder's session had a node" } else { "" };
    Ok(format!(
        "{count} contenders in {} processes took the lock {} times, one at a time{nodes}",
        processes.count(),
        each * count
    ))
}

/// Waits for a condition, but no longer than `until`.
async fn wait(until: Stamp, is_so: impl Fn() -> bool) {
    while !is_so() && clock::now() < until {
        runtime::sleep(Duration::from_millis(10)).await;
    }
}

async fn takes_turns(one: &Contender<'_>, times: usize, turns: &Turns) -> Result<(), Trouble> {
    for _ in 0..times {
        turns.asks(one.number);
        let granted = one.takes(GRANTED_WITHIN).await?;
        turns.enters(one.number);
        let has_node = one.holds(&granted).await;
        // A second holder is a better explanation than a missing node, so wait for a second holder first.
        let until = clock::now() + micros(SOON);
        if has_node.is_err() {
            wait(until, || turns.overlap()).await;
        }
        runtime::sleep(Duration::from_millis(5)).await;
        turns.leaves(one.number);
        // If two other contenders overlapped first, wait until one of them leaves.
        if turns.overlap() {
            wait(until, || turns.violation().is_some()).await;
        }
        if let Some(timeline) = turns.violation() {
            return Err(Trouble::Violated(Box::new(timeline)));
        }
        has_node?;
        one.releases().await?;
        turns.has_released(one.number);
    }
    Ok(())
}

/// Checks that a wait ends at its timeout, that a try ends immediately, and that neither leaves a node behind.
pub(super) async fn acquire_timeout(stage: &Stage<'_>) -> Tried {
    applies_if(stage.abilities.timeout != How::None, "`timeout` is `none`")?;
    let on = stage.directory().await?;
    let pair = Pair::new(stage, &on).await?;
    let began = clock::now();
    let waited = pair.waiter.acquire(Some(TIMEOUT), std::future::pending());
    let ended = runtime::timeout(TIMEOUT + LATE_BY, waited).await;
    let took = Duration::from_micros(clock::now() - began);
    match ended {
        None => {
            return wrong(format!(
                "an acquire with a timeout of {TIMEOUT:?} was not answered within {took:.1?}"
            ));
        }
        Some(Ok(_)) => return let_in(),
        Some(Err(AcquireError::TimedOut)) if took + Duration::from_millis(1) < TIMEOUT => {
            return wrong(format!(
                "an acquire with a timeout of {TIMEOUT:?} was answered with `timeout` after {took:.1?}"
            ));
        }
        Some(Err(AcquireError::TimedOut)) => {}
        Some(Err(other)) => return Err(pair.waiter.refused(other)),
    }
    let tried = pair.waiter.acquire(Some(Duration::ZERO), std::future::pending());
    match runtime::timeout(LATE_BY, tried).await {
        None => return wrong(format!("a try-lock (`timeout_ms` 0) was not answered within {LATE_BY:?}")),
        Some(Ok(_)) => return let_in(),
        Some(Err(AcquireError::TimedOut)) => {}
        Some(Err(other)) => return Err(pair.waiter.refused(other)),
    }
    // A library without timeouts keeps waiting, and the driver releases the lock once the library acquires it.
    if stage.abilities.timeout == How::Native {
        pair.waiter.leaves("although the acquire was answered with `timeout`").await?;
    }
    pair.goes_on().await?;
    Ok(format!("an acquire with a timeout of {TIMEOUT:?} ended after {took:.0?} and left no node"))
}

/// Checks that a cancelled wait ends and leaves no node behind, and that the next wait is not cancelled.
pub(super) async fn cancel(stage: &Stage<'_>) -> Tried {
    applies_if(stage.abilities.cancel != How::None, "`cancel` is `none`")?;
    let on = stage.directory().await?;
    let pair = Pair::new(stage, &on).await?;
    let waited = pair.waiter.acquire(None, runtime::sleep(CANCELLED_AFTER));
    match runtime::timeout(CANCELLED_AFTER + SOON, waited).await {
        None => return wrong(format!("the acquire was not answered within {SOON:?} after its cancellation")),
        Some(Ok(_)) => return let_in(),
        Some(Err(AcquireError::Cancelled)) => {}
        Some(Err(other)) => return Err(pair.waiter.refused(other)),
    }
    if stage.abilities.cancel == How::Native {
        pair.waiter.leaves("although the acquire was answered with `cancelled`").await?;
    }
    pair.goes_on().await?;
    Ok("the cancelled wait ended and left no node, and the next wait acquired the lock".into())
}

/// Checks that closing a holder frees the lock and leaves no node behind.
pub(super) async fn close(stage: &Stage<'_>) -> Tried {
    let on = stage.directory().await?;
    let process = stage.process();
    let holder = stage.open(&process, 0, SESSION, &on).await?;
    holder.takes(SOON).await?;
    holder.closes().await?;
    holder.leaves("although `close` was answered").await?;
    let next = stage.open(&process, 1, SESSION, &on).await?;
    next.takes(FREED_WITHIN).await?;
    next.releases().await?;
    next.closes().await?;
    Ok("the holder left no node, and the next contender acquired the lock".into())
}

/// Checks that a holder is notified when the servers end its session.
pub(super) async fn lost_session(stage: &Stage<'_>) -> Tried {
    applies_if(stage.is_zookeeper, NOT_ZOOKEEPER)?;
    applies_if(stage.abilities.lost, "`lost` is not declared")?;
    let on = stage.directory().await?;
    let process = stage.process();
    let holder = stage.open(&process, 0, SESSION, &on).await?;
    let Some(key) = holder.link.key().filter(|key| key.has_password()) else {
        return not_tried("`open` returned no `password`, so no other client can end the session");
    };
    holder.takes(SOON).await?;
    if let Err(failure) = stage.site.target.expire(key, SOON).await {
        return wrong(format!("cannot end the session with its `session` and `password`: {failure}"));
    }
    let ended = clock::now();
    let mut states = holder.link.states();
    // Drop the result of `wait_for`, which would otherwise block the driver's events.
    let over = async { states.wait_for(|state| state.is_terminated()).await.is_ok() };
    let is_reported = runtime::timeout(REPORTS_WITHIN, over).await.is_some();
    if let Some(trouble) = failure_of(&process) {
        return Err(trouble);
    }
    if !is_reported {
        return wrong(format!(
            "neither `expired` nor `lost` was reported within {REPORTS_WITHIN:?} of the session's end"
        ));
    }
    let took = Duration::from_micros(clock::now() - ended);
    let until = clock::now() + micros(REOPENS_WITHIN);
    wait(until, || process.reopened() != [0, 0]).await;
    if process.reopened()[1] > 0 {
        return wrong("after the session ended, the driver reported `connected` without a new `session`");
    }
    // The driver must answer both requests, but either request may fail.
    let _ = holder.link.release(&on).await;
    let _ = holder.link.close().await;
    if let Some(trouble) = failure_of(&process) {
        return Err(trouble);
    }
    let next = stage.open(&process, 1, SESSION, &on).await?;
    next.takes(FREED_WITHIN).await?;
    next.releases().await?;
    next.closes().await?;
    Ok(format!("the driver reported the session's end after {took:.0?}"))
}

/// Checks that the driver exits when its input ends, and that its nodes disappear with their sessions.
pub(super) async fn end_of_input(stage: &Stage<'_>) -> Tried {
    let on = stage.directory().await?;
    let process = stage.process();
    let holder = stage.open(&process, 0, SHORT_SESSION, &on).await?;
    let waiter = match stage.contenders_each {
        1 => None,
        _ => Some(stage.open(&process, 1, SHORT_SESSION, &on).await?),
    };
    holder.takes(SOON).await?;
    let mut waiting = pin!(async {
        match &waiter {
            Some(waiter) => waiter.acquire(None, std::future::pending()).await,
            None => std::future::pending().await,
        }
    });
    if let Some(Err(AcquireError::Failed(failure))) = runtime::timeout(CANCELLED_AFTER, &mut waiting).await {
        return Err(failed("acquire", &failure));
    }
    let began = clock::now();
    let Some(status) = process.end_input(EXITS_WITHIN) else {
        return wrong(format!("the driver is still running {EXITS_WITHIN:?} after its input ended"));
    };
    let took = Duration::from_micros(clock::now() - began);
    let sessions_end = holder.link.timeout() + EXPIRES_LATE_BY;
    match stage.node_left(&on, sessions_end, |_| true).await? {
        Some(node) => wrong(format!("{} still exists {sessions_end:?} after the driver ended", node.path)),
        None => Ok(format!("{} after {took:.0?}; no node was left", how(status))),
    }
}
