//! Injects a trial's faults on schedule, heals them, and reports each outcome. Every injected fault is healed
//! before `run` returns, however the trial ends. A fault is proved only if it was in effect for its planned
//! time under load.
//!
//! No fault is injected after the load has ended. Unfinished injections into contenders or connections are
//! then dropped, which ends their effects. An injection into servers runs to completion within its timeouts; only an
//! interrupt cancels it, and all effects on servers are then healed.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::join_all;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::reach::{FaultReach, LOAD_ENDED};
use super::{Active, FaultEntry, Firing, outage, registry};
use zklockbench_core::catalog::fault::{FaultChoice, Proof, Start};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::units::{counted, format_duration};

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Maximum shortfall in the duration of a proved fault: a fraction of its planned time, up to a limit.
const TOLERANCE: f64 = 0.05;
const TOLERANCE_AT_MOST: Duration = Duration::from_millis(100);

/// A trial's faults, and the period during which they may be active.
pub struct Schedule<'a> {
    pub faults: &'a [FaultChoice],
    /// Whether this worker injects the n-th occurrence of the fault with this index. Exactly one worker does so.
    pub is_ours: &'a dyn Fn(usize, u32) -> bool,
    pub seed: u64,
    pub begin: Stamp,
    /// Cancelled at the end of the load: no more faults are injected, and active faults are healed.
    pub stop: CancellationToken,
    /// Cancelled by an interrupt: injections in progress are aborted and healed.
    pub interrupt: CancellationToken,
    pub tell: &'a dyn Fn(&FaultChoice, News<'_>),
}

#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// The fault was injected into this target, with or without proof.
    Done(&'a str, &'a Proof),
    /// The fault was not in effect for its planned time; contains the reason.
    Lost(&'a str),
    Undone,
    /// The fault could not be healed; contains the reason.
    Left(&'a str),
}

impl Schedule<'_> {
    fn tells(&self, choice: &FaultChoice, news: News<'_>) {
        let label = &choice.label;
        match news {
            News::Done(target, Proof::Proved(how)) => info!("fault `{label}`: in effect on {target}: {how}"),
            News::Done(target, Proof::NotProved(why)) => {
                info!("fault `{label}`: no effect on {target}: {why}")
            }
            News::Lost(why) => info!("fault `{label}`: ended early: {why}"),
            News::Undone => info!("fault `{label}`: healed"),
            News::Left(why) => info!("fault `{label}`: not healed: {why}"),
        }
        (self.tell)(choice, news);
    }
}

/// Outcome of a fault that was injected, or should have been.
#[derive(Debug, Clone)]
pub struct Fired {
    pub fault: usize,
    pub target: String,
    /// Time of the injection or, for a fault that never fired, the end of the wait for its start.
    pub asked: Stamp,
    pub effective: Option<Stamp>,
    pub ended: Option<Stamp>,
    pub proof: Proof,
    pub left: Option<String>,
}

/// Injects all faults. Returns the outcomes in order of injection. Faults that an interrupt prevented have no
/// outcome.
pub async fn run(schedule: &Schedule<'_>, reach: &FaultReach<'_>) -> Vec<Fired> {
    let load_ended = Cell::new(None);
    let firings = schedule.faults.iter().enumerate().flat_map(|(fault, choice)| {
        let ours = (0..choice.times).filter(move |time| (schedule.is_ours)(fault, *time));
        let load_ended = &load_ended;
        ours.map(move |time| fire(schedule, reach, load_ended, fault, choice, time))
    });
    let load_ends = async {
        schedule.stop.cancelled().await;
        load_ended.set(Some(clock::now()));
        reach.in_effect.load_ends();
        std::future::pending::<()>().await;
    };
    let shots = tokio::select! {
        biased;
        () = load_ends => Vec::new(),
        shots = join_all(firings) => shots,
    };
    let mut shots: Vec<Shot<'_>> = shots.into_iter().flatten().collect();
    // At this point, no other fault starts servers.
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
    load_ended: &Cell<Option<Stamp>>,
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
    info!("fault `{}`: injecting", choice.label);
    let inject = (entry.inject)(Firing { choice, reach, draw });
    let inject = async {
        // Dropping the injection ends its effects, except on servers, which must be left in a known state.
        if entry.card.needs.reaches_servers() {
            return inject.await;
        }
        let injected = schedule.stop.run_until_cancelled(inject).await;
        injected.unwrap_or_else(|| Err(format!("{LOAD_ENDED} before it took effect")))
    };
    match schedule.interrupt.run_until_cancelled(inject).await {
        Some(Ok(active)) => shot.lasts(schedule, active, load_ended).await,
        Some(Err(why)) => shot.failed(schedule, why),
        None => {
            shot.is_cut_short = true;
            shot.failed(schedule, "the run was interrupted during the injection".into());
        }
    }
    Some(shot)
}

