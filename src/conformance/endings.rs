//! Waits that end without a grant, and grants that come when nobody waits any more.

use std::time::Duration;

use serde_json::json;

use super::conversation::Conversation;
use super::stage::{CheckedContender, SOON, Stage, said};
use super::{CheckNote, Tried, Trouble, needs, not_tried, wrong};
use zklockbench_locks::driver::protocol::{Answer, How, WantedMode, What};
use zklockbench_zk::reactor;

pub(super) const TIMEOUT: Duration = Duration::from_millis(400);
/// So much later an answer that it has timed out may come.
const LATE_BY: Duration = Duration::from_millis(500);
/// A machine may be busy with something else once, and not each time.
const TRIES: usize = 3;
/// How often the holder releases about when the other one gives up, and after how long that does.
const RACES: usize = 100;
const RACED: Duration = Duration::from_millis(40);
const NO_TIMEOUT: &str = "`timeout` is `none`";
const MAP_EXCEPTION: &str = "it ended in time, but the answer must be `timeout`: does the driver map the wrapper's own exception to it?";
const LOOK_AT_RESULT: &str = "answer `ok` only when the contender has the lock, else `timeout`: does the driver look at what \
     acquire returns?";

/// A wait that has to time out does, neither before nor long after, and leaves nothing.
pub(super) async fn times_out(stage: &mut Stage<'_>, timeout: Duration) -> Tried {
    needs(stage.has_timeouts(), NO_TIMEOUT)?;
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    stage.takes(holder, &on).await?;
    let mut tries = 0;
    let took = loop {
        tries += 1;
        let asked = stage.asks(other, &on, WantedMode::Write, Some(timeout)).await?;
        let answered = stage.driver().await?.answer(asked, timeout + SOON).await;
        let answered = answered.map_err(|trouble| match trouble {
            Trouble::Wrong(why) => Trouble::Wrong(format!("`timeout_ms` {}: {why}", timeout.as_millis())),
            other => other,
        })?;
        let took = Duration::from_micros(answered.came.saturating_sub(answered.sent));
        match answered.answer.err.as_deref() {
            Some("timeout") if took + Duration::from_millis(1) < timeout => {
                return wrong(format!(
                    "{} ms after it was asked to wait {} ms",
                    took.as_millis(),
                    timeout.as_millis()
                ));
            }
            Some("timeout") if took <= timeout + LATE_BY => break took,
            Some("timeout") if tries < TRIES => {}
            Some("timeout") => {
                let (took, timeout) = (took.as_millis(), timeout.as_millis());
                return wrong(format!(
                    "{TRIES} times asked to wait {timeout} ms, it waited {took} ms and the like"
                ));
            }
            _ => return Err(no_timeout(&answered.answer, took, timeout)),
        }
    };
    // Where the library knows no timeout, its call waits on: what it is then granted is given back.
    let is_native = stage.abilities.timeout == How::Native;
    if is_native {
        stage.leaves(other, &on).await?;
    }
    stage.is_held(holder, &on, None).await?;
    stage.releases(holder, &on).await?;
    stage.takes(other, &on).await?;
    stage.releases(other, &on).await?;
    stage.leaves(other, &on).await?;
    stage.done(&[holder, other]).await?;
    let left = if is_native { ", and nothing stayed in the queue" } else { "" };
    Ok(CheckNote::Fine(format!("{} ms took {} ms{left}", timeout.as_millis(), took.as_millis())))
}

/// What is wrong with another answer than `timeout` to an acquire that had to time out.
fn no_timeout(answer: &Answer, took: Duration, timeout: Duration) -> Trouble {
    if answer.err.is_none() {
        return Trouble::Advised("the lock was granted to a second contender".into(), LOOK_AT_RESULT);
    }
    let why = format!("answered `{}`, not `timeout`", said(answer));
    let is_in_time = took + Duration::from_millis(1) >= timeout && took <= timeout + LATE_BY;
    if is_in_time { Trouble::Advised(why, MAP_EXCEPTION) } else { Trouble::Wrong(why) }
}

/// The holder lets go at about the time when the other one gives up: a grant that is then on its way belongs to nobody.
pub(super) async fn late_grants(stage: &mut Stage<'_>) -> Tried {
    needs(stage.has_timeouts(), NO_TIMEOUT)?;
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    let mut granted = 0;
    for race in 0..RACES {
        // From 5 ms before the deadline to 5 ms after it.
        let at = RACED + Duration::from_micros(race as u64 % 21 * 500) - Duration::from_millis(5);
        granted += usize::from(
            race_once(stage, &on, holder, other, at).await.map_err(|trouble| in_race(trouble, race))?,
        );
    }
    stage.leaves(holder, &on).await?;
    stage.leaves(other, &on).await?;
    let events = &stage.driver().await?.events;
    let late = events.iter().filter(|(_, event)| event.what == What::Late).count();
    stage.done(&[holder, other]).await?;
    let (late, out) =
        (if late > 0 { format!(", {late} of them late and told") } else { String::new() }, RACES - granted);
    Ok(CheckNote::Fine(format!(
        "{RACES} releases within 5 ms of another's deadline: {granted} granted, {out} timed out{late}; never two, none kept"
    )))
}

