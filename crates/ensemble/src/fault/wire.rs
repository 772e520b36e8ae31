//! What faults of the links between contenders and servers have in common: whose connections they are, what is
//! seen of them, and how one message is lost.

use std::cell::RefCell;
use std::ops::Add;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::aim::{self, only_if, proof};
use super::reach::FaultReach;
use super::{Active, Firing};
use crate::eventually;
use crate::proxy::{Guard, LostMessage, Passed, Proxy, Settings, Struck, Waits, Who};
use zklockbench_core::catalog::fault::{FaultChoice, Proof, Target};
use zklockbench_core::catalog::{Param, ParamKind, ParamValue};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::counted;

/// Whose connections are hit, and how outputs call them.
pub struct Hit<'a> {
    pub proxy: &'a Proxy,
    pub who: Vec<Who>,
    /// `contender 3 (holder)`.
    pub name: String,
}

pub async fn aim_at<'a>(
    choice: &FaultChoice,
    reach: &FaultReach<'a>,
    draw: &mut ChaCha8Rng,
) -> Result<Hit<'a>, String> {
    let proxy = reach.proxy()?;
    let hit = aim::contenders(&choice.target, reach, draw).await?;
    let name = aim::name(&hit, &choice.target);
    if choice.target == Target::Word("all") {
        return Ok(Hit { proxy, who: vec![Who::All], name });
    }
    // By contender: what hits a session ends with it, though the contender goes on with another.
    Ok(Hit { proxy, who: hit.into_iter().map(Who::Client).collect(), name })
}

/// What has passed for those that are hit, from some moment on.
#[derive(Clone)]
pub struct Since<'a> {
    proxy: &'a Proxy,
    who: Vec<Who>,
    before: Passed,
    connections: usize,
    begun: Stamp,
}

impl<'a> Since<'a> {
    fn now(proxy: &'a Proxy, who: &[Who]) -> Self {
        let before = Self::counted(proxy, who);
        let connections = who.iter().map(|who| proxy.connections(*who)).sum();
        Self { proxy, who: who.to_vec(), before, connections, begun: clock::now() }
    }

    fn counted(proxy: &Proxy, who: &[Who]) -> Passed {
        who.iter().map(|who| proxy.counted(*who)).fold(Passed::default(), Passed::add)
    }

    /// What was kept back by the proxy, and has passed.
    pub fn kept(&self) -> Waits {
        Self::counted(self.proxy, &self.who).kept - self.before.kept
    }

    /// What a slow reader was late for.
    pub fn unread(&self) -> Waits {
        Self::counted(self.proxy, &self.who).unread - self.before.unread
    }

    pub fn bytes(&self) -> u64 {
        let Passed { to_server, to_client, .. } = Self::counted(self.proxy, &self.who);
        to_server + to_client - self.before.to_server - self.before.to_client
    }

    pub fn lasts(&self) -> Duration {
        Duration::from_micros(clock::now() - self.begun)
    }

    /// How many connections there have been: those at the beginning, and those that came.
    pub fn connections(&self) -> u64 {
        let came = Self::counted(self.proxy, &self.who).connections - self.before.connections;
        self.connections as u64 + came
    }
}

/// What a measurement of that which has passed says; nothing where nothing has.
pub type Measured = Option<Result<String, String>>;

/// Sets something for each of them, until it is healed. Proved by what is measured of that which passes from then on, which
/// is done once more before it is healed. While servers are down nothing may pass.
pub async fn set<'a>(
    hit: Hit<'a>,
    setting: impl Fn(&Proxy, Who) -> Guard,
    measure: impl Fn(&Since<'a>) -> Measured + 'a,
) -> Active<'a> {
    let Hit { proxy, who, name } = hit;
    let guards: Vec<Guard> = who.iter().map(|who| setting(proxy, *who)).collect();
    let since = RefCell::new(Since::now(proxy, &who));
    let passing = || async {
        let is_in_the_way = |setting: &Settings| setting.refused || setting.stalled;
        if who.iter().all(|who| is_in_the_way(&proxy.in_force(*who))) {
            return Ok("in force once another fault lets data pass".to_owned());
        }
        let measured = measure(&since.borrow());
        match measured {
            Some(Err(why)) => {
                // Something may have been on its way when it was set.
                since.replace(Since::now(proxy, &who));
                Err(why)
            }
            Some(seen) => seen,
            None => Err("nothing passed".to_owned()),
        }
    };
    let seen = eventually(aim::PATIENCE, passing).await;
    let since = since.into_inner();
    let still = async move { measure(&since).unwrap_or(Ok(String::new())).map(drop) };
    Active::until_dropped(name, proof(seen), guards).still_if(still)
}