impl<'a> Shot<'a> {
    fn at(fault: usize, choice: &'a FaultChoice, entry: &'static FaultEntry) -> Self {
        let fired = Fired {
            fault,
            target: "none".into(),
            asked: clock::now(),
            effective: None,
            ended: None,
            proof: Proof::NotProved("the fault was not injected".into()),
            left: None,
        };
        Self { choice, entry, fired, is_cut_short: false }
    }

    async fn lasts(&mut self, schedule: &Schedule<'_>, active: Active<'_>, load_ended: &Cell<Option<Stamp>>) {
        let injected = clock::now();
        let effective = active.seen_at.unwrap_or(injected);
        self.fired.effective = matches!(active.proof, Proof::Proved(_)).then_some(effective);
        self.fired.target = active.target;
        self.fired.proof = active.proof;
        schedule.tells(self.choice, News::Done(&self.fired.target, &self.fired.proof));
        if let Some(duration) = self.choice.duration {
            // Measure the duration from the effect, because finding the target may have taken time.
            let end = effective + clock::micros(duration);
            let left = Duration::from_micros(end.saturating_sub(clock::now()));
            schedule.stop.run_until_cancelled(tokio::time::sleep(left)).await;
        }
        let until = load_ended.get().unwrap_or_else(clock::now);
        // Skip the check after an interrupt.
        if let Some(Err(why)) = schedule.interrupt.run_until_cancelled(active.still).await {
            self.was_lost(schedule, &why, |seen| format!("{seen}, but the effect ended early: {why}"));
        }
        let why = if schedule.interrupt.is_cancelled() { "the run was interrupted" } else { LOAD_ENDED };
        if let Some(short) = cut_short(self.choice.duration, injected, effective..until) {
            let why = format!("{short}: {why}");
            self.was_lost(schedule, &why, |_| why.clone());
        }
        let healed = active.healing.await;
        self.ended(schedule, healed);
    }

    /// Withdraws the proof of a fault that was not in effect for its planned time.
    fn was_lost(&mut self, schedule: &Schedule<'_>, why: &str, proof: impl FnOnce(&str) -> String) {
        if let Proof::Proved(seen) = &self.fired.proof {
            schedule.tells(self.choice, News::Lost(why));
            self.fired.proof = Proof::NotProved(proof(seen));
        }
    }

    fn failed(&mut self, schedule: &Schedule<'_>, why: String) {
        self.fired.proof = Proof::NotProved(why);
        schedule.tells(self.choice, News::Done(&self.fired.target, &self.fired.proof));
    }

    fn ended(&mut self, schedule: &Schedule<'_>, healed: Result<(), String>) {
        match &healed {
            Ok(()) => schedule.tells(self.choice, News::Undone),
            Err(why) => schedule.tells(self.choice, News::Left(why)),
        }
        self.fired.ended = healed.is_ok().then(clock::now);
        self.fired.left = healed.err();
    }
}

