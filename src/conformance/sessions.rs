//! Sessions: one for each contender, with the timeout that was granted, and what becomes of them when the wire is cut.

use std::time::Duration;

use serde_json::json;

use super::program::echoes;
use super::stage::{CheckedContender, SOON, Stage, looker, said};
use super::{CheckNote, Tried, Trouble, needs, not_tried, wrong};
use zklockbench_ensemble::proxy::{SessionTimeouts, Who};
use zklockbench_locks::driver::protocol::{WantedMode, What};

/// Longer than what most servers grant.
const ASKED_FOR: Duration = Duration::from_secs(24 * 3_600);
/// The session that is cut off, unless the servers grant no shorter one.
const CUT_OFF: Duration = Duration::from_secs(2);
/// A client that is to tell that its session is over has to reach a server for that, and pauses between tries.
const TELLS_WITHIN: Duration = Duration::from_secs(20);
const NOT_ZOOKEEPER: &str = "its locks are not ZooKeeper's";

pub(super) async fn one_each(stage: &mut Stage<'_>) -> Tried {
    let (one, two) = stage.two().await?;
    match (one.session, two.session) {
        (Some(one), Some(two)) if one == two => {
            return wrong(format!("two contenders share the session {one:#x}: a fault on one hits both"));
        }
        (None, _) => {
            stage.done(&[one, two]).await?;
            return not_tried(NOT_ZOOKEEPER);
        }
        _ => {}
    }
    stage.done(&[one, two]).await?;
    Ok(CheckNote::Fine("two contenders have two sessions".into()))
}

/// What it tells as granted is what the servers have granted to that session. A client may ask them for a timeout of its own.
pub(super) async fn granted(stage: &mut Stage<'_>) -> Tried {
    needs(stage.is_zookeeper, NOT_ZOOKEEPER)?;
    let own = looker(&stage.site.target, ASKED_FOR).await;
    let own = own.map_err(|failure| Trouble::Elsewhere(failure.to_string()))?;
    let granted_to_us = own.timeout();
    own.close(Duration::from_secs(2)).await;
    // Between it and the servers stands who reads what they say to each other, unless that is encrypted.
    let proxy = if stage.site.target.access.tls.is_some() { None } else { Some(stage.proxy()?) };
    let connect = match &proxy {
        Some(proxy) => stage.by_way_of(proxy, 0)?,
        None => stage.site.target.connect.clone(),
    };
    let one = stage.open_with(&connect, ASKED_FOR, &[]).await?;
    let read = proxy.as_ref().zip(one.session).and_then(|(proxy, id)| proxy.session_timeouts(id));
    stage.done(&[one]).await?;
    timeouts_are_right(one, read, granted_to_us)
}

/// What a driver has told, beside what was read on the wire of its session, and what the suite's own client was granted.
fn timeouts_are_right(
    one: CheckedContender,
    read: Option<SessionTimeouts>,
    granted_to_us: Duration,
) -> Tried {
    let (told, asked_for) = (one.granted.as_millis(), ASKED_FOR.as_secs());
    if !one.tells_granted {
        return Ok(CheckNote::Better(
            "`open` told no `session_ms`: what is asked for is taken for granted".into(),
        ));
    }
    match read {
        Some(read) if read.granted != one.granted => {
            let (asked, granted) = (read.asked.as_millis(), read.granted.as_millis());
            wrong(format!(
                "it told {told} ms; its client asked the servers for {asked} ms, and they granted {granted} ms"
            ))
        }
        Some(read) if read.granted != granted_to_us => Ok(CheckNote::Better(format!(
            "asked for {asked_for} s, its client asks for {} ms; the servers granted {told} ms, and it says so",
            read.asked.as_millis()
        ))),
        None if one.granted > granted_to_us => {
            let granted = granted_to_us.as_millis();
            wrong(format!("asked for {asked_for} s, it told {told} ms, and the servers grant {granted} ms"))
        }
        None if one.granted < granted_to_us => not_tried(format!(
            "asked for {asked_for} s, it told {told} ms; whether that was granted can't be read on its connection"
        )),
        _ => Ok(CheckNote::Fine(format!(
            "asked for {asked_for} s, the servers grant {} s, and it says so",
            one.granted.as_secs()
        ))),
    }
}

