//! Additional metrics that decide claims, computed from cells, servers, or the source of a lock.

use super::figure::{Figure, Of};
use super::reading::{Needs, Trials};
use super::{ClaimFigures, Evidence, reading};
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::{counted, number};
use zklockbench_record::{Calibration, RawRequest, Trial};
use zklockbench_scenario::Distribution;

/// Adds metrics to the known metrics; returns `None` if evidence is missing.
type Reckon = fn(&Evidence, &mut ClaimFigures) -> Option<()>;

pub fn named(name: &str) -> Option<Reckon> {
    match name {
        "servers" => Some(servers),
        "network-cost" => Some(network_cost),
        "complexity" => Some(complexities),
        _ => None,
    }
}

fn amount(what: impl Into<String>, value: usize) -> Figure {
    Figure::new(what, value as f64, Of::Amount)
}

fn servers(evidence: &Evidence, known: &mut ClaimFigures) -> Option<()> {
    let mut shared = false;
    for servers in [1, 3, 5] {
        let calibration = &evidence.calibration(servers)?.what;
        shared |= calibration.ensemble.shares_host;
        let writes = calibration.synced_writes_per_s?;
        let reads = saturated_reads(calibration)?;
        let title = |what: &str| format!("{}: {what}", counted(servers, "server", "servers"));
        known.put(&format!("writes_{servers}"), Figure::new(title("writes"), writes, Of::PerS));
        known.put(
            &format!("reads_{servers}"),
            Figure::new(title("reads, all servers together"), reads, Of::PerS),
        );
        let alone = write_alone(calibration)? as f64;
        known.put(
            &format!("alone_{servers}"),
            Figure::new(title("median latency of a single write"), alone, Of::Us),
        );
    }
    let shared = f64::from(u8::from(shared));
    known.put("shared", Figure::new("the servers share a host", shared, Of::YesNo));
    Some(())
}

fn saturated_reads(calibration: &Calibration) -> Option<f64> {
    let each = calibration.servers.iter().map(|server| {
        let read = server.requests.iter().find(|request| request.request == RawRequest::GetData)?;
        Some(read.saturated?.per_s)
    });
    each.sum()
}

fn write_alone(calibration: &Calibration) -> Option<u64> {
    let each = calibration.servers.iter().filter_map(|server| {
        let write = server.requests.iter().find(|request| request.request == RawRequest::SetData)?;
        Some(write.alone?.p50_us)
    });
    each.min()
}

const STRATEGIES: [&str; 3] = ["polling", "parent-watch", "predecessor-watch"];
/// The article's classes of these strategies.
const CLASSES: [&str; 3] = ["articles:ZKLock", "articles:ZKLockTwo", "articles:ZKLockThree"];

/// Cost of the three strategies, in the article's order, at one contender count and hold time.
struct CostAt {
    contenders: usize,
    /// Hold, in polling intervals.
    hold: f64,
    requests: [Vec<f64>; 3],
    bytes: [Vec<f64>; 3],
}

