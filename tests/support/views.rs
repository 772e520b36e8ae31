//! Views made by hand, of the sizes and shapes that real runs have.

use zklockbench::report::View;
use zklockbench::report::view::{Bins, Broken, Cell, Fault, Repetition};
use zklockbench::results::record::{Accounting, Counted};
use zklockbench::words::measure::{Histogram, RANK_CLASSES, RequestKind, Woken, new_histogram};
use zklockbench::words::verdict::Verdict;

use crate::support::records;

/// Five strategies as the suite ships them.
pub const FIVE: [&str; 5] = ["predecessor-watch", "parent-watch", "curator-mutex", "polling", "no-lock"];

/// A view with these strategies and counts, three repetitions of everything.
pub fn view(strategies: &[&str], counts: &[usize]) -> View {
    let cell = |(strategy, contenders)| Cell {
        strategy,
        contenders,
        repetitions: (1..=3).map(|number| repetition(strategy, contenders, number)).collect(),
    };
    let pairs = (0..strategies.len()).flat_map(|s| counts.iter().map(move |count| (s, *count)));
    View {
        title: "herd-effect".into(),
        place: vec![
            "local ensemble, 3 servers (ZooKeeper 3.9.4)".into(),
            "ensemble and load generator share one host with 2 cores".into(),
            "data: /tmp/zk (tmpfs: no fsync cost)".into(),
            "scenario herd-effect, closed load, seed 42".into(),
        ],
        strategies: strategies.iter().map(|&label| label.to_owned()).collect(),
        cells: pairs.map(cell).collect(),
        floor: None,
        remarks: Vec::new(),
        judged: records::held(),
        evidence: None,
    }
}

/// An empty view: a run in which no trial ran.
pub fn empty() -> View {
    view(&[], &[])
}

/// The cell of that strategy and count.
pub fn cell(view: &mut View, strategy: usize, contenders: usize) -> &mut Cell {
    let wanted = |cell: &Cell| cell.strategy == strategy && cell.contenders == contenders;
    let at = view.cells.iter().position(wanted).unwrap_or(usize::MAX);
    &mut view.cells[at]
}

/// A trial with figures that the kind of strategy would give; the same ones each time.
pub fn repetition(strategy: usize, contenders: usize, number: u32) -> Repetition {
    let n = contenders as f64;
    let noise = 1.0 + 0.06 * ((strategy * 7 + contenders * 3 + number as usize * 2) % 5) as f64;
    let herd = strategy % 5 == 1;
    let polls = strategy % 5 == 3;
    let slow = 1.0 + strategy as f64 * 0.35;
    let throughput = noise
        * if herd {
            420.0 / (1.0 + n / 12.0)
        } else if polls {
            48.0
        } else {
            400.0 / slow
        };
    let handoff_us = 1e6 / throughput;
    let mut measured = Repetition::unmeasured(contenders * 10 + number as usize, number);
    measured.throughput = Some(throughput);
    measured.fan_out = Some(if polls {
        0.0
    } else if herd {
        n - 1.0
    } else {
        1.0_f64.min(n - 1.0)
    });
    measured.requests = requests(strategy, n);
    measured.notifications = measured.fan_out;
    measured.overtaken = Some(if polls { 0.23 } else { 0.0 });
    measured.fairness = Some(if polls { 0.81 } else { 0.997 });
    measured.wait = Some(samples(handoff_us * n, 4000, number));
    measured.handoff = (contenders > 1).then(|| samples(handoff_us, 4000, number));
    let acquired = (0..30).map(|s| (throughput * (1.0 + 0.1 * f64::sin(f64::from(s)))) as u64).collect();
    measured.bins = Some(Bins { bin_us: 1_000_000, acquired });
    measured.judged = records::held();
    measured.took_part = contenders as u64;
    measured.accounting = vec![
        line(Counted::Reads, 12_000, Some(12_000), Some(12_000)),
        line(Counted::Writes, 8_000, Some(8_000), Some(8_000)),
        line(Counted::NodeDeleted, 3_999, None, Some(3_999)),
    ];
    measured
}

/// One line of the three-way check.
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

/// What so many waiters hear of releases that wake all of them, each class of ranks twice as late as the one before.
pub fn herd(waiters: u32, number: u32) -> Vec<Woken> {
    let classes = (0..RANK_CLASSES).take_while(|class| (1_u32 << class) / 2 < waiters);
    let late = |class: usize| samples(400.0 * f64::from(1_u32 << class), 1_000, number);
    classes.filter_map(|class| Woken::of(class, &late(class))).collect()
}

/// A long-tailed sample around a mean, without chance.
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

/// Has so many entries beside another found in a trial, and has it judged accordingly.
pub fn violate(repetition: &mut Repetition, times: u64) {
    repetition.violations = times;
    repetition.judged = records::judged(Verdict::Violated(vec![format!("{times} violations")]));
}

/// A trial in which nothing was measured.
pub fn unmeasured() -> Repetition {
    Repetition::unmeasured(0, 1)
}

/// A proved fault of that label, asked for at 3 s and undone at 5 s, after which the lock was acquired again soon.
pub fn fault(label: &str, recovered_us: u64) -> Fault {
    Fault {
        number: 1,
        label: label.into(),
        target: "contender 3 (holder)".into(),
        asked_us: 3_000_000,
        ended_us: Some(5_000_000),
        unproved: None,
        left: None,
        elected_us: None,
        longest_gap_us: Some(recovered_us + 1_000),
        recovered_us: Some(recovered_us),
    }
}

/// A trial with these faults, in which nothing went wrong.
pub fn broken(faults: &[Fault]) -> Broken {
    let number = |(at, fault): (usize, &Fault)| Fault { number: at + 1, ..fault.clone() };
    Broken { faults: faults.iter().enumerate().map(number).collect(), orphans: Some(0), ..Broken::default() }
}

/// Gives every repetition of a view these faults, the recovery a little longer from one to the next.
pub fn break_all(view: &mut View, labels: &[&str]) {
    let mut longer = 20_000_u64;
    for repetition in view.cells.iter_mut().flat_map(|cell| &mut cell.repetitions) {
        longer = longer * 9 / 8 % 7_000_000 + 1_000;
        let mut faults: Vec<Fault> = labels.iter().map(|label| fault(label, longer)).collect();
        for (fault, at) in faults.iter_mut().zip(0_i64..) {
            (fault.asked_us, fault.ended_us) = ((2 + 2 * at) * 1_000_000, Some((3 + 2 * at) * 1_000_000));
        }
        repetition.broken = Some(broken(&faults));
    }
}