fn in_race(trouble: Trouble, race: usize) -> Trouble {
    match trouble {
        Trouble::Wrong(why) => Trouble::Wrong(format!("race {}: {why}", race + 1)),
        Trouble::Advised(why, advice) => Trouble::Advised(format!("race {}: {why}", race + 1), advice),
        other => other,
    }
}

/// Whether the one that was about to give up got it.
async fn race_once(
    stage: &mut Stage<'_>,
    on: &str,
    holder: CheckedContender,
    other: CheckedContender,
    release_after: Duration,
) -> Result<bool, Trouble> {
    let taking = stage.asks(holder, on, WantedMode::Write, None).await?;
    let taken = stage.driver().await?.answer(taking, Duration::from_secs(5)).await;
    if let Err(Trouble::Wrong(_)) = taken {
        let nodes = stage.nodes(on).await?;
        let kept = nodes.iter().any(|node| Some(node.owner) == other.session);
        if kept {
            return wrong(format!(
                "contender {} had been told `timeout`, but its session has the lock: nobody else gets in",
                other.c
            ));
        }
    }
    if let Some(word) = &taken?.answer.err {
        return wrong(format!("`acquire` failed: {word}"));
    }
    let asked = stage.asks(other, on, WantedMode::Write, Some(RACED)).await?;
    let driver = stage.driver().await?;
    driver.listen(release_after).await?;
    let early = driver.take_answer(&[asked]).map(|(_, answered)| answered);
    if early.as_ref().is_some_and(|early| early.answer.err.is_none()) {
        let why = "the lock was granted while another contender had it";
        return Err(Trouble::Advised(why.into(), LOOK_AT_RESULT));
    }
    let releasing = driver.ask("`release`", json!({ "t": "release", "c": holder.c, "on": on }));
    let answered = match early {
        Some(early) => early,
        None => driver.answer(asked, RACED + SOON).await?,
    };
    if let Some(word) = &driver.answer(releasing, SOON).await?.answer.err {
        return wrong(format!("`release` failed: {word}"));
    }
    let took = Duration::from_micros(answered.came.saturating_sub(answered.sent));
    match answered.answer.err.as_deref() {
        Some("timeout") => Ok(false),
        Some(_) => Err(no_timeout(&answered.answer, took, RACED)),
        None => {
            stage.is_held(other, on, Some(&answered)).await?;
            stage.releases(other, on).await?;
            Ok(true)
        }
    }
}

async fn is_cancelled(driver: &mut Conversation, id: u64) -> Result<(), Trouble> {
    match driver.answer(id, SOON).await?.answer.err {
        Some(word) => wrong(format!("`cancel` was answered with `{word}`")),
        None => Ok(()),
    }
}

async fn cancelled(driver: &mut Conversation, asked: u64) -> Result<Answer, Trouble> {
    let cancel = driver.cancels(asked);
    let answered = driver.answer(asked, SOON).await?.answer;
    is_cancelled(driver, cancel).await?;
    Ok(answered)
}

const NO_CANCEL: &str = "`cancel` is `none`";

/// A cancellation that comes right behind its acquire, on a lock that is free, and on one that is not.
pub(super) async fn cancel_before(stage: &mut Stage<'_>) -> Tried {
    needs(stage.can_cancel(), NO_CANCEL)?;
    let on = stage.place().await?;
    let (one, two) = stage.two().await?;
    let mut granted = 0;
    const TIMES: usize = 10;
    for _ in 0..TIMES {
        let asked = stage.asks(one, &on, WantedMode::Write, None).await?;
        let answered = cancelled(stage.driver().await?, asked).await?;
        match answered.err.as_deref() {
            Some("cancelled") => {}
            Some(_) => return wrong(format!("answered `{}`, not `cancelled`", said(&answered))),
            None => {
                granted += 1;
                stage.releases(one, &on).await?;
            }
        }
    }
    stage.leaves(one, &on).await?;
    stage.takes(two, &on).await?;
    let asked = stage.asks(one, &on, WantedMode::Write, None).await?;
    let answered = cancelled(stage.driver().await?, asked).await?;
    if answered.err.as_deref() != Some("cancelled") {
        return wrong(format!(
            "a cancelled wait for a lock that another has was answered `{}`",
            said(&answered)
        ));
    }
    stage.releases(two, &on).await?;
    stage.done(&[one, two]).await?;
    Ok(CheckNote::Fine(format!("{TIMES} acquires cancelled at once: {granted} granted, each answered once")))
}

