//! Shared code for connection faults: targets, measurements and dropped messages.

use std::cell::RefCell;
use std::ops::Add;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::aim::{self, only_if, proof};
use super::reach::FaultReach;
use super::{Active, Contenders, Firing};
use crate::eventually;
use crate::proxy::{Guard, LostMessage, Passed, Proxy, Settings, Struck, Waits, Who};
use zklockbench_core::catalog::fault::{FaultChoice, Proof, Target};
use zklockbench_core::catalog::{Param, ParamKind};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::counted;

/// Contenders targeted by a fault. All their connections must pass through the proxy.
pub struct Hit<'a> {
    pub proxy: &'a Proxy,
    pub who: Vec<Who>,
    /// Display name, e.g. `contender 3 (holder)`.
    pub name: String,
    contenders: Vec<usize>,
    seen: &'a dyn Contenders,
}

impl Hit<'_> {
    /// Returns the bytes passed on so far for each target, to servers and to clients.
    pub fn passed(&self) -> Vec<(u64, u64)> {
        self.who.iter().map(|who| self.proxy.passed(*who)).collect()
    }

    /// Fails if any of these contenders is known to bypass the proxy.
    fn check(&self) -> Result<(), String> {
        match self.contenders.iter().find(|contender| self.seen.bypasses(**contender, self.proxy)) {
            None => Ok(()),
            Some(contender) => Err(format!(
                "contender {contender} does not connect through its proxy: its client uses addresses that \
                 it was not given, such as those in the ensemble's configuration"
            )),
        }
    }
}

pub async fn aim_at<'a>(
    choice: &FaultChoice,
    reach: &FaultReach<'a>,
    draw: &mut ChaCha8Rng,
) -> Result<Hit<'a>, String> {
    let proxy = reach.proxy()?;
    let contenders = aim::contenders(&choice.target, reach, draw).await?;
    let name = aim::name(&contenders, &choice.target);
    let who = match choice.target {
        Target::Word("all") => vec![Who::All],
        // Target the contender, not its session: the setting must apply to its next session, too.
        _ => contenders.iter().copied().map(Who::Client).collect(),
    };
    let hit = Hit { proxy, who, name, contenders, seen: reach.contenders };
    hit.check().map(|()| hit)
}

/// Traffic of the targets since a point in time.
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

    /// Returns the waits of messages that the proxy held back and then forwarded.
    pub fn kept(&self) -> Waits {
        let Passed { to_server, .. } = Self::counted(self.proxy, &self.who);
        let mut all = self.kept_replies();
        all += to_server.kept - self.before.to_server.kept;
        all
    }

    /// Like [`Since::kept`], but only for replies and notifications.
    pub fn kept_replies(&self) -> Waits {
        Self::counted(self.proxy, &self.who).to_client.kept - self.before.to_client.kept
    }

    pub fn bytes(&self) -> u64 {
        let all = |passed: Passed| passed.to_server.bytes + passed.to_client.bytes;
        all(Self::counted(self.proxy, &self.who)) - all(self.before)
    }

    pub fn lasts(&self) -> Duration {
        Duration::from_micros(clock::now() - self.begun)
    }

    /// Returns the number of connections that were open at the start or have been opened since.
    pub fn connections(&self) -> u64 {
        let came = Self::counted(self.proxy, &self.who).connections - self.before.connections;
        self.connections as u64 + came
    }
}

/// Result of a measurement; `None` if no data has passed.
pub type Measured = Option<Result<String, String>>;

/// Applies a setting to each target until the fault is healed. The proof is a measurement of later traffic,
/// repeated just before healing. While servers are down, there may be no traffic.
pub async fn set<'a>(
    hit: Hit<'a>,
    setting: impl Fn(&Proxy, Who) -> Guard,
    measure: impl Fn(&Since<'a>) -> Measured + 'a,
) -> Active<'a> {
    let guards: Vec<Guard> = hit.who.iter().map(|who| setting(hit.proxy, *who)).collect();
    let since = RefCell::new(Since::now(hit.proxy, &hit.who));
    let passing = || async {
        let is_in_the_way = |setting: &Settings| setting.refused || setting.stalled;
        if hit.who.iter().all(|who| is_in_the_way(&hit.proxy.in_force(*who))) {
            return Ok("in effect once no other fault blocks the data".to_owned());
        }
        let measured = measure(&since.borrow());
        match measured {
            Some(Err(why)) => {
                // A message may have been in flight when the setting was applied.
                since.replace(Since::now(hit.proxy, &hit.who));
                Err(why)
            }
            Some(seen) => seen,
            None => Err("nothing passed".to_owned()),
        }
    };
    let seen = eventually(aim::PATIENCE, passing).await;
    let (since, name) = (since.into_inner(), hit.name.clone());
    let still = async move {
        hit.check()?;
        measure(&since).unwrap_or(Ok(String::new())).map(drop)
    };
    Active::until_dropped(name, proof(seen), guards).still_if(still)
}

/// Checks that the messages waited at least this long on average.
pub fn waited(waits: Waits, least: Duration, what: &str) -> Measured {
    let mean = waits.mean()?;
    let told =
        format!("{} {what} {mean:.1?} late on average", counted(waits.times, "message was", "messages were"));
    Some(if mean >= least { Ok(told) } else { Err(told) })
}

/// Returns a check that no data has passed since this call and that no contender bypasses the proxy.
pub fn nothing_passes(hit: Hit<'_>) -> impl Future<Output = Result<(), String>> {
    let before = hit.passed();
    async move {
        hit.check()?;
        only_if(hit.passed() == before, "data passed in the meantime")
    }
}

/// Kind of request that `drop-request` and `drop-reply` affect.
pub const REQUEST: Param = Param {
    name: "request",
    kind: ParamKind::OneOf(&["create", "delete", "multi", "join", "release", "list", "watch"]),
    default: "create",
    doc: "",
};

/// Timeout for the contender to send a matching request.
const WAITS_FOR: Duration = Duration::from_secs(30);

/// Makes the proxy drop the contender's next matching request or its reply, and waits for that to happen.
pub async fn lose(
    Firing { choice, reach, mut draw }: Firing<'_>,
    order: impl Fn(&Proxy, Who, &[RequestKind]) -> LostMessage,
    tell: impl Fn(&Struck) -> String,
) -> Result<Active<'_>, String> {
    let hit = aim_at(choice, reach, &mut draw).await?;
    let [who @ Who::Client(_)] = hit.who[..] else {
        return Err("the fault needs exactly one contender".into());
    };
    let loss = order(hit.proxy, who, requests(choice.word(REQUEST.name)));
    let proof = match tokio::time::timeout(WAITS_FOR, loss.strikes()).await {
        Ok(struck) => Proof::Proved(tell(&struck)),
        Err(_) => Proof::NotProved(format!("no matching request was sent within {WAITS_FOR:?}")),
    };
    Ok(Active::over(hit.name, proof))
}

/// Returns the kinds of request that a value of [`REQUEST`] selects.
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
    fn mean_delay_of_messages_proves_a_delay() {
        let measured = |times, lasted| waited(Waits { times, lasted }, 5 * MS, "forwarded");
        assert_eq!(measured(0, Duration::ZERO), None, "nothing passed");
        assert_eq!(measured(4, 20 * MS), Some(Ok("4 messages were forwarded 5.0ms late on average".into())));
        assert_eq!(measured(1, 4 * MS), Some(Err("1 message was forwarded 4.0ms late on average".into())));
    }
}
