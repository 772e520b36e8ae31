//! Verdicts on trials and runs, whether they have just ended or were read from disk.

use std::io;

use super::ensemble;
use super::history::{
    Breach, Checker, FoundViolation, HistoryEnd, Judgement, LockReport, Overlaps, unless_interfered,
};
use super::lost_holds;
use super::timeline::Timelines;
use zklockbench_core::catalog::{LockCard, Protection};
use zklockbench_core::clock::Stamp;
use zklockbench_core::measure::RequestKind::Create;
use zklockbench_core::units::counted;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::history::LinePosition;
use zklockbench_record::{
    Cause, EnsembleOrder, Evidence, Excused, Facts, Holder, Judged, KeptOut, Parts, Stuck, Trial, Violation,
};

/// Judges one trial. The facts of a trial that has just ended are consumed; a stored trial has none.
pub fn judge(trial: &mut Trial) {
    if let Some(facts) = trial.facts.take()
        && let Err(error) = learn(trial, &facts)
    {
        trial.unchecked.push(format!("the contenders' events could not be judged completely: {error}"));
    }
    // The live count misses an overlap if a driver reports its acquisition late, or if only the history shows it.
    if trial.violation_count > 0 {
        trial.most_inside = trial.most_inside.max(2);
    }
    // Arrivals of an open load can pile up if they wait for the lock.
    let piles_up = trial.arrived.is_some() && !trial.spec.only_tries();
    if let Some(steady) = trial.steady.as_mut().filter(|_| piles_up) {
        steady.queue = Some(steady.growth());
    }
    let unless_interfered = |verdict| unless_interfered(trial.interference.first(), verdict);
    trial.judged = Parts {
        exclusion: unless_interfered(exclusion(trial)),
        progress: progress(trial).map(unless_interfered),
        order: order(trial).map(unless_interfered),
        accounting: accounting(trial),
        figures: None,
    }
    .into();
}

fn learn(trial: &mut Trial, facts: &Facts) -> io::Result<()> {
    let mut checker = Checker::new(&facts.header(trial));
    let mut place = LinePosition::default();
    let fed = facts.each_event(trial, std::convert::identity, |event| {
        place.line += 1;
        checker.feed(place, event).map_err(io::Error::other)
    });
    let judgement = checker.conclude(HistoryEnd::default());
    add_overlaps(trial, &judgement, facts.measured_from);
    fed?;
    if !judgement.violations.is_empty() {
        let mut timelines = Timelines::of(&judgement.violations);
        facts.each_event(trial, std::convert::identity, |event| {
            timelines.feed(event);
            Ok(())
        })?;
        for (violation, timeline) in trial.violations.iter_mut().zip(timelines.finish()) {
            violation.timeline = Some(timeline);
        }
    }
    trial.lost_holds = lost_holds::find(facts)?;
    if let Some(order) = ensemble::judge(facts)? {
        trial.evidence.by_transactions = order.contested_by_zxid;
        trial.evidence.by_clock = order.contested;
        trial.ensemble_order = Some(order);
    }
    Ok(())
}

/// Adds the overlaps that the contenders recorded, with times relative to `start`.
fn add_overlaps(trial: &mut Trial, judgement: &Judgement, start: Stamp) {
    let holder = |holder: &Holder| Holder {
        entered_us: holder.entered_us.saturating_sub_unsigned(start),
        ..holder.clone()
    };
    let violations = judgement.violations.iter().take(Trial::VIOLATIONS_KEPT);
    let violations = violations.map(|FoundViolation { lock, violation, .. }| Violation {
        lock: Facts::lock_number(lock),
        inside: holder(&violation.inside),
        entered: holder(&violation.entered),
        ..violation.clone()
    });
    trial.violations = violations.collect();
    let sum = |class: fn(&LockReport) -> Overlaps| {
        judgement.locks.iter().map(class).fold(Overlaps::default(), Overlaps::and)
    };
    let zombies = sum(|lock| lock.zombies);
    trial.violation_count = sum(|lock| lock.violations).count;
    trial.excused = Excused {
        zombies: zombies.count,
        uncertain: sum(|lock| lock.uncertain).count,
        longest_unsafe_us: zombies.longest_us,
    };
    // A failed try is also evidence: a lock without exclusion would have let the try succeed.
    let refused = if trial.spec.only_tries() { judgement.refused } else { KeptOut::default() };
    let kept_out = judgement.kept_out + refused;
    trial.evidence = Evidence {
        entries: judgement.kept_out.entries,
        waited: kept_out.waited,
        seen_inside: kept_out.as_many_as(),
        ..trial.evidence
    };
}

