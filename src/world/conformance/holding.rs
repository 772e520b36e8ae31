//! Locks that a driver holds by itself, for so long as it is told.

use serde_json::{Value, json};

use super::stage::{CheckedContender, SOON, Stage, said};
use super::{CheckNote, Tried, Trouble, needs, not_tried, wrong};

/// Long enough to look at the lock meanwhile, on a busy host, too.
const HELD: u64 = 400_000;

/// Two answers for one acquire: at the grant, and when it has been released.
pub(super) async fn by_itself(stage: &mut Stage<'_>) -> Tried {
    needs(stage.says("hold"), "`hold` is not declared")?;
    let on = stage.place().await?;
    let (one, two) = stage.two().await?;
    let asked = asks(stage, one, &on, HELD, &[]).await?;
    let grant = stage.granted(asked, SOON).await?;
    stage.is_held(one, &on, Some(&grant)).await?;
    let other = asks(stage, two, &on, 0, &[]).await?;
    if stage.can_cancel() {
        let driver = stage.driver().await?;
        let cancel = driver.ask("`cancel`", json!({ "t": "cancel", "of": asked }));
        driver.answer(cancel, SOON).await?;
    }
    let released = stage.driver().await?.release_of(asked, SOON).await?;
    if released.answer.err.is_some() {
        return wrong(format!("it did not release: {}", said(&released.answer)));
    }
    let held = released.came.saturating_sub(grant.came);
    if let (Some(to), Some(from)) = (grant.answer.to, released.answer.from) {
        if from.saturating_sub(to) + 1_000 < HELD {
            return wrong(format!(
                "asked to hold for {HELD} µs, its stamps show {} µs",
                from.saturating_sub(to)
            ));
        }
    } else if held + 5_000 < HELD {
        return wrong(format!("asked to hold for {HELD} µs, `released` came {held} µs after the grant"));
    }
    let second = stage.granted(other, SOON).await?;
    if let (Some(inside), Some(out)) = (second.answer.to, released.answer.to)
        && inside + 1_000 < released.answer.from.unwrap_or(out)
    {
        return wrong(format!(
            "by its own stamps the next one was inside at {inside}, before {out}, when the first one left"
        ));
    }
    let driver = stage.driver().await?;
    driver.release_of(other, SOON).await?;
    stage.leaves(one, &on).await?;
    stage.leaves(two, &on).await?;
    if stage.has_timeouts() {
        stage.takes(one, &on).await?;
        let late = asks(stage, two, &on, 0, &[("timeout_ms", 50.into())]).await?;
        let answered = stage.driver().await?.answer(late, SOON).await?.answer;
        if answered.err.as_deref() != Some("timeout") {
            return wrong(format!("a hold that was not granted in time was answered `{}`", said(&answered)));
        }
        stage.releases(one, &on).await?;
    }
    stage.done(&[one, two]).await?;
    Ok(CheckNote::Fine(format!(
        "{HELD} µs took {held} µs as seen from here, with two answers in order; 0 µs, too"
    )))
}

/// How many acquires are sent ahead, if a driver takes so many.
const AHEAD: usize = 5;

/// Acquires that are out at once: done one after the other, and none of them behind one that was cancelled, or after `close`.
pub(super) async fn ahead(stage: &mut Stage<'_>) -> Tried {
    let declared = stage.declared["ahead"].as_u64().and_then(|count| usize::try_from(count).ok());
    let Some(declared) = declared.filter(|count| *count > 1) else {
        return not_tried("`ahead` is not declared");
    };
    needs(stage.can_cancel(), "`cancel` is `none`, so that nothing is asked for ahead")?;
    let on = stage.place().await?;
    let (one, two) = stage.two().await?;
    let count = declared.min(AHEAD);
    // All of them wait, and then get in.
    stage.takes(two, &on).await?;
    let out = asks_ahead(stage, one, &on, count).await?;
    stage.queues(one, &on).await?;
    let left = stage.releases(two, &on).await?;
    let mut before = (left.answer.from.unwrap_or(0), left.came);
    for id in &out {
        let granted = stage.granted(*id, SOON).await?;
        let released = stage.driver().await?.release_of(*id, SOON).await?;
        if released.answer.err.is_some() {
            return wrong(format!("it did not release: {}", said(&released.answer)));
        }
        let stamps =
            [granted.answer.to, released.answer.from, released.answer.to].map(|at| at.unwrap_or(before.0));
        if granted.came < before.1
            || released.came < granted.came
            || stamps[0] < before.0
            || !stamps.is_sorted()
        {
            return wrong(format!(
                "acquire {id} was sent after others, and was done or answered before them"
            ));
        }
        before = (stamps[2], released.came);
    }
    stage.leaves(one, &on).await?;
    // The cancel of one ends all of them, and what comes after them.
    stage.takes(two, &on).await?;
    let out = asks_ahead(stage, one, &on, count).await?;
    stage.queues(one, &on).await?;
    let driver = stage.driver().await?;
    let cancel = driver.ask("`cancel`", json!({ "t": "cancel", "of": out[count - 1] }));
    driver.answer(cancel, SOON).await?;
    let late = asks(stage, one, &on, 0, &[("after", out[count - 1].into())]).await?;
    are_cancelled(stage, &out, "they were cancelled").await?;
    are_cancelled(stage, &[late], "what it comes after was cancelled").await?;
    stage.leaves(one, &on).await?;
    // And so does `close`.
    let out = asks_ahead(stage, one, &on, count).await?;
    stage.queues(one, &on).await?;
    stage.closes(one).await?;
    are_cancelled(stage, &out, "their contender was closed").await?;
    stage.leaves(one, &on).await?;
    stage.releases(two, &on).await?;
    stage.done(&[two]).await?;
    Ok(CheckNote::Fine(format!(
        "{count} at once were done in their order; none was begun after a cancel, or after `close`"
    )))
}

async fn asks_ahead(
    stage: &mut Stage<'_>,
    who: CheckedContender,
    on: &str,
    count: usize,
) -> Result<Vec<u64>, Trouble> {
    let mut out: Vec<u64> = Vec::with_capacity(count);
    for _ in 0..count {
        let after = out.last().map(|last| ("after", Value::from(*last)));
        out.push(asks(stage, who, on, 0, after.as_slice()).await?);
    }
    Ok(out)
}

async fn are_cancelled(stage: &mut Stage<'_>, out: &[u64], why: &str) -> Result<(), Trouble> {
    for id in out {
        let answer = stage.driver().await?.answer(*id, SOON).await?.answer;
        if answer.err.as_deref() != Some("cancelled") {
            return wrong(format!("acquire {id} was answered `{}`, although {why}", said(&answer)));
        }
    }
    Ok(())
}

async fn asks(
    stage: &mut Stage<'_>,
    who: CheckedContender,
    on: &str,
    hold_us: u64,
    more: &[(&str, Value)],
) -> Result<u64, Trouble> {
    let mut acquire = json!({ "t": "acquire", "c": who.c, "on": on, "mode": "write", "hold_us": hold_us });
    for (name, value) in more {
        acquire[*name] = value.clone();
    }
    Ok(stage.driver().await?.ask("`acquire`", acquire))
}
