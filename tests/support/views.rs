//! Handcrafted views that resemble real runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use zklockbench_core::measure::{
    Counts, Histogram, Measure, Outcome, RANK_CLASSES, RequestKind, Second, Woken, new_histogram,
};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Accounting, Counted, FaultRecord, FullCrew, Sessions, Stuck, Tally, Trial};
use zklockbench_report::{View, view::Cell};

use crate::support::records;

/// Five strategies of the suite.
pub const FIVE: [&str; 5] = ["predecessor-watch", "parent-watch", "curator-mutex", "polling", "no-lock"];

/// A view with three repetitions of each strategy and number of contenders.
pub fn view(strategies: &[&str], counts: &[usize]) -> View<'static> {
    let trial = |strategy, contenders, number| {
        Cow::Owned(repetition(strategies[strategy], strategy, contenders, number))
    };
    let cell = |(strategy, contenders)| Cell {
        strategy,
        contenders,
        trials: (1..=3).map(|number| trial(strategy, contenders, number)).collect(),
    };
    let pairs = (0..strategies.len()).flat_map(|s| counts.iter().map(move |count| (s, *count)));
    View {
        title: "herd-effect".into(),
        question: None,
        place: vec![
            "local ensemble, 3 servers (ZooKeeper 3.9.4)".into(),
            "ensemble and load generator share one host with 2 cores".into(),
            "data: /tmp/zk (tmpfs: no fsync cost)".into(),
            "scenario herd-effect, closed load, seed 42".into(),
        ],
        strategies: strategies.iter().map(|&label| label.to_owned()).collect(),
        cells: pairs.map(cell).collect(),
        floor: None,
        unfinished: None,
        remarks: Vec::new(),
        judged: records::held(),
        evidence: None,
    }
}

/// The view of a run without trials.
pub fn empty() -> View<'static> {
    view(&[], &[])
}

pub fn cell<'v>(view: &'v mut View<'static>, strategy: usize, contenders: usize) -> &'v mut Cell<'static> {
    let wanted = |cell: &Cell<'_>| cell.strategy == strategy && cell.contenders == contenders;
    let at = view.cells.iter().position(wanted).unwrap_or(usize::MAX);
    &mut view.cells[at]
}

/// A deterministic trial with metrics typical of its kind of strategy.
pub fn repetition(label: &str, strategy: usize, contenders: usize, number: u32) -> Trial {
    let n = contenders as f64;
    let noise = 1.0 + 0.06 * ((strategy * 7 + contenders * 3 + number as usize * 2) % 5) as f64;
    let (polls, others) = (strategy % 5 == 3, contenders as u64 - 1);
    let (per_s, fan_out) = match strategy % 5 {
        1 => (420.0 / (1.0 + n / 12.0), others),
        3 => (48.0, 0),
        _ => (400.0 / (1.0 + strategy as f64 * 0.35), others.min(1)),
    };
    let throughput = noise * per_s;
    let handoff_us = 1e6 / throughput;
    let mut trial = unmeasured(label, contenders, number);
    acquire(&mut trial, &requests(strategy, n));
    pace(&mut trial, throughput);
    trial.measured_us = 30_000_000;
    let counts = &mut trial.measured;
    counts.notifications.by_release_useful = fan_out * ACQUIRED;
    counts.notifications.node_deleted = fan_out * ACQUIRED;
    counts.overtaken = if polls { ACQUIRED * 23 / 100 } else { 0 };
    // Half of the contenders acquire more often than the other half: the fairness index is 0.81 or 0.997.
    let unequal = if polls { 0.4844 } else { 0.0549 };
    let turns = |at: usize| 10_000.0 * if at.is_multiple_of(2) { 1.0 + unequal } else { 1.0 - unequal };
    trial.tallies =
        (0..contenders).map(|at| Tally { acquired: turns(at) as u64, ..Tally::default() }).collect();
    trial.histograms.insert(Measure::Wait, samples(handoff_us * n, 4000, number));
    if contenders > 1 {
        trial.histograms.insert(Measure::Handoff, samples(handoff_us, 4000, number));
    }
    let acquired = (0..30).map(|s| (throughput * (1.0 + 0.1 * f64::sin(f64::from(s)))) as u64);
    trial.timeline = acquired.map(|acquisitions| Second { acquisitions, ..Second::default() }).collect();
    trial.accounting = vec![
        line(Counted::Reads, 12_000, Some(12_000), Some(12_000)),
        line(Counted::Writes, 8_000, Some(8_000), Some(8_000)),
        line(Counted::NodeDeleted, 3_999, None, Some(3_999)),
    ];
    trial
}

const ACQUIRED: u64 = 10_000;

/// Sets a trial's counts, given its requests of each kind per acquisition.
pub fn acquire(trial: &mut Trial, requests: &[(RequestKind, f64)]) {
    let mut counts = Counts { releases: ACQUIRED, ..Counts::default() };
    counts.outcomes.add(Outcome::Acquired, ACQUIRED);
    for (kind, amount) in requests {
        counts.requests.add(*kind, (amount * ACQUIRED as f64).round() as u64);
    }
    trial.measured = counts;
}

pub fn pace(trial: &mut Trial, per_s: f64) {
    trial.full_crew = Some(FullCrew { lasted_us: 1_000_000_000_000, acquired: (per_s * 1e6) as u64 });
}

pub fn line(what: Counted, client: u64, expected: Option<u64>, servers: Option<u64>) -> Accounting {
    Accounting { what, client: Some(client), expected, servers }
}

