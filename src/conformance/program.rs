//! What is checked of a driver's program, whatever locks it has.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::conversation::{Answered, Conversation, monotonic};
use super::stage::SOON;
use super::{CheckNote, Tried, wrong};
use zklockbench_locks::driver::{DriverCommand, how};
use zklockbench_zk::reactor;

const ECHOES: usize = 2_000;
/// More than what stays in a buffer of 64 KiB.
const FILLS_A_BUFFER: usize = 3_000;
const BY_HAND_WITHIN: Duration = Duration::from_secs(15);

/// A process that ends with what it has started when nobody looks at it any more.
struct ByHand(Child);

impl Drop for ByHand {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Started by hand, without a suite, it says what it is and ends.
pub(super) async fn by_hand(command: &DriverCommand) -> Tried {
    let mut started = Command::new(&command.program);
    started.args(&command.arguments).env_remove("ZKLOCKBENCH_DRIVER").process_group(0);
    started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match started.spawn() {
        Ok(child) => ByHand(child),
        Err(error) => return wrong(format!("can't be started: {error}")),
    };
    let until = monotonic() + zklockbench_core::clock::micros(BY_HAND_WITHIN);
    loop {
        match child.0.try_wait() {
            Ok(Some(status)) if status.code() == Some(2) => {
                return Ok(CheckNote::Fine("exit status 2".into()));
            }
            Ok(Some(status)) => {
                return Ok(CheckNote::Better(format!("{} without ZKLOCKBENCH_DRIVER, not 2", how(status))));
            }
            _ if monotonic() >= until => {
                return Ok(CheckNote::Better(format!("still runs {} s later", BY_HAND_WITHIN.as_secs())));
            }
            _ => reactor::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Whether an answer comes before there are so many that they fill a buffer.
pub(super) async fn flushes(driver: &mut Conversation) -> Tried {
    let asked = driver.ask("an echo", json!({ "t": "echo" }));
    let Err(trouble) = driver.answer(asked, Duration::from_secs(3)).await else {
        let before = match driver.foreign {
            0 => String::new(),
            some => format!("; {some} other lines came before `ready`"),
        };
        return Ok(CheckNote::Fine(format!("an answer comes by itself{before}")));
    };
    for _ in 0..FILLS_A_BUFFER {
        driver.ask("an echo", json!({ "t": "echo" }));
    }
    match driver.answer(asked, Duration::from_secs(3)).await {
        Ok(_) => {
            wrong(format!("the answer to an echo came only after {FILLS_A_BUFFER} more: it was not flushed"))
        }
        Err(_) => Err(trouble),
    }
}

pub(super) async fn unknown_field(driver: &mut Conversation) -> Tried {
    let asked = driver.ask("an echo with a field more", json!({ "t": "echo", "later": { "than": [1] } }));
    let answered = driver.answer(asked, SOON).await?.answer;
    match answered.err {
        Some(word) => wrong(format!("a field that it does not know made it answer `{word}`")),
        None => Ok(CheckNote::Fine("ignored".into())),
    }
}

pub(super) async fn unknown_request(driver: &mut Conversation) -> Tried {
    let asked = driver.ask("a request that no version has", json!({ "t": "tomorrow" }));
    let answered = driver.answer(asked, SOON).await?.answer;
    match answered.err.as_deref() {
        Some("unsupported") => Ok(CheckNote::Fine("`unsupported`".into())),
        other => wrong(format!("answered with `{}`", other.unwrap_or("ok"))),
    }
}

/// How long echoes take, and whether the driver's clock is the suite's. With `c` they are the contender's own.
pub(super) async fn echoes(driver: &mut Conversation, c: Option<usize>) -> Tried {
    let mut trips = Vec::with_capacity(ECHOES);
    let (mut told, mut fits) = (0, 0);
    for _ in 0..ECHOES {
        let request = c.map_or_else(|| json!({ "t": "echo" }), |c| json!({ "t": "echo", "c": c }));
        let asked = driver.ask("an echo", request);
        let Answered { answer, sent, came } = driver.answer(asked, SOON).await?;
        let Some(done) = answer.ok else {
            return wrong(format!("an echo failed: {}", super::stage::said(&answer)));
        };
        trips.push(came.saturating_sub(sent));
        if let Some(now) = done.now {
            told += 1;
            fits += usize::from((sent..=came).contains(&now));
        }
    }
    trips.sort_unstable();
    let (p50, p99) = (trips[ECHOES / 2], trips[ECHOES * 99 / 100]);
    let times = format!("{ECHOES} echoes: p50 {p50} µs, p99 {p99} µs");
    let clock = match (told, fits) {
        (0, _) => "; no clock is told".to_owned(),
        (_, fits) if fits == ECHOES => "; its clock is this host's monotonic one".to_owned(),
        (_, fits) if driver.declared["clock"] == "monotonic" => {
            return wrong(format!(
                "`clock` is `monotonic`, and `now` lay between sending and answer in {fits} of {ECHOES} echoes only"
            ));
        }
        (_, fits) => format!("; its clock fits in {fits} of them"),
    };
    Ok(CheckNote::Fine(times + &clock))
}

/// What is left of it when it has ended.
async fn left(driver: &mut Conversation) -> Result<(), super::Trouble> {
    // Those that are being killed need a moment.
    let until = monotonic() + 1_000_000;
    loop {
        let left: Vec<String> =
            driver.family.look().into_iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
        match left.as_slice() {
            [] => return Ok(()),
            some if monotonic() >= until => {
                return wrong(format!("it has ended and left behind: {}", some.join(", ")));
            }
            _ => reactor::sleep(Duration::from_millis(20)).await,
        }
    }
}

pub(super) async fn exits(driver: &mut Conversation, doing: &str) -> Tried {
    driver.family.look();
    let began = monotonic();
    let Some(status) = driver.end_input(Duration::from_secs(5)).await else {
        return wrong(format!("still runs 5 s after the end of its input, {doing}"));
    };
    let took = (monotonic() - began) / 1_000;
    left(driver).await?;
    Ok(CheckNote::Fine(format!("{} after {took} ms, {doing}; no process is left", how(status))))
}

pub(super) async fn is_killed(driver: &mut Conversation) -> Tried {
    driver.family.look();
    driver.kill();
    if driver.exits(Duration::from_secs(2)).await.is_none() {
        return wrong("SIGKILL of its process group did not end it");
    }
    left(driver).await?;
    Ok(CheckNote::Fine("SIGKILL of its process group leaves no process".into()))
}

/// Whether what it declares of its locks can be shown and asked for.
pub(super) async fn declares(driver: &mut Conversation) -> Tried {
    let known = ["t", "v", "driver", "inside", "system", "locks", "contenders", "session", "clock", "tls"];
    let fields = driver.declared.as_object().into_iter().flat_map(|fields| fields.keys());
    let unknown: Vec<&str> = fields.map(String::as_str).filter(|field| !known.contains(field)).collect();
    let locks: Vec<&str> = driver.ready.locks.keys().map(String::as_str).collect();
    let of_locks = locks.join(", ");
    for (name, abilities) in &driver.ready.locks {
        if abilities.modes.is_empty() {
            return wrong(format!("`{name}` has no mode"));
        }
        if let Some(leases) = abilities.leases.as_ref().filter(|leases| {
            !abilities.parameters.get(*leases).is_some_and(|parameter| parameter.default.is_u64())
        }) {
            return wrong(format!(
                "`leases` of `{name}` is `{leases}`, which is no number among its parameters"
            ));
        }
    }
    if driver.ready.contenders == 0 {
        return wrong("it takes 0 contenders");
    }
    for field in ["tls", "clock"] {
        let fits = |value: &Value| if field == "clock" { value.is_string() } else { value.is_boolean() };
        if driver.declared.get(field).is_some_and(|value| !fits(value)) {
            return wrong(format!("`{field}` can't be {}", driver.declared[field]));
        }
    }
    match unknown.as_slice() {
        [] => Ok(CheckNote::Fine(format!("locks: {of_locks}"))),
        some => {
            Ok(CheckNote::Better(format!("locks: {of_locks}; fields that mean nothing: {}", some.join(", "))))
        }
    }
}