/// Describes how far a fault fell short of its planned time, if it did. `in_effect` ends no later than the load.
fn cut_short(planned: Option<Duration>, injected: Stamp, in_effect: Range<Stamp>) -> Option<String> {
    let Some(planned) = planned else {
        return (injected > in_effect.end).then(|| "not finished in time".to_owned());
    };
    let lasted = Duration::from_micros(in_effect.end.saturating_sub(in_effect.start));
    let short = planned.mul_f64(TOLERANCE).min(TOLERANCE_AT_MOST);
    let lasted_ms = Duration::from_millis(lasted.as_millis() as u64);
    (lasted + short < planned)
        .then(|| format!("in effect for {} of {}", format_duration(lasted_ms), format_duration(planned)))
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
                "never fired: the load ended after {acquired} of the required {}",
                counted(wanted, "acquisition", "acquisitions")
            )
        }
        _ => "never fired: the load ended before the fault's start time".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fault::{Admission, Contenders, CrashOrder, CrashOrders, Doing, InEffect};
    use zklockbench_core::catalog::fault::Target as Aim;
    use zklockbench_zk::gate::Gate;
    use zklockbench_zk::{Access, SessionKey, Target};

    const MS: Duration = Duration::from_millis(1);

    /// A single contender, which waits for its lock, acquires it at a given time and never releases it.
    struct Alone {
        gate: Arc<Gate>,
        admission: Arc<Admission>,
        crashes: Arc<CrashOrders>,
        holds_from: Stamp,
    }

    impl Contenders for Alone {
        fn all(&self) -> Vec<usize> {
            vec![0]
        }
        fn locks(&self) -> Vec<String> {
            Vec::new()
        }
        fn inside(&self) -> Vec<usize> {
            if clock::now() >= self.holds_from { vec![0] } else { Vec::new() }
        }
        fn waiting(&self) -> Vec<usize> {
            Vec::new()
        }
        fn waits_since(&self, _: usize) -> Option<Stamp> {
            (clock::now() < self.holds_from).then_some(1)
        }
        fn gate(&self, _: usize) -> Arc<Gate> {
            Arc::clone(&self.gate)
        }
        fn admission(&self, _: usize) -> Arc<Admission> {
            Arc::clone(&self.admission)
        }
        fn session(&self, _: usize) -> Option<SessionKey> {
            None
        }
        fn is_being_closed(&self, _: usize, _: i64) {}
        fn was_closed(&self, _: usize, _: i64) {}
        fn clock_jumps(&self, _: usize, _: Duration) {}
        fn crash(&self, _: usize, doing: Doing) -> CrashOrder {
            self.crashes.give(doing)
        }
        fn acquired(&self) -> u64 {
            0
        }
    }

    struct Case {
        kind: &'static str,
        target: Aim,
        lasts: Option<Duration>,
        holds_after: Duration,
        load_lasts: Duration,
    }

    async fn fired(case: &Case, is_interrupted: bool) -> (Fired, Duration) {
        let begin = clock::now();
        let choice = FaultChoice {
            kind: case.kind.into(),
            target: case.target.clone(),
            start: Start::At(50 * MS),
            duration: case.lasts,
            times: 1,
            every: Duration::ZERO,
            jitter: Duration::ZERO,
            params: Default::default(),
            label: case.kind.into(),
        };
        let alone = Alone {
            gate: Arc::default(),
            admission: Arc::default(),
            crashes: Arc::default(),
            holds_from: begin + clock::micros(case.holds_after),
        };
        let nowhere = Target { connect: "127.0.0.1:1".into(), access: Access::default() };
        let reach = FaultReach {
            contenders: &alone,
            target: &nowhere,
            processes: None,
            proxy: None,
            in_effect: InEffect::default(),
        };
        let (stop, interrupt) = (CancellationToken::new(), CancellationToken::new());
        let schedule = Schedule {
            faults: &[choice],
            is_ours: &|_, _| true,
            seed: 1,
            begin,
            stop: stop.clone(),
            interrupt: interrupt.clone(),
            tell: &|_, _| {},
        };
        let load = async {
            tokio::time::sleep(case.load_lasts).await;
            if is_interrupted {
                interrupt.cancel();
            }
            stop.cancel();
        };
        let (mut fired, ()) = futures_util::future::join(run(&schedule, &reach), load).await;
        (fired.remove(0), Duration::from_micros(clock::now() - begin))
    }

    /// A fault that lasts for this time, if any. All times are in milliseconds.
    fn case(kind: &'static str, target: &'static str, lasts: u32, holds_after: u32, load_lasts: u32) -> Case {
        Case {
            kind,
            target: Aim::Word(target),
            lasts: (lasts > 0).then_some(lasts * MS),
            holds_after: holds_after * MS,
            load_lasts: load_lasts * MS,
        }
    }

    fn cut_short_cases() -> Vec<Case> {
        vec![
            // The load ends while the fault is in effect
            case("freeze", "holder", 3_000, 0, 400),
            case("freeze", "any", 3_000, 0, 400),
            case("burst", "all", 3_000, 0, 400),
            // The load ends while the fault is being injected
            case("freeze", "any", 3_000, 0, 60),
            case("crash", "any", 0, 0, 300),
            case("clock-jump", "any", 0, 60_000, 300),
            case("expire", "any", 0, 0, 300),
            // The load ends before a target exists
            case("freeze", "holder", 3_000, 60_000, 300),
            case("freeze", "holder", 3_000, 500, 300),
            case("crash", "waiter", 0, 0, 300),
        ]
    }

    #[tokio::test]
    async fn fault_is_not_proved_when_the_load_ends_early() {
        for case in cut_short_cases() {
            let (fired, took) = fired(&case, false).await;
            let what = format!("{} {:?}: {fired:?}", case.kind, case.target);
            let Proof::NotProved(why) = &fired.proof else { panic!("{what}") };
            assert!(why.contains("the load ended"), "{what}");
            assert!(took < case.load_lasts + Duration::from_secs(20), "{took:?} for {what}");
            if let (Some(effective), Some(planned)) = (fired.effective, case.lasts) {
                assert!(fired.ended.unwrap() - effective < clock::micros(planned), "{what}");
                assert!(why.starts_with("in effect for ") && why.contains(" of 3 s: "), "{what}");
            }
        }
    }

    #[tokio::test]
    async fn fault_is_proved_when_it_lasts_for_its_planned_time() {
        let cases = [("freeze", "holder"), ("burst", "all")].map(|(kind, target)| async move {
            let (fired, _) = fired(&case(kind, target, 200, 100, 3_000), false).await;
            assert!(matches!(fired.proof, Proof::Proved(_)), "{fired:?}");
        });
        join_all(cases).await;
    }

    #[tokio::test]
    async fn clock_jump_of_a_contender_that_is_not_waiting_is_not_proved() {
        let (fired, _) = fired(&case("clock-jump", "any", 0, 0, 3_000), false).await;
        let Proof::NotProved(why) = fired.proof else { panic!("{fired:?}") };
        assert_eq!(why, "the contender was not waiting");
    }

    #[tokio::test]
    async fn interrupted_fault_is_not_proved() {
        let (fired, _) = fired(&case("freeze", "any", 3_000, 0, 400), true).await;
        let Proof::NotProved(why) = fired.proof else { panic!("{fired:?}") };
        assert!(why.ends_with(" of 3 s: the run was interrupted"), "{why}");
    }

    #[test]
    fn fault_within_5_percent_and_100_ms_of_its_planned_time_is_proved() {
        let lasted = |planned: u32, lasted: u32| {
            let end = clock::micros(lasted * MS);
            cut_short(Some(planned * MS), 0, 0..end)
        };
        for (planned, enough) in [(200, 190), (1_000, 950), (2_000, 1_900), (2_900, 2_800), (60_000, 59_900)]
        {
            assert_eq!(lasted(planned, enough), None, "{planned}");
            assert!(lasted(planned, enough - 1).is_some(), "{planned}");
        }
        assert_eq!(lasted(2_900, 447).as_deref(), Some("in effect for 447 ms of 2.9 s"));
        // The fault took effect after the load had ended
        let never = Range { start: 7, end: 5 };
        assert_eq!(cut_short(Some(MS), 9, never).as_deref(), Some("in effect for 0 µs of 1 ms"));
        // A fault that ends by itself must have ended before the load ends
        assert_eq!([cut_short(None, 5, 5..5).is_some(), cut_short(None, 6, 5..5).is_some()], [false, true]);
    }
}
