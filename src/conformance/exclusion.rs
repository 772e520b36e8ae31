//! Who is inside: by the driver's answers, and by what stands in the ensemble then; also of locks that a driver holds by itself,
//! for so long as it is told.

use std::time::Duration;

use serde_json::json;

use super::conversation::Answered;
use super::stage::{CheckedContender, SOON, Stage, said, was_done};
use super::{CheckNote, Tried, Trouble, needs, not_tried, wrong};
use zklockbench_locks::driver::protocol::{Order, TokenKind, WantedMode};

/// How often the lock is taken, by all contenders together.
const CYCLES: usize = 300;
const GRANT_WITHIN: Duration = Duration::from_secs(15);
/// So long nobody may be let in who has to wait.
const STAYS_OUT: Duration = Duration::from_millis(250);

enum Doing {
    Waits(u64),
    Releases(u64),
    IsDone,
}

impl Doing {
    fn id(&self) -> Option<u64> {
        match self {
            Self::Waits(id) | Self::Releases(id) => Some(*id),
            Self::IsDone => None,
        }
    }
}

/// Contenders that take the lock in turns, as fast as it goes.
pub(super) async fn cycles(stage: &mut Stage<'_>) -> Tried {
    let on = stage.place().await?;
    let count = stage.site.contenders;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(stage.open().await?);
    }
    let mut doing = Vec::new();
    for one in &all {
        doing.push(Doing::Waits(stage.asks(*one, &on, WantedMode::Write, None).await?));
    }
    let (mut left, mut last_token, mut stamped) = (CYCLES, None, 0);
    loop {
        let ids: Vec<u64> = doing.iter().filter_map(Doing::id).collect();
        if ids.is_empty() {
            break;
        }
        let (id, answered) = stage.driver().await?.first_answer(&ids, GRANT_WITHIN).await?;
        let Some(at) = doing.iter().position(|one| one.id() == Some(id)) else { continue };
        if answered.answer.err.is_some() {
            return wrong(format!("contender {} got `{}`", all[at].c, said(&answered.answer)));
        }
        stamped += usize::from(fits(&answered, stage.declared["clock"] == "monotonic")?);
        doing[at] = match doing[at] {
            Doing::Waits(_) => {
                stage.is_held(all[at], &on, Some(&answered)).await?;
                grows(&answered, stage.abilities.token, &mut last_token)?;
                alone(stage, &all, &doing, at).await?;
                let release = json!({ "t": "release", "c": all[at].c, "on": on });
                Doing::Releases(stage.driver().await?.ask("`release`", release))
            }
            _ if left == 0 => Doing::IsDone,
            _ => {
                left -= 1;
                Doing::Waits(stage.asks(all[at], &on, WantedMode::Write, None).await?)
            }
        };
    }
    let taken = CYCLES + count;
    stage.done(&all).await?;
    let looked = if stage.is_zookeeper { "; at each grant a node of its contender's was there" } else { "" };
    let stamps = if stamped > 0 { "; stamps fit" } else { "" };
    Ok(CheckNote::Fine(format!("{count} contenders took it {taken} times, one at a time{looked}{stamps}")))
}

/// Nobody else has been let in meanwhile.
async fn alone(
    stage: &mut Stage<'_>,
    all: &[CheckedContender],
    doing: &[Doing],
    at: usize,
) -> Result<(), Trouble> {
    let others: Vec<u64> = doing
        .iter()
        .enumerate()
        .filter_map(
            |(other, one)| if let Doing::Waits(id) = one { (other != at).then_some(*id) } else { None },
        )
        .collect();
    let driver = stage.driver().await?;
    driver.listen(Duration::ZERO).await?;
    let Some((id, answered)) = driver.take_answer(&others) else { return Ok(()) };
    let other = doing.iter().position(|one| one.id() == Some(id)).map_or(0, |other| all[other].c);
    match &answered.answer.err {
        Some(_) => wrong(format!("contender {other} got `{}`", said(&answered.answer))),
        None => wrong(format!(
            "two inside at once: contender {other} was granted the lock while {} had it",
            all[at].c
        )),
    }
}

/// Whether stamps are told; they must then lie where the suite's do.
fn fits(answered: &Answered, is_one_clock: bool) -> Result<bool, Trouble> {
    let (Some(from), Some(to)) = (answered.answer.from, answered.answer.to) else { return Ok(false) };
    if from > to {
        return wrong(format!("`from` {from} is after `to` {to}"));
    }
    if is_one_clock && (from < answered.sent || to > answered.came) {
        return wrong(format!(
            "`clock` is `monotonic`, but {from} to {to} is not within {} to {}, when it was asked and had answered",
            answered.sent, answered.came
        ));
    }
    Ok(true)
}

fn grows(answered: &Answered, kind: TokenKind, last: &mut Option<i64>) -> Result<(), Trouble> {
    let token = answered.answer.ok.as_ref().and_then(|done| done.token.as_ref());
    let Some(token) = token.filter(|_| kind != TokenKind::None) else { return Ok(()) };
    match token.number() {
        Some(number) if last.is_none_or(|last| number > last) => *last = Some(number),
        Some(number) => return wrong(format!("the token {number} came after {last:?}: it has to grow")),
        None => return wrong(format!("the token {token:?} is no number")),
    }
    Ok(())
}