fn requests(strategy: usize, n: f64) -> Vec<(RequestKind, f64)> {
    let look = match strategy % 5 {
        1 => (RequestKind::GetChildrenWatch, 1.0 + n / 2.0),
        3 => (RequestKind::GetChildren, 1.0 + n / 4.0),
        _ => (RequestKind::GetDataWatch, 1.0),
    };
    let list = (RequestKind::GetChildren, 2.0);
    let mut all = vec![(RequestKind::Create, 1.0), (RequestKind::Delete, 1.0), look];
    if look.0 != RequestKind::GetChildren {
        all.push(list);
    }
    all.sort_by_key(|(kind, _)| *kind);
    all
}

/// Notifications of releases that wake a herd of waiters. Each class of ranks is notified with twice the delay of
/// the previous class.
pub fn herd(waiters: u32, number: u32) -> Vec<Woken> {
    let classes = (0..RANK_CLASSES).take_while(|class| (1_u32 << class) / 2 < waiters);
    let late = |class: usize| samples(400.0 * f64::from(1_u32 << class), 1_000, number);
    classes.filter_map(|class| Woken::of(class, &late(class))).collect()
}

/// A deterministic, long-tailed sample with a mean near `mean_us`.
pub fn samples(mean_us: f64, count: u32, number: u32) -> Histogram {
    let mut histogram = new_histogram();
    for step in 1..=count {
        let rank = f64::from(step) / f64::from(count + 1);
        let tail = 1.0 - 0.35 * (1.0 - rank).ln();
        let value = mean_us * (0.5 + 0.3 * rank) * tail * (1.0 + 0.02 * f64::from(number));
        histogram.saturating_record((value as u64).max(1));
    }
    histogram
}

/// Adds violations to a trial, and sets its verdict.
pub fn violate(trial: &mut Trial, times: u64) {
    trial.violation_count = times;
    trial.judged = records::judged(Verdict::Violated(vec![format!("{times} violations")]));
}

pub fn interrupt(trial: &mut Trial) {
    trial.cut_short = records::interrupted();
}

pub fn spoil(trial: &mut Trial, why: &str) {
    trial.health.invalid = Some(why.into());
}

pub fn unmeasured(label: &str, contenders: usize, number: u32) -> Trial {
    let mut spec = records::spec(contenders * 10 + number as usize);
    (spec.contenders, spec.repetition) = (contenders, number);
    spec.strategy.label = label.into();
    spec.strategy.name = label.split(' ').next().unwrap_or_default().into();
    Trial {
        spec,
        measured_us: 0,
        judged: records::held(),
        sessions: Sessions { opened: contenders as u64, ..Sessions::default() },
        measured: Counts::default(),
        whole: Counts::default(),
        herd: None,
        histograms: BTreeMap::new(),
        timeline: Vec::new(),
        tallies: Vec::new(),
        errors: BTreeMap::new(),
        accounting: Vec::new(),
        servers: Vec::new(),
        ..records::trial(0)
    }
}

/// A proved fault from 3 s to 5 s, with this time until the next acquisition.
pub fn fault(label: &str, recovered_us: u64) -> FaultRecord {
    FaultRecord {
        number: 1,
        kind: label.split(' ').next().unwrap_or_default().into(),
        label: label.into(),
        target: "contender 3 (holder)".into(),
        asked_us: 3_000_000,
        effective_us: Some(3_000_000),
        ended_us: Some(5_000_000),
        proved: true,
        proof: "seen".into(),
        longest_gap_us: Some(recovered_us + 1_000),
        recovered_us: Some(recovered_us),
        ..FaultRecord::default()
    }
}

/// Marks a fault as unproved.
pub fn unproved(why: &str, fault: FaultRecord) -> FaultRecord {
    FaultRecord { proved: false, proof: why.into(), ..fault }
}

pub fn stuck(contender: usize) -> Stuck {
    Stuck { contender, waited_us: 13_000_000, ..Stuck::default() }
}

/// Sets the faults of a trial.
pub fn break_by(trial: &mut Trial, faults: &[FaultRecord]) {
    let number = |(at, fault): (usize, &FaultRecord)| FaultRecord { number: at + 1, ..fault.clone() };
    trial.faults = faults.iter().enumerate().map(number).collect();
    trial.orphans = Some(0);
}

pub fn trials<'v>(view: &'v mut View<'static>) -> impl Iterator<Item = &'v mut Trial> {
    view.cells.iter_mut().flat_map(|cell| &mut cell.trials).map(Cow::to_mut)
}

pub fn trials_of<'a>(
    view: &'a mut View<'static>,
    strategy: usize,
    n: usize,
) -> impl Iterator<Item = &'a mut Trial> {
    cell(view, strategy, n).trials.iter_mut().map(Cow::to_mut)
}

/// One trial of a cell, by its index.
pub fn trial<'a>(
    view: &'a mut View<'static>,
    strategy: usize,
    contenders: usize,
    at: usize,
) -> &'a mut Trial {
    cell(view, strategy, contenders).trials[at].to_mut()
}

/// Sets the faults of every repetition of a view, with varying recovery times.
pub fn break_all(view: &mut View<'static>, labels: &[&str]) {
    let mut longer = 20_000_u64;
    for trial in trials(view) {
        longer = longer * 9 / 8 % 7_000_000 + 1_000;
        let mut faults: Vec<FaultRecord> = labels.iter().map(|label| fault(label, longer)).collect();
        for (fault, at) in faults.iter_mut().zip(0_i64..) {
            (fault.asked_us, fault.ended_us) = ((2 + 2 * at) * 1_000_000, Some((3 + 2 * at) * 1_000_000));
        }
        break_by(trial, &faults);
    }
}