pub(super) async fn contenders_echo(stage: &mut Stage<'_>) -> Tried {
    let one = stage.open().await?;
    let seen = echoes(stage.driver().await?, Some(one.c)).await?;
    stage.done(&[one]).await?;
    Ok(seen)
}

fn can_be_cut(stage: &Stage<'_>) -> Result<(), Trouble> {
    needs(stage.is_zookeeper, NOT_ZOOKEEPER)?;
    needs(stage.site.target.access.tls.is_none(), "with TLS no proxy can stand between")
}

/// Cut off for half of its session, a holder keeps the lock, or is told that it has lost it.
pub(super) async fn cut_shortly(stage: &mut Stage<'_>) -> Tried {
    can_be_cut(stage)?;
    let on = stage.place().await?;
    let proxy = stage.proxy()?;
    let connect = stage.by_way_of(&proxy, 0)?;
    let one = stage.open_with(&connect, CUT_OFF, &[]).await?;
    stage.takes(one, &on).await?;
    let from = stage.driver().await?.events.len();
    let cut = proxy.refuse(Who::Client(0));
    proxy.reset(Who::Client(0));
    let driver = stage.driver().await?;
    driver.listen(one.granted / 2).await?;
    cut.heal();
    let back = [What::Connected, What::Expired, What::Lost];
    let told = driver.event(one.c, &back, from, one.granted + Duration::from_secs(1)).await?;
    let over = driver.event(one.c, &[What::Expired, What::Lost], from, Duration::ZERO).await?.is_some();
    let suspended = driver.event(one.c, &[What::Suspended], from, Duration::ZERO).await?.is_some();
    let nodes = stage.nodes(&on).await?;
    let held = nodes.iter().any(|node| Some(node.owner) == one.session);
    let seen = match (held, over) {
        (true, false) => "it kept the lock",
        (false, true) => "it lost its session, and said so",
        // By its own clock, which is behind the servers'.
        (true, true) => "it gave the lock up, and said so",
        (false, false) if stage.abilities.lost => {
            let after = TELLS_WITHIN;
            let driver = stage.driver().await?;
            if driver.event(one.c, &[What::Expired, What::Lost], from, after).await?.is_none() {
                return wrong(
                    "its session was over, and `lost` is true, but no event `expired` or `lost` came",
                );
            }
            "it lost its session, and said so"
        }
        (false, false) => "it lost its session; `lost` is not declared",
    };
    if held && !over {
        stage.releases(one, &on).await?;
        stage.leaves(one, &on).await?;
        stage.takes(one, &on).await?;
        stage.releases(one, &on).await?;
        stage.done(&[one]).await?;
    } else {
        closes_somehow(stage, one).await?;
        stage.leaves(one, &on).await?;
        stage.done(&[]).await?;
    }
    let events = match (suspended, told.is_some()) {
        (true, true) => "; `suspended` and then what became of it were told",
        (true, false) => "; `suspended` was told",
        (false, _) => "; no event `suspended`",
    };
    Ok(CheckNote::Fine(format!("cut off for {} ms {seen}{events}", one.granted.as_millis() / 2)))
}