/// Verdict on exclusion: whether the contenders observed only permitted overlaps.
///
/// A violation decides the verdict. *Held* requires a complete trial, and acquisitions that would have exposed a lock
/// without exclusion. An overlap can be observed only if another contender could run during the hold, and if a
/// contender was blocked.
fn exclusion(trial: &Trial) -> Verdict {
    if trial.violation_count > 0 {
        return Verdict::Violated(vec![describe(trial)]);
    }
    let given_up = trial.evidence.given_up_early;
    if given_up > 0 {
        let had = counted(given_up, "holder had deleted its", "holders had deleted their");
        return Verdict::Violated(vec![format!("{had} own node before the release")]);
    }
    let mut doubts: Vec<String> = trial.cut_short.iter().map(|cut| format!("partial: {}", cut.why)).collect();
    doubts.extend(trial.wrong_holds.iter().cloned());
    doubts.extend(faults(trial));
    let lost = trial.whole.lost_while_held;
    // With faults, each overlap is judged by its sessions instead.
    if lost > 0 && trial.faults.is_empty() {
        doubts.push(format!(
            "{} session",
            counted(lost, "hold was lost with its", "holds were lost with their")
        ));
    }
    if trial.spec.contenders < 2 {
        doubts.push("a single contender has no other contender to exclude".to_owned());
    } else if trial.spec.fresh_locks {
        doubts.push("each acquisition used its own lock, so exclusion was never tested".to_owned());
    } else {
        doubts.extend(too_little(trial));
    }
    Verdict::unknown_if(doubts)
}

/// Verdict on progress: whether every lock that was free and wanted was acquired and, after faults, every waiter was
/// served. Without faults, starvation is not a violation, but it shows in the waits.
fn progress(trial: &Trial) -> Option<Verdict> {
    let cut = trial.cut_short.as_ref();
    if let Some(cut) = cut.filter(|cut| cut.cause == Cause::NoProgress) {
        return Some(Verdict::Unknown(vec![cut.why.clone()]));
    }
    let Some(first) = trial.stuck.first() else {
        let verdict = match cut {
            Some(_) => Verdict::unknown("the trial was cut short, so some waiters may not have been served"),
            None => Verdict::Held,
        };
        return (!trial.faults.is_empty()).then_some(verdict);
    };
    let stuck = counted(trial.stuck.len(), "contender is", "contenders are");
    let over = if trial.faults.is_empty() { "no fault was requested" } else { "all faults are over" };
    let blocked = first.blocked_by.as_ref().map(|node| format!("; blocked by {node}")).unwrap_or_default();
    let why =
        vec![format!("{stuck} stuck although {over}; the first is contender {}{blocked}", first.contender)];
    // No lock can stop other clients from creating nodes in its queue.
    let is_strangers = trial.faults.is_empty() && first.stranger;
    Some(if is_strangers { Verdict::Unknown(why) } else { Verdict::Violated(why) })
}

/// Verdict on the order of acquisitions according to the ensemble; `None` if it was not checked.
fn order(trial: &Trial) -> Option<Verdict> {
    let unchecked = trial.unchecked.clone();
    let Some(order) = &trial.ensemble_order else {
        return (!unchecked.is_empty()).then_some(Verdict::Unknown(unchecked));
    };
    if order.is_broken() {
        let first = order.first.as_deref().unwrap_or_default();
        let (clock, zxids) = (order.overlaps, order.too_early);
        return Some(Verdict::Violated(vec![format!(
            "entered too early: {clock} by the servers' clock, {zxids} by their transactions; {first}"
        )]));
    }
    let forgotten = (order.forgotten > 0).then(|| {
        format!(
            "the ensemble lost acknowledged writes: {} gone without a trace in any server's log \
             (ZOOKEEPER-4643 is \
             one possible cause)",
            counted(order.forgotten, "node of a holder is", "nodes of holders are")
        )
    });
    Some(Verdict::unknown_if(forgotten.into_iter().chain(unchecked).collect()))
}