/// Contenders that queue up one after the other are served so.
pub(super) async fn order(stage: &mut Stage<'_>) -> Tried {
    needs(stage.abilities.order == Order::Fifo, "no order is declared")?;
    needs(stage.is_zookeeper, "it can't be seen who waits")?;
    let on = stage.place().await?;
    let holder = stage.open().await?;
    stage.takes(holder, &on).await?;
    let mut queue = Vec::new();
    for _ in 0..4 {
        let one = stage.open().await?;
        let asked = stage.asks(one, &on, WantedMode::Write, None).await?;
        if !stage.queues(one, &on).await? {
            return not_tried("a contender that waits has no node, so it can't be seen who came first");
        }
        queue.push((one, asked));
    }
    let mut inside = holder;
    for at in 0..queue.len() {
        stage.releases(inside, &on).await?;
        let ids: Vec<u64> = queue[at..].iter().map(|(_, id)| *id).collect();
        let (id, answered) = stage.driver().await?.first_answer(&ids, SOON).await?;
        was_done("`acquire`", answered)?;
        if id != queue[at].1 {
            return wrong(format!("`order` is `fifo`, and contender {} was overtaken", queue[at].0.c));
        }
        inside = queue[at].0;
    }
    stage.releases(inside, &on).await?;
    let all: Vec<CheckedContender> =
        std::iter::once(holder).chain(queue.iter().map(|(one, _)| *one)).collect();
    stage.done(&all).await?;
    Ok(CheckNote::Fine("4 that waited were served as they had come".into()))
}

/// Readers share it, and keep writers out.
pub(super) async fn readers(stage: &mut Stage<'_>) -> Tried {
    needs(stage.abilities.modes.contains(&WantedMode::Read), "has no mode `read`")?;
    let on = stage.place().await?;
    let (one, two) = stage.two().await?;
    let writer = stage.open().await?;
    for reader in [one, two] {
        let asked = stage.asks(reader, &on, WantedMode::Read, None).await?;
        stage.granted(asked, SOON).await?;
        stage.is_held(reader, &on, None).await?;
    }
    let asked = stage.asks(writer, &on, WantedMode::Write, None).await?;
    stays_out(stage, asked, "a writer was let in beside two readers").await?;
    stage.releases(one, &on).await?;
    stays_out(stage, asked, "a writer was let in beside a reader").await?;
    stage.releases(two, &on).await?;
    stage.granted(asked, SOON).await?;
    let reading = stage.asks(one, &on, WantedMode::Read, None).await?;
    stays_out(stage, reading, "a reader was let in beside a writer").await?;
    stage.releases(writer, &on).await?;
    stage.granted(reading, SOON).await?;
    stage.releases(one, &on).await?;
    stage.done(&[one, two, writer]).await?;
    Ok(CheckNote::Fine("two readers were inside together, and a writer alone".into()))
}

async fn stays_out(stage: &mut Stage<'_>, asked: u64, what: &str) -> Result<(), Trouble> {
    let driver = stage.driver().await?;
    driver.listen(STAYS_OUT).await?;
    match driver.take_answer(&[asked]) {
        Some((_, answered)) => was_done("`acquire`", answered).and_then(|_| wrong(what)),
        None => Ok(()),
    }
}

/// As many as it has leases for are inside, and no more.
pub(super) async fn leases(stage: &mut Stage<'_>) -> Tried {
    let Some(name) = stage.abilities.leases.clone() else {
        return not_tried("one at a time");
    };
    let on = stage.place().await?;
    let connect = stage.site.target.connect.clone();
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(stage.open_with(&connect, SOON, &[(name.as_str(), 2.into())]).await?);
    }
    for one in &all[..2] {
        stage.takes(*one, &on).await?;
        stage.is_held(*one, &on, None).await?;
    }
    let asked = stage.asks(all[2], &on, WantedMode::Write, None).await?;
    stays_out(stage, asked, "three were let in where there are two leases").await?;
    stage.releases(all[0], &on).await?;
    stage.granted(asked, SOON).await?;
    stage.releases(all[1], &on).await?;
    stage.releases(all[2], &on).await?;
    stage.done(&all).await?;
    Ok(CheckNote::Fine(format!("with `{name}` 2 two were inside, and a third had to wait")))
}

/// Its holder may take it again, and has it until it has released it as often.
pub(super) async fn again(stage: &mut Stage<'_>) -> Tried {
    needs(stage.abilities.reentrant, "not declared")?;
    let on = stage.place().await?;
    let (one, two) = stage.two().await?;
    stage.takes(one, &on).await?;
    stage.takes(one, &on).await?;
    let asked = stage.asks(two, &on, WantedMode::Write, None).await?;
    stage.releases(one, &on).await?;
    stays_out(stage, asked, "taken twice and released once, it was given to another").await?;
    stage.releases(one, &on).await?;
    stage.granted(asked, SOON).await?;
    stage.releases(two, &on).await?;
    stage.done(&[one, two]).await?;
    Ok(CheckNote::Fine("taken twice, it was free after the second release".into()))
}
