//! Fires the faults of a trial when their time has come, heals them when it is over, and tells what became of
//! them. However the trial ends, each fault that has fired is healed before this returns. One whose time never came
//! is told, too: a lock that was not broken has not shown that it stands it.
//!
//! Nothing in here limits how long doing or undoing takes: that would end it in the middle. Each wait of a fault has
//! a limit of its own. Only an interrupt cuts a fault short while it is being done, and then it is undone as a whole.

use std::time::Duration;

use futures_util::future::join_all;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

use super::reach::FaultReach;
use super::{Active, FaultEntry, Firing, outage, registry};
use crate::words::catalog::fault::{FaultChoice, Proof, Start};
use crate::words::clock::{self, Stamp};
use crate::words::units::counted;

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What is to be done, from when, and until when.
pub struct Schedule<'a> {
    pub faults: &'a [FaultChoice],
    /// Whether a fault, by its place, is done here when its turn comes for the n-th time: by one of several workers only.
    pub is_ours: &'a dyn Fn(usize, u32) -> bool,
    pub seed: u64,
    pub begin: Stamp,
    /// Ends it: nothing more fires, and what has fired is healed.
    pub stop: CancellationToken,
    /// Ends it soon: what is being done at that moment is not waited for, but cut short and undone.
    pub interrupt: CancellationToken,
    pub tell: &'a dyn Fn(&FaultChoice, News<'_>),
}

#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// It has been done to that target, and its effect was seen or not.
    Done(&'a str, &'a Proof),
    /// It was in effect no longer when it was to be undone, and why.
    Lost(&'a str),
    Undone,
    /// It could not be undone, and why.
    Left(&'a str),
}

/// One fault that has fired, or should have.
#[derive(Debug, Clone)]
pub struct Fired {
    pub fault: usize,
    pub target: String,
    /// When it was asked for; of one whose time never came, when it was given up.
    pub asked: Stamp,
    pub effective: Option<Stamp>,
    pub ended: Option<Stamp>,
    pub proof: Proof,
    pub left: Option<String>,
}

/// Fires all of them; what became of each, in the order of firing, without those that an interrupt kept from firing.
pub async fn run(schedule: &Schedule<'_>, reach: &FaultReach<'_>) -> Vec<Fired> {
    let firings = schedule.faults.iter().enumerate().flat_map(|(fault, choice)| {
        let ours = (0..choice.times).filter(move |time| (schedule.is_ours)(fault, *time));
        ours.map(move |time| fire(schedule, reach, fault, choice, time))
    });
    let mut shots: Vec<Shot<'_>> = join_all(firings).await.into_iter().flatten().collect();
    // When no other fault starts servers any more.
    for shot in shots.iter_mut().filter(|shot| shot.is_cut_short) {
        let healed = outage::undo_all(shot.entry.card.needs, reach).await;
        shot.ended(schedule, healed);
    }
    let mut fired: Vec<Fired> = shots.into_iter().map(|shot| shot.fired).collect();
    fired.sort_by_key(|one| one.asked);
    fired
}

struct Shot<'a> {
    choice: &'a FaultChoice,
    entry: &'static FaultEntry,
    fired: Fired,
    is_cut_short: bool,
}

async fn fire<'a>(
    schedule: &Schedule<'a>,
    reach: &FaultReach<'_>,
    fault: usize,
    choice: &'a FaultChoice,
    time: u32,
) -> Option<Shot<'a>> {
    let mut draw = ChaCha8Rng::seed_from_u64(schedule.seed ^ ((fault as u64) << 32) ^ u64::from(time));
    let put_off = choice.every * time + choice.jitter.mul_f64(draw.random::<f64>());
    let entry = registry::find(&choice.kind)?;
    let due = due(schedule.begin, choice.start, put_off, reach);
    let comes = schedule.stop.run_until_cancelled(due).await.is_some();
    let mut shot = Shot::at(fault, choice, entry);
    if !comes {
        if schedule.interrupt.is_cancelled() {
            return None;
        }
        shot.failed(schedule, why_never(choice.start, reach));
        return Some(shot);
    }
    match schedule.interrupt.run_until_cancelled((entry.inject)(Firing { choice, reach, draw })).await {
        Some(Ok(active)) => shot.lasts(schedule, active).await,
        Some(Err(why)) => shot.failed(schedule, why),
        None => {
            shot.is_cut_short = true;
            shot.failed(schedule, "the run was interrupted while it was being done".into());
        }
    }
    Some(shot)
}