/// A wait that is cancelled ends, leaves the queue, and does not end the next one.
pub(super) async fn cancel_during(stage: &mut Stage<'_>) -> Tried {
    needs(stage.can_cancel(), NO_CANCEL)?;
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    stage.takes(holder, &on).await?;
    let asked = stage.asks(other, &on, WantedMode::Write, None).await?;
    let driver = stage.driver().await?;
    driver.listen(Duration::from_millis(100)).await?;
    let answered = cancelled(driver, asked).await?;
    if answered.err.as_deref() != Some("cancelled") {
        return wrong(format!("answered `{}`, not `cancelled`", said(&answered)));
    }
    let is_native = stage.abilities.cancel == How::Native;
    if is_native {
        stage.leaves(other, &on).await?;
    }
    // The next wait is not cancelled by what has cancelled this one.
    let again = stage.asks(other, &on, WantedMode::Write, None).await?;
    stage.driver().await?.listen(Duration::from_millis(100)).await?;
    stage.releases(holder, &on).await?;
    stage.granted(again, SOON).await?;
    stage.is_held(other, &on, None).await?;
    stage.releases(other, &on).await?;
    stage.done(&[holder, other]).await?;
    let left = if is_native { "left the queue, " } else { "" };
    Ok(CheckNote::Fine(format!("the wait ended, {left}and the next one was served")))
}

/// A cancellation that comes after the grant does nothing.
pub(super) async fn cancel_after(stage: &mut Stage<'_>) -> Tried {
    needs(stage.can_cancel(), NO_CANCEL)?;
    let on = stage.place().await?;
    let one = stage.open().await?;
    let asked = stage.asks(one, &on, WantedMode::Write, None).await?;
    stage.granted(asked, SOON).await?;
    let driver = stage.driver().await?;
    let cancel = driver.cancels(asked);
    is_cancelled(driver, cancel).await?;
    driver.listen(Duration::from_millis(100)).await?;
    stage.is_held(one, &on, None).await?;
    stage.releases(one, &on).await?;
    stage.takes(one, &on).await?;
    stage.releases(one, &on).await?;
    stage.done(&[one]).await?;
    Ok(CheckNote::Fine("the lock stayed, and so did the next".into()))
}

/// The reading thread does not wait with a contender.
pub(super) async fn echo_while_waiting(stage: &mut Stage<'_>) -> Tried {
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    stage.takes(holder, &on).await?;
    let asked = stage.asks(other, &on, WantedMode::Write, None).await?;
    let driver = stage.driver().await?;
    driver.listen(Duration::from_millis(50)).await?;
    let echo = driver.ask("an echo while a contender waits", json!({ "t": "echo" }));
    let answered = driver.answer(echo, Duration::from_secs(3)).await?;
    let took = answered.came.saturating_sub(answered.sent);
    stage.releases(holder, &on).await?;
    stage.granted(asked, SOON).await?;
    stage.releases(other, &on).await?;
    stage.done(&[holder, other]).await?;
    Ok(CheckNote::Fine(format!("answered after {took} µs")))
}

/// Who closes while it holds lets the next one in, and not only when its session has timed out.
pub(super) async fn close_while_holding(stage: &mut Stage<'_>) -> Tried {
    let on = stage.place().await?;
    let (holder, other) = stage.two().await?;
    stage.takes(holder, &on).await?;
    let asked = stage.asks(other, &on, WantedMode::Write, None).await?;
    stage.driver().await?.listen(Duration::from_millis(50)).await?;
    stage.closes(holder).await?;
    stage.granted(asked, Duration::from_secs(5)).await?;
    stage.leaves(holder, &on).await?;
    stage.releases(other, &on).await?;
    stage.done(&[other]).await?;
    Ok(CheckNote::Fine("the next one got in".into()))
}

pub(super) async fn nothing_left(stage: &mut Stage<'_>) -> Tried {
    needs(!stage.places.is_empty(), "no check before it has made a lock")?;
    reactor::sleep(Duration::from_millis(100)).await;
    let left = stage.all_nodes().await?;
    match left.first() {
        None if !stage.is_zookeeper => not_tried("its locks are not ZooKeeper's"),
        None => Ok(CheckNote::Fine("no session has a node left in any lock of the checks before".into())),
        Some(node) => {
            wrong(format!("{} of session {:#x} is left, and {} more", node.path, node.owner, left.len() - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Outcome};
    use super::*;

    fn advised(answer: serde_json::Value, took_ms: u64) -> Finding {
        let answer: Answer = serde_json::from_value(answer).unwrap();
        let trouble = no_timeout(&answer, Duration::from_millis(took_ms), TIMEOUT);
        Finding::of("timeout", Some("Lock"), "what the check advises", Err(trouble))
    }

    #[test]
    fn a_wait_that_ended_in_time_with_another_word_is_told_apart_from_one_that_did_not_end() {
        let connection = json!({ "id": 3, "err": "connection", "message": "TooLate()" });
        let told = advised(connection.clone(), 402);
        assert_eq!(
            (told.outcome, told.seen.as_str()),
            (Outcome::Failed, "answered `connection: TooLate()`, not `timeout`")
        );
        assert_eq!(told.advice, Some(MAP_EXCEPTION));
        for took_ms in [3, 2_000] {
            assert_eq!(advised(connection.clone(), took_ms).advice, Some("what the check advises"));
        }
        let granted = advised(json!({ "id": 3, "ok": {} }), 402);
        assert_eq!(granted.seen, "the lock was granted to a second contender");
        assert_eq!(granted.advice, Some(LOOK_AT_RESULT));
    }
}