/// Whether what waited did so for that long at least, on average.
pub fn waited(waits: Waits, least: Duration, what: &str) -> Measured {
    let mean = waits.mean()?;
    let told =
        format!("{} {what} {mean:.1?} late on average", counted(waits.times, "message was", "messages were"));
    Some(if mean >= least { Ok(told) } else { Err(told) })
}

/// From now until the look, nothing gets through.
pub fn nothing_passes(proxy: &Proxy, who: Vec<Who>) -> impl Future<Output = Result<(), String>> {
    let passed = move || -> Vec<(u64, u64)> { who.iter().map(|who| proxy.passed(*who)).collect() };
    let before = passed();
    async move { only_if(passed() == before, "something passed meanwhile") }
}

pub fn time(choice: &FaultChoice, name: &str) -> Duration {
    match choice.params.get(name) {
        Some(ParamValue::Duration(time)) => *time,
        _ => Duration::ZERO,
    }
}

/// Which request `drop-request` and `drop-reply` hit.
pub const REQUEST: Param = Param {
    name: "request",
    kind: ParamKind::OneOf(&["create", "delete", "multi", "join", "release", "list", "watch"]),
    default: "create",
    doc: "",
};

/// How long the contender may take until it sends such a request.
const WAITS_FOR: Duration = Duration::from_secs(30);

/// Has the proxy lose one message of the contender's next request of that kind, and waits until it is lost.
pub async fn lose(
    Firing { choice, reach, mut draw }: Firing<'_>,
    order: impl Fn(&Proxy, Who, &[RequestKind]) -> LostMessage,
    tell: impl Fn(&Struck) -> String,
) -> Result<Active<'_>, String> {
    let hit = aim_at(choice, reach, &mut draw).await?;
    let [who @ Who::Client(_)] = hit.who[..] else { return Err("it takes one contender".into()) };
    let word = match choice.params.get(REQUEST.name) {
        Some(ParamValue::Word(word)) => word.as_str(),
        _ => REQUEST.default,
    };
    let loss = order(hit.proxy, who, requests(word));
    let proof = match tokio::time::timeout(WAITS_FOR, loss.strikes()).await {
        Ok(struck) => Proof::Proved(tell(&struck)),
        Err(_) => Proof::NotProved(format!("no such request came within {WAITS_FOR:?}")),
    };
    Ok(Active::over(hit.name, proof))
}

/// The requests that a fault with that word for [`REQUEST`] hits.
pub fn requests(word: &str) -> &'static [RequestKind] {
    match word {
        "delete" => &[RequestKind::Delete],
        "multi" => &[RequestKind::Multi],
        "join" => &[RequestKind::Create, RequestKind::Multi],
        "release" => &[RequestKind::Delete, RequestKind::Multi],
        "list" => &[RequestKind::GetChildren, RequestKind::GetChildrenWatch],
        "watch" => &[RequestKind::GetDataWatch, RequestKind::ExistsWatch, RequestKind::GetChildrenWatch],
        _ => &[RequestKind::Create],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_delay_is_proved_by_how_long_messages_were_kept_back_and_by_nothing_else() {
        let measured = |times, lasted| waited(Waits { times, lasted }, 5 * MS, "passed on");
        assert_eq!(measured(0, Duration::ZERO), None, "nothing passed");
        assert_eq!(measured(4, 20 * MS), Some(Ok("4 messages were passed on 5.0ms late on average".into())));
        assert_eq!(measured(1, 4 * MS), Some(Err("1 message was passed on 4.0ms late on average".into())));
    }
}