impl CostAt {
    fn of(contenders: usize, hold: f64, trials: &[Trials<'_>; 3]) -> Option<Self> {
        let each = |name| -> Option<[Vec<f64>; 3]> {
            let measure = reading::named(name).ok()?;
            let [polling, parent, predecessor] = trials;
            Some([polling.values(&measure)?, parent.values(&measure)?, predecessor.values(&measure)?])
        };
        Some(Self { contenders, hold, requests: each("requests_each")?, bytes: each("bytes_each")? })
    }

    /// Returns the ratios of a strategy's cost to the next strategy's, in requests and bytes.
    fn ratios(&self, place: &str, one: usize) -> Option<[Figure; 2]> {
        let names = ["polling / parent", "parent / predecessor"];
        let of = |what: &str, each: &[Vec<f64>; 3]| {
            Figure::ratio(format!("{place}: {}, {what}", names[one]), &each[one], &each[one + 1])
        };
        Some([of("requests", &self.requests)?, of("bytes", &self.bytes)?])
    }
}

/// Returns the share of polling's waste that parent watch avoids. Waste is the number of requests beyond those of
/// predecessor watch.
fn saved(place: &str, requests: &[Vec<f64>; 3]) -> Option<Figure> {
    let [polling, parent, predecessor] = requests;
    let each = polling.iter().zip(parent).zip(predecessor).map(|((polling, parent), predecessor)| {
        let waste = polling - predecessor;
        if waste > 0.0 { 1.0 - (parent - predecessor) / waste } else { 0.0 }
    });
    let each: Vec<f64> = each.collect();
    Figure::median(format!("{place}: share of polling's waste that parent watch avoids"), &each, Of::Share)
}

/// Smallest factor that counts as "≫".
const FAR_MORE: f64 = 2.0;
/// A larger share counts as "most".
const MOST: f64 = 0.5;

/// Counts the cells in which each relation holds, and finds the shortest hold or the fewest contenders among
/// these cells.
fn network_cost(evidence: &Evidence, known: &mut ClaimFigures) -> Option<()> {
    let cells = by_cell(&evidence.trials("articles-network-cost"))?;
    let (printed, served) = (evidence.trials("articles-printed"), reading::named("served_each").ok()?);
    let each = |label: &str| printed.clone().of(&[label.to_owned()]).fit_for(Needs::ItsEnd).values(&served);
    let [polling, parent, predecessor] = CLASSES.map(each);
    known.put("saved", saved("article's setting", &[polling?, parent?, predecessor?])?);
    let (mut first, mut second, mut saves) = (Vec::new(), Vec::new(), Vec::new());
    for cell in &cells {
        let place = format!("{} contenders, hold of {} intervals", cell.contenders, number(cell.hold));
        for (one, holds) in [(0, &mut first), (1, &mut second)] {
            let ratios = cell.ratios(&place, one)?;
            if ratios.iter().all(|ratio| ratio.low() >= FAR_MORE) {
                holds.push(if one == 0 { cell.hold } else { cell.contenders as f64 });
            }
            ratios.into_iter().for_each(|ratio| known.put(&ratio.what.clone(), ratio));
        }
        let saved = saved(&place, &cell.requests)?;
        if saved.low() > MOST {
            saves.push(cell.hold);
        }
        known.put(&saved.what.clone(), saved);
    }
    known.put("cells", amount("combinations of contenders and hold", cells.len()));
    for (name, what, from, holds) in [
        ("first", "polling ≫ parent watch", "shortest hold, in polling intervals", &first),
        ("second", "parent watch ≫ predecessor watch", "fewest contenders", &second),
        ("saves", "parent watch saves most of the waste", "shortest hold, in polling intervals", &saves),
    ] {
        known.put(name, amount(format!("cells in which {what}"), holds.len()));
        let least = holds.iter().copied().reduce(f64::min);
        let from = Figure::new(format!("{what}: {from}"), least.unwrap_or_default(), Of::Amount);
        known.put(&format!("{name}_from"), from);
    }
    Some(())
}

fn counted_of<'a>(trials: &Trials<'a>, strategy: &str) -> Trials<'a> {
    let mut of_it = trials.clone().fit_for(Needs::ItsEnd);
    of_it.0.retain(|trial| trial.spec.strategy.name == strategy);
    of_it
}

/// Returns the cost of the three strategies at each contender count and hold time.
fn by_cell(trials: &Trials<'_>) -> Option<Vec<CostAt>> {
    let [polling, parent, predecessor] = STRATEGIES.map(|name| counted_of(trials, name));
    let cell = |trial: &&Trial| Some((trial.spec.contenders, hold_in_intervals(trial)?));
    let mut cells: Vec<(usize, f64)> = polling.0.iter().map(cell).collect::<Option<_>>()?;
    cells.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    cells.dedup();
    let cost = |(contenders, hold): (usize, f64)| {
        let [mut polling, parent, predecessor] =
            [&polling, &parent, &predecessor].map(|of| of.clone().at(Some(contenders)));
        polling.0.retain(|trial| hold_in_intervals(trial) == Some(hold));
        CostAt::of(contenders, hold, &[polling, parent, predecessor])
    };
    let costs: Vec<CostAt> = cells.into_iter().map(cost).collect::<Option<_>>()?;
    (!costs.is_empty()).then_some(costs)
}