/// Verdict on accounting: *unknown* if the counts of client, cost model and servers differ.
fn accounting(trial: &Trial) -> Option<Verdict> {
    if trial.accounting.iter().all(|line| line.agrees().is_none()) {
        return None;
    }
    let count = |who: &str, count: Option<u64>| count.map(|count| format!("{who} {count}"));
    let apart = trial.accounting.iter().filter(|line| line.agrees() == Some(false)).map(|line| {
        let counts = [
            count("client", line.client),
            count("cost model", line.expected),
            count("servers", line.servers),
        ];
        format!("{}: {}", line.what.name(), counts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    });
    let mut apart: Vec<String> = apart.collect();
    if !apart.is_empty() {
        apart.extend(trial.told_errors().map(|errors| format!("the likely cause: {errors}")));
    }
    Some(Verdict::unknown_if(apart))
}

/// Reason why the evidence is insufficient, with a remedy; `None` if it suffices.
fn too_little(trial: &Trial) -> Option<String> {
    let (checked, asked, evidence) = (trial.checked(), trial.spec.evidence, &trial.evidence);
    if trial.measured.acquired() == 0 {
        let beside = match evidence.entries {
            0 => String::new(),
            entries => format!(" ({entries} before or after it)"),
        };
        return Some(format!("no acquisition in the measured phase{beside}; use a longer phase"));
    }
    if asked.is_met_by(checked) {
        return None;
    }
    let all = trial.checkable();
    if checked == 0 && evidence.waited == 0 {
        return Some(format!(
            "too little evidence: no contender was seen waiting in {all}; use a longer hold, more contenders \
             (more than a semaphore's leases), some writers, or servers started for the run"
        ));
    }
    Some(format!(
        "too little evidence: {checked} of {all} checked ({}), {asked} needs {}; use a longer hold, a longer trial or \
         servers started for the run",
        evidence.describe(),
        asked.acquisitions()
    ))
}

/// Evidence of the *held* trial with the least evidence; `None` if no trial is *held*.
pub fn least_evidence(trials: &[Trial]) -> Option<String> {
    let trial = Trial::with_least_evidence(trials)?;
    Some(format!("{}: {}", trial.name(), trial.describe_evidence()))
}

/// Doubts about a trial with faults: faults that were not proved or not healed, and uncertain overlaps.
fn faults(trial: &Trial) -> impl Iterator<Item = String> + '_ {
    let unproved = trial.faults.iter().filter(|fault| !fault.proved);
    let unproved = unproved.map(|fault| format!("fault {} ({}): {}", fault.number, fault.label, fault.proof));
    let left = trial.faults.iter().filter_map(|fault| {
        let why = fault.left.as_ref()?;
        Some(format!("fault {} ({}) was not healed: {why}", fault.number, fault.label))
    });
    let uncertain = trial.excused.uncertain;
    let open = (uncertain > 0).then(|| counted(uncertain, "overlap is uncertain", "overlaps are uncertain"));
    unproved.chain(left).chain(open)
}

/// Whether every contender that believed it held the lock did hold it, according to the ensemble. No lock
/// with sessions can guarantee that, so the check is optional.
pub fn zombies(trials: &[Trial]) -> Verdict {
    let found = trials.iter().filter(|trial| trial.excused.zombies > 0).map(|trial| {
        let zombies = trial.excused.zombies;
        let entries = counted(zombies, "acquisition", "acquisitions");
        format!("{}: {entries} during a hold without a live session", trial.name())
    });
    Verdict::violated_if(found.collect())
}