impl<'a> Shot<'a> {
    fn at(fault: usize, choice: &'a FaultChoice, entry: &'static FaultEntry) -> Self {
        let fired = Fired {
            fault,
            target: "nobody".into(),
            asked: clock::now(),
            effective: None,
            ended: None,
            proof: Proof::NotProved("it was not done".into()),
            left: None,
        };
        Self { choice, entry, fired, is_cut_short: false }
    }

    async fn lasts(&mut self, schedule: &Schedule<'_>, active: Active<'_>) {
        let effective = active.seen_at.unwrap_or_else(clock::now);
        self.fired.effective = matches!(active.proof, Proof::Proved(_)).then_some(effective);
        self.fired.target = active.target;
        self.fired.proof = active.proof;
        (schedule.tell)(self.choice, News::Done(&self.fired.target, &self.fired.proof));
        if let Some(duration) = self.choice.duration {
            // From its effect on: it may have taken a while until one was what the target says.
            let end = effective + clock::micros(duration);
            let left = Duration::from_micros(end.saturating_sub(clock::now()));
            schedule.stop.run_until_cancelled(tokio::time::sleep(left)).await;
        }
        // Nothing waits for a look when all is to end at once.
        if let Some(Err(why)) = schedule.interrupt.run_until_cancelled(active.still).await {
            self.was_lost(schedule, &why);
        }
        let healed = active.healing.await;
        self.ended(schedule, healed);
    }

    /// What was seen to take effect was in effect no longer when it was to be undone.
    fn was_lost(&mut self, schedule: &Schedule<'_>, why: &str) {
        if let Proof::Proved(seen) = &self.fired.proof {
            (schedule.tell)(self.choice, News::Lost(why));
            self.fired.proof = Proof::NotProved(format!("{seen}; but not until its end: {why}"));
        }
    }

    fn failed(&mut self, schedule: &Schedule<'_>, why: String) {
        self.fired.proof = Proof::NotProved(why);
        (schedule.tell)(self.choice, News::Done(&self.fired.target, &self.fired.proof));
    }

    fn ended(&mut self, schedule: &Schedule<'_>, healed: Result<(), String>) {
        match &healed {
            Ok(()) => (schedule.tell)(self.choice, News::Undone),
            Err(why) => (schedule.tell)(self.choice, News::Left(why)),
        }
        self.fired.ended = healed.is_ok().then(clock::now);
        self.fired.left = healed.err();
    }
}

async fn due(begin: Stamp, start: Start, put_off: Duration, reach: &FaultReach<'_>) {
    match start {
        Start::At(at) => {
            let due = begin + clock::micros(at + put_off);
            tokio::time::sleep(Duration::from_micros(due.saturating_sub(clock::now()))).await;
        }
        Start::AfterAcquisitions(wanted) => {
            while reach.contenders.acquired() < wanted {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            tokio::time::sleep(put_off).await;
        }
    }
}

fn why_never(start: Start, reach: &FaultReach<'_>) -> String {
    let acquired = reach.contenders.acquired();
    match start {
        Start::AfterAcquisitions(wanted) if acquired < wanted => {
            format!(
                "it never fired: the load was over after {acquired} of the {} it waits for",
                counted(wanted, "acquisition", "acquisitions")
            )
        }
        _ => "it never fired: the load was over before its time had come".into(),
    }
}