fn hold_in_intervals(trial: &Trial) -> Option<f64> {
    let holds = trial.spec.all_holds();
    let (Distribution::Fixed(hold), Some(ParamValue::Duration(interval))) =
        (holds, trial.spec.strategy.params.get("poll_interval"))
    else {
        return None;
    };
    (!interval.is_zero()).then(|| hold.as_secs_f64() / interval.as_secs_f64())
}

/// Measures the complexity of the three strategies, on the wire and in the source.
fn complexities(evidence: &Evidence, known: &mut ClaimFigures) -> Option<()> {
    let trials = evidence.trials("articles-batch");
    let sources = evidence.sources?.map(complexity);
    let kinds = STRATEGIES.into_iter().map(|name| kinds(&counted_of(&trials, name)));
    let measures = [
        ("kinds", "kinds of requests and events", kinds.collect::<Option<Vec<usize>>>()?),
        ("lines", "lines", sources.iter().map(|one| one.lines).collect()),
        ("branches", "branches", sources.iter().map(|one| one.branches).collect()),
        ("states", "states in which it waits", sources.iter().map(|one| one.states).collect()),
    ];
    let rising = measures.iter().filter(|(_, _, each)| each.is_sorted_by(|one, other| one < other)).count();
    for (id, what, each) in &measures {
        for ((strategy, short), count) in
            STRATEGIES.iter().zip(["polling", "parent", "predecessor"]).zip(each)
        {
            known.put(&format!("{id}_{short}"), amount(format!("{strategy}: {what}"), *count));
        }
    }
    known.put("measures", amount("measures", measures.len()));
    known.put("rising", amount("measures by which each class exceeds the one before", rising));
    Some(())
}

/// Returns the number of kinds of requests and events that occurred in the trials.
fn kinds(trials: &Trials<'_>) -> Option<usize> {
    let any = |count: &dyn Fn(&Trial) -> u64| trials.0.iter().any(|trial| count(trial) > 0);
    let requests =
        RequestKind::ALL.into_iter().filter(|kind| any(&|trial| trial.whole.requests.get(*kind))).count();
    let events = [
        any(&|trial| trial.whole.notifications.node_deleted),
        any(&|trial| trial.whole.notifications.children_changed),
        any(&|trial| trial.whole.notifications.data_changed),
        any(&|trial| trial.whole.notifications.node_created),
    ];
    (!trials.0.is_empty()).then(|| requests + events.into_iter().filter(|any| *any).count())
}

/// Complexity of a class, excluding its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Complexity {
    /// Lines of code, excluding empty lines, comments and imports.
    lines: usize,
    /// Branches: conditions, loops, cases, caught exceptions.
    branches: usize,
    /// Number of states in which the class waits for a reply, an event or a timer.
    states: usize,
}

fn complexity(source: &str) -> Complexity {
    let is_code = |line: &&str| !["", "//", "/**", "*", "import "].iter().any(|other| is_begun(line, other));
    let lines: Vec<&str> = source.lines().map(str::trim).filter(is_code).collect();
    let times = |words: &[&str]| -> usize {
        lines.iter().map(|line| words.iter().map(|word| line.matches(word).count()).sum::<usize>()).sum()
    };
    Complexity {
        lines: lines.len(),
        branches: times(&["if (", "while (", "catch (", "case ", " && ", " || "]),
        states: times(&["client.", "Thread.sleep(", "this::"]),
    }
}

/// Returns whether a line starts with the prefix; an empty prefix matches only empty lines.
fn is_begun(line: &str, with: &str) -> bool {
    if with.is_empty() { line.is_empty() } else { line.starts_with(with) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_lines_exclude_comments_and_imports() {
        let source = "import java.util.List;\n\n/** If (it) waits. */\nfinal class Lock {\n    // while (so)\n    \
                      void take() {\n        if (first() && client.exists(path)) return;\n        Thread.sleep(1);\n    }\n}\n";
        assert_eq!(complexity(source), Complexity { lines: 6, branches: 2, states: 2 });
    }
}