/// Combines the verdicts on the trials of a run.
///
/// Trials with one contender do not count for exclusion. If the generator did not keep up in a trial, the
/// metrics are *unknown* unless the trial was replaced; its exclusion still counts.
pub fn of_run(trials: &[Trial], planned: usize) -> Judged {
    let named = |trial: &Trial, verdict: &Verdict| {
        verdict.clone().with_reasons(|reason| format!("{}: {reason}", trial.name()))
    };
    let contended = || trials.iter().filter(|trial| trial.spec.contenders > 1);
    let mut exclusion = if contended().next().is_some() {
        contended().map(|trial| named(trial, &trial.judged.exclusion)).fold(Verdict::Held, Verdict::and)
    } else {
        Verdict::Unknown(vec!["no trial had two contenders, so exclusion was never tested".into()])
    };
    let replaced = Trial::replaced(trials);
    let counting = || trials.iter().filter(|trial| !replaced.contains(&trial.spec.index));
    let ran = counting().count();
    if ran < planned {
        let missing = format!("{} of {} did not run", planned - ran, counted(planned, "trial", "trials"));
        exclusion = exclusion.and(Verdict::Unknown(vec![missing]));
    }
    let invalid = counting()
        .filter_map(|trial| Some(format!("{}: invalid: {}", trial.name(), trial.health.invalid.as_ref()?)));
    let figures = Verdict::unknown_if(invalid.collect());
    let all = |part: fn(&Judged) -> &Option<Verdict>| {
        let verdicts = trials.iter().filter_map(|trial| Some(named(trial, part(&trial.judged).as_ref()?)));
        verdicts.reduce(Verdict::and)
    };
    Parts {
        exclusion,
        progress: all(|judged| &judged.progress),
        order: all(|judged| &judged.order),
        accounting: all(|judged| &judged.accounting),
        figures: Some(figures),
    }
    .into()
}

fn describe(trial: &Trial) -> String {
    let count = counted(trial.violation_count, "violation", "violations");
    let Some(first) = trial.violations.first() else { return count };
    if let Some(timeline) = &first.timeline {
        return format!("{count}; the first, in lock {}: {}", first.lock, timeline.summary);
    }
    let holder = |holder: &zklockbench_record::Holder| {
        let node = match (holder.sequence, holder.czxid) {
            // Older versions recorded the node's sequence number.
            (Some(number), _) => format!("node {number}"),
            (None, Some(czxid)) => format!("node 0x{czxid:x}"),
            (None, None) => "no node".to_owned(),
        };
        format!("contender {} ({node}, in since {} µs)", holder.contender, holder.entered_us)
    };
    format!(
        "{count}; the first: {} entered lock {} while {} was inside",
        holder(&first.entered),
        first.lock,
        holder(&first.inside)
    )
}

/// Returns the lock's known hazard if it explains all stuck contenders and leftover nodes; `None` if there is
/// another cause.
///
/// A lock that searches for its node only once may create a second one if the first was not visible or not
/// applied yet. Then every contender that waits for the first node is stuck, including the node's owner. If the owner
/// has already acquired the lock with the second node, the first is left behind.
pub fn standing_still(card: &LockCard, trial: &Trial) -> Option<&'static str> {
    let unanswered = trial.whole.requests.get(Create) > trial.whole.succeeded.get(Create);
    let waits_for_itself =
        |of: usize| trial.stuck.iter().any(|one| one.contender == of && one.blocker == Some(of));
    let is_left = |node: &String| trial.orphan_nodes.iter().any(|left| node_name(left) == node_name(node));
    let waits_for_left = |one: &Stuck| one.blocked_by.as_ref().or(one.node.as_ref()).is_some_and(is_left);
    let mut stuck = trial.stuck.iter();
    let explained = stuck.all(|one| one.blocker.is_some_and(waits_for_itself) || waits_for_left(one));
    let is_hazard = card.guarantees.protection == Protection::Unsynced;
    (is_hazard && unanswered && explained).then_some(
        "after a lost reply it searches for its node only once, without a sync, so it created a second node",
    )
}