/// Cut off for twice its session, a holder has lost the lock; the next one has it, whatever the first does then.
pub(super) async fn cut_for_long(stage: &mut Stage<'_>) -> Tried {
    can_be_cut(stage)?;
    let on = stage.place().await?;
    let proxy = stage.proxy()?;
    let connect = stage.by_way_of(&proxy, 0)?;
    let one = stage.open_with(&connect, CUT_OFF, &[]).await?;
    let two = stage.open().await?;
    stage.takes(one, &on).await?;
    let asked = stage.asks(two, &on, WantedMode::Write, None).await?;
    let from = stage.driver().await?.events.len();
    let cut = proxy.refuse(Who::Client(0));
    proxy.reset(Who::Client(0));
    stage.driver().await?.listen(one.granted * 2).await?;
    stage.granted(asked, one.granted + SOON).await?;
    cut.heal();
    let within = if stage.abilities.lost { TELLS_WITHIN } else { Duration::from_secs(1) };
    let over = [What::Expired, What::Lost];
    let driver_told = stage.driver().await?.event(one.c, &over, from, within).await?.is_some();
    if stage.abilities.lost && !driver_told {
        return wrong(format!(
            "its session was over, and `lost` is true, but no event `expired` or `lost` came within {} s",
            TELLS_WITHIN.as_secs()
        ));
    }
    // Whatever it makes of that, it has to answer, and must not let anybody out.
    let driver = stage.driver().await?;
    let released =
        driver.ask("`release` after the session was over", json!({ "t": "release", "c": one.c, "on": on }));
    let released = driver.answer(released, 2 * one.granted + SOON).await?.answer;
    stage.is_held(two, &on, None).await?;
    closes_somehow(stage, one).await?;
    stage.releases(two, &on).await?;
    let three = stage.open().await?;
    stage.takes(three, &on).await?;
    stage.releases(three, &on).await?;
    stage.done(&[two, three]).await?;
    let told = if driver_told { "its end was told" } else { "nothing was told of its end" };
    let word = released.err.as_deref().map_or("ok".to_owned(), |_| said(&released));
    Ok(CheckNote::Fine(format!("{told}; the next one got in and stayed; `release` said `{word}`")))
}

/// The servers end a holder's session from outside, as the fault `expire` does; the next one has the lock.
pub(super) async fn expired(stage: &mut Stage<'_>) -> Tried {
    needs(stage.is_zookeeper, NOT_ZOOKEEPER)?;
    let on = stage.place().await?;
    let (one, two) = stage.two().await?;
    let Some(key) = stage.key_of(one) else {
        stage.done(&[one, two]).await?;
        return Ok(CheckNote::Better(
            "`open` told no `password`: the fault `expire` can't be used with it".into(),
        ));
    };
    stage.takes(one, &on).await?;
    let asked = stage.asks(two, &on, WantedMode::Write, None).await?;
    if let Err(failure) = stage.site.target.expire(key, SOON).await {
        return wrong(format!(
            "by the session and password that `open` told, it could not be ended: {failure}"
        ));
    }
    stage.granted(asked, one.granted + SOON).await?;
    closes_somehow(stage, one).await?;
    stage.releases(two, &on).await?;
    stage.done(&[two]).await?;
    Ok(CheckNote::Fine("its session was ended from outside, and the next one got in".into()))
}

/// Whose session is over has to be closed all the same; whether that was possible is the driver's affair.
async fn closes_somehow(stage: &mut Stage<'_>, who: CheckedContender) -> Result<(), Trouble> {
    let driver = stage.driver().await?;
    let closed = driver.ask("`close` after the session was over", json!({ "t": "close", "c": who.c }));
    driver.answer(closed, 2 * who.granted + SOON).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(told_ms: u64, read: Option<(u64, u64)>) -> Tried {
        let granted = Duration::from_millis(told_ms);
        let one = CheckedContender { c: 0, session: Some(7), granted, tells_granted: true };
        let [asked, granted] =
            read.map_or([0; 2], |(asked, granted)| [asked, granted]).map(Duration::from_millis);
        timeouts_are_right(one, read.map(|_| SessionTimeouts { asked, granted }), Duration::from_secs(600))
    }

    #[test]
    fn what_a_driver_tells_is_held_against_what_its_own_session_was_granted() {
        assert!(matches!(judged(600_000, Some((86_400_000, 600_000))), Ok(CheckNote::Fine(_))));
        // Its client asks for 30 s, whatever it is told: it may, if it says so
        assert!(matches!(judged(30_000, Some((30_000, 30_000))), Ok(CheckNote::Better(_))));
        for told in [600_000, 86_400_000, 10_000] {
            assert!(matches!(judged(told, Some((30_000, 30_000))), Err(Trouble::Wrong(_))), "{told}");
        }
    }

    #[test]
    fn where_its_connection_cannot_be_read_only_what_no_server_grants_is_wrong() {
        assert!(matches!(judged(600_000, None), Ok(CheckNote::Fine(_))));
        assert!(matches!(judged(30_000, None), Err(Trouble::NotTried(_))));
        assert!(matches!(judged(86_400_000, None), Err(Trouble::Wrong(_))));
    }
}
