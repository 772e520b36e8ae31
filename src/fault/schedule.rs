//! Fires the faults of a trial when their time has come, heals them when it is over, and tells what became of
//! them. However the trial ends, each fault that has fired is healed before this returns.

use std::time::Duration;

use futures_util::future::join_all;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

use super::registry;
use super::site::Site;
use crate::catalog::fault::{FaultChoice, Proof, Start};
use crate::clock::{self, Stamp};

/// How long doing or undoing a fault may take. A server that starts again on a slow host takes a while.
const AT_MOST: Duration = Duration::from_secs(240);
/// How closely acquisitions are counted.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is to be done, from when, and until when.
pub struct Schedule<'a> {
    /// The faults.
    pub faults: &'a [FaultChoice],
    /// The trial's seed.
    pub seed: u64,
    /// The begin of the measured phase.
    pub begin: Stamp,
    /// Ends it: nothing more fires, and what has fired is healed.
    pub stop: CancellationToken,
}

/// One fault that has fired.
#[derive(Debug, Clone)]
pub struct Fired {
    /// Its place among the scenario's faults.
    pub fault: usize,
    /// Whom it hit.
    pub target: String,
    /// When it was asked for.
    pub asked: Stamp,
    /// When its effect was seen.
    pub effective: Option<Stamp>,
    /// When it was undone.
    pub ended: Option<Stamp>,
    /// Whether its effect was seen.
    pub proof: Proof,
    /// Why it could not be undone.
    pub left: Option<String>,
}

/// Fires all of them; returns those that have fired, in the order of firing.
pub async fn run(schedule: &Schedule<'_>, site: &Site<'_>) -> Vec<Fired> {
    let firings = schedule.faults.iter().enumerate().flat_map(|(fault, choice)| {
        (0..choice.times).map(move |time| fire(schedule, site, (fault, choice), time))
    });
    let mut fired: Vec<Fired> = join_all(firings).await.into_iter().flatten().collect();
    fired.sort_by_key(|one| one.asked);
    fired
}

async fn fire(
    schedule: &Schedule<'_>,
    site: &Site<'_>,
    (fault, choice): (usize, &FaultChoice),
    time: u32,
) -> Option<Fired> {
    let mut draw = ChaCha8Rng::seed_from_u64(schedule.seed ^ ((fault as u64) << 32) ^ u64::from(time));
    let put_off = choice.every * time + choice.jitter.mul_f64(draw.random::<f64>());
    schedule.stop.run_until_cancelled(due(schedule.begin, choice.start, put_off, site)).await?;
    let asked = clock::now();
    let mut fired = Fired {
        fault,
        target: "nobody".into(),
        asked,
        effective: None,
        ended: None,
        proof: Proof::NotProved("it was not done".into()),
        left: None,
    };
    let entry = registry::find(&choice.kind)?;
    let injected = tokio::time::timeout(AT_MOST, (entry.inject)(choice, site, draw)).await;
    let active = match injected.unwrap_or_else(|_| Err(format!("not done within {AT_MOST:?}"))) {
        Ok(active) => active,
        Err(why) => {
            fired.proof = Proof::NotProved(why);
            return Some(fired);
        }
    };
    let effective = active.seen_at.unwrap_or_else(clock::now);
    fired.effective = matches!(active.proof, Proof::Proved(_)).then_some(effective);
    fired.target = active.target;
    fired.proof = active.proof;
    if let Some(duration) = choice.duration {
        // From its effect on: it may have taken a while until somebody was what the target says.
        let left = Duration::from_micros((effective + clock::micros(duration)).saturating_sub(clock::now()));
        schedule.stop.run_until_cancelled(tokio::time::sleep(left)).await;
    }
    match tokio::time::timeout(AT_MOST, active.healing).await {
        Ok(Ok(())) => fired.ended = Some(clock::now()),
        Ok(Err(why)) => fired.left = Some(why),
        Err(_) => fired.left = Some(format!("not undone within {AT_MOST:?}")),
    }
    Some(fired)
}

/// Returns when a fault is due.
async fn due(begin: Stamp, start: Start, put_off: Duration, site: &Site<'_>) {
    match start {
        Start::At(at) => {
            let due = begin + clock::micros(at + put_off);
            tokio::time::sleep(Duration::from_micros(due.saturating_sub(clock::now()))).await;
        }
        Start::AfterAcquisitions(wanted) => {
            while site.contenders.acquired() < wanted {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            tokio::time::sleep(put_off).await;
        }
    }
}