/// Extracts a node's name from a record of the form `path (session)`.
fn node_name(told: &str) -> &str {
    let path = told.split_once(" (").map_or(told, |(path, _)| path);
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Findings that only a trial's record or only its history shows.
#[derive(Debug, PartialEq)]
pub struct Difference {
    pub what: String,
    /// Verdict on findings that only the history shows, or *held*.
    pub verdict: Verdict,
}

/// Name of a kind of findings, its counts in the record and the history, the verdict if only the history shows some,
/// and whether the history shows all that the record shows.
type CountedFindings = ([&'static str; 2], (u64, u64), fn(Vec<String>) -> Verdict, bool);

/// Differences between a trial's record and its history, as far as both can show the same findings. With `strict`,
/// zombies are violations.
pub fn differences(trial: &Trial, judgement: &Judgement, strict: bool) -> Vec<Difference> {
    let sum = |count: fn(&LockReport) -> u64| judgement.locks.iter().map(count).sum::<u64>();
    let early = trial.ensemble_order.as_ref().map_or(0, |order| order.overlaps + order.too_early);
    let uncertain = sum(|lock| lock.uncertain.count);
    let zombies = if strict { Verdict::violated_if } else { |_| Verdict::Held };
    let kinds: [CountedFindings; 6] = [
        (
            ["violation", "violations"],
            (trial.violation_count, sum(|lock| lock.violations.count)),
            Verdict::violated_if,
            uncertain == 0,
        ),
        (
            ["premature acquisition", "premature acquisitions"],
            (early, sum(|lock| lock.order.too_early)),
            Verdict::violated_if,
            false,
        ),
        (
            ["accepted stale write", "accepted stale writes"],
            (0, sum(|lock| lock.writes.stale_accepted)),
            Verdict::violated_if,
            false,
        ),
        (
            ["stuck contender", "stuck contenders"],
            (trial.stuck.len() as u64, sum(|lock| lock.stuck)),
            // The record misses a stuck contender only if the trial was cut short or the history is incomplete.
            Verdict::unknown_if,
            false,
        ),
        (["zombie", "zombies"], (trial.excused.zombies, sum(|lock| lock.zombies.count)), zombies, true),
        (
            ["uncertain overlap", "uncertain overlaps"],
            (trial.excused.uncertain, uncertain),
            Verdict::unknown_if,
            true,
        ),
    ];
    let differs = |([one, many], (recorded, found), verdict, shows_all): CountedFindings| {
        if recorded == 0 && found > 0 {
            let what = format!("the history shows {}, but the record shows none", counted(found, one, many));
            let verdict = verdict(vec![format!("{}: {what}", trial.name())]);
            let verdict = unless_interfered(trial.interference.first(), verdict);
            return Some(Difference { verdict, what });
        }
        (recorded > 0 && found == 0 && shows_all).then(|| Difference {
            what: format!("the record shows {}, but the history shows none", counted(recorded, one, many)),
            verdict: Verdict::Held,
        })
    };
    kinds.into_iter().filter_map(differs).collect()
}

/// Adds the results of all workers' combined history to a trial; call [`judge`] afterwards. Workers share no
/// clock, so only the ensemble's order of transactions shows exclusion across them.
pub fn add_order(trial: &mut Trial, judgement: &Judgement) {
    let sum = |count: fn(&LockReport) -> u64| -> u64 { judgement.locks.iter().map(count).sum() };
    let (compared, waited) = (sum(|lock| lock.order.compared), sum(|lock| lock.order.waited));
    let first = judgement.findings.iter().find(|finding| finding.breach == Breach::Order);
    trial.ensemble_order = Some(EnsembleOrder {
        checked: compared,
        checked_by_zxid: compared,
        too_early: sum(|lock| lock.order.too_early),
        contested_by_zxid: waited,
        first: first.map(|finding| format!("{}: {}", finding.lock, finding.what)),
        ..EnsembleOrder::default()
    });
    trial.evidence.by_transactions = waited;
    let differences = differences(trial, judgement, false);
    trial.unchecked.extend(differences.into_iter().map(|difference| difference.what));
    // A violation counts even if only the history shows it.
    trial.violation_count = trial.violation_count.max(sum(|lock| lock.violations.count));
    let too_little = too_little_across_workers(trial, judgement);
    trial.unchecked.extend(too_little);
}

/// Reason why the workers' combined history has too little evidence for the trial's requirement; `None` if it suffices.
pub fn too_little_across_workers(trial: &Trial, judgement: &Judgement) -> Option<String> {
    let across: u64 = judgement.locks.iter().map(|lock| lock.order.waited_across_clocks).sum();
    let asked = trial.spec.evidence;
    (!asked.is_met_by(across)).then(|| {
        let all = counted(trial.evidence.entries, "acquisition", "acquisitions");
        format!(
            "too little evidence across workers: {across} of {all} checked, {asked} needs {}; use a longer trial, or a \
             lock with a queue node, whose transactions show the order",
            asked.acquisitions()
        )
    })
}
