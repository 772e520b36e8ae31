//! Compares one metric of a cell between two sides: by a statistical test, or exactly if the metric is
//! deterministic. Caveats restrict the conclusions of comparisons and gates alike.
//!
//! The geometric mean over all strategies of a run is compared in the same way. A slower host, server version
//! or network affects every lock a little, and the mean shows it with less noise than a single strategy.

use super::differences::{FloorRise, ShareApart, shares, takes_time, unless_generator};
use super::figures::{
    Chosen, Role, VIOLATIONS, better_of, has_too_few_samples, is_determined, leading, reading, readings,
};
use super::judge::{Compared, ComparisonVerdict, Method, Regression, Sample, Scale, Terms, exactly};
use super::side::{CellUnderLoad, LINE, Repetitions, doubt, sound};
use super::test::{Runs, Test};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{grouped, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{Better, Figure, Reading, Trial};
use zklockbench_stats::median;

#[derive(Debug, Clone)]
pub struct BothSides<'a> {
    pub(super) base: Repetitions<'a>,
    pub(super) new: Repetitions<'a>,
    pub(super) caveats: Caveats,
}

/// A comparison of one metric in one cell, before correction for the family.
pub(super) enum Planned {
    Done(Box<Compared>),
    Tested(Test),
}

impl Planned {
    fn done(compared: Compared) -> Self {
        Self::Done(Box::new(compared))
    }

    /// Returns the verdict as one of `family` comparisons.
    pub fn conclude(self, family: usize) -> Compared {
        match self {
            Self::Done(compared) => *compared,
            Self::Tested(test) => test.judge(family),
        }
    }

    pub fn base(self) -> Sample {
        match self {
            Self::Done(compared) => compared.base,
            Self::Tested(test) => test.base,
        }
    }

    /// Returns whether the metric is subject to chance, even if a test was impossible.
    pub fn takes_a_test(&self, figure: Figure) -> bool {
        let is_exact = matches!(self, Self::Done(compared) if compared.method == Some(Method::Exact));
        figure != VIOLATIONS && !is_exact
    }
}

impl<'a> BothSides<'a> {
    /// Pairs the repetitions of two sides; `floor` is the rise of the handoff floor between them.
    pub fn of(base: Repetitions<'a>, new: Repetitions<'a>, floor: Option<FloorRise>) -> Self {
        Self { caveats: Caveats::of(&base, &new, floor), base, new }
    }

    /// Compares one metric as one of `family` comparisons. Invalid trials may leave the verdict unknown.
    pub fn compare(&self, figure: Figure, terms: &Terms, family: usize) -> Compared {
        self.caveats.allow(figure, self.plan(figure, terms).conclude(family))
    }

    pub(super) fn plan(&self, figure: Figure, terms: &Terms) -> Planned {
        let (were, are) = (self.base.trials(), self.new.trials());
        if figure == VIOLATIONS {
            return Planned::done(violations(&were, &are, terms));
        }
        let (was, is) = (readings(&were, figure), readings(&are, figure));
        let why = match (&was, &is) {
            (Ok(was), Ok(is)) => {
                let determined =
                    sound(&were).into_iter().chain(sound(&are)).all(|trial| is_determined(figure, trial));
                if determined && is_constant(was) && is_constant(is) {
                    return Planned::done(exactly(was, is, figure.better()));
                }
                let runs = Runs { base: self.base.by_run(figure, was), new: self.new.by_run(figure, is) };
                return Planned::Tested(Test::of_runs(
                    &runs,
                    better_of(figure),
                    terms.of(figure),
                    Scale::fitting(figure),
                ));
            }
            (Err(was), Err(is)) if was == is => was.why(),
            (Err(was), Err(is)) => format!("base: {}; new: {}", was.why(), is.why()),
            (Err(why), Ok(_)) => format!("base: {}", why.why()),
            (Ok(_), Err(why)) => format!("new: {}", why.why()),
        };
        let [was, is] = [was, is].map(|side| side.map(|readings| Sample::of(&readings)).unwrap_or_default());
        Planned::done(Compared::not_measured(was, is, why))
    }
}

fn is_constant(readings: &[Reading]) -> bool {
    readings.windows(2).all(|pair| pair[0].value == pair[1].value && !pair[0].at_least && !pair[1].at_least)
}

/// Compares violations in all trials, even invalid ones. If the base has no violation, any violation is a
/// regression.
fn violations(base: &[&Trial], new: &[&Trial], terms: &Terms) -> Compared {
    let readings = |trials: &[&Trial]| -> Vec<Reading> {
        trials.iter().filter_map(|trial| trial.reading(VIOLATIONS).ok()).collect()
    };
    let (was, is) = (readings(base), readings(new));
    let any = |readings: &[Reading]| readings.iter().any(|reading| reading.value > 0.0);
    let judged = |trials: &[&Trial]| {
        let unknown = |trial: &&Trial| matches!(trial.judged.exclusion, Verdict::Unknown(_));
        sound(trials).into_iter().find(unknown).map(|trial| {
            let why = trial.judged.exclusion.why().unwrap_or_default();
            shown(&format!("it is unknown whether {} excluded other contenders: {why}", trial.name()), LINE)
        })
    };
    let total = |readings: &[Reading]| [Reading::exact(readings.iter().map(|reading| reading.value).sum())];
    let [before, after] = [total(&was), total(&is)];
    match (any(&was), any(&is)) {
        // Without trials, it is unknown whether the base was free of violations.
        _ if is.is_empty() || was.is_empty() && !any(&is) => {
            let why =
                if was.is_empty() { "the base has no such cell" } else { "the new run has no such cell" };
            Compared::not_measured(Sample::of(&was), Sample::of(&is), why.into())
        }
        (false, true) => exactly(&before, &after, Better::Lower),
        (was_broken, false) => match judged(new).filter(|_| was_broken || judged(base).is_none()) {
            Some(why) => Compared::not_measured(Sample::of(&was), Sample::of(&is), why),
            None => exactly(&before, &after, Better::Lower),
        },
        // A lock that breaks exclusion does so at random, so comparing its failure rates needs a statistical test.
        (true, true) => {
            let found = Test::unpaired(&was, &is, Better::Lower, terms.of(VIOLATIONS)).judge(1);
            let broken = Some("the lock does not exclude on either side".to_owned());
            let why = [broken, found.why].into_iter().flatten().collect::<Vec<_>>().join("; ");
            Compared { why: Some(why), ..found }
        }
    }
}

/// Reasons to restrict the conclusions about a cell.
#[derive(Debug, Clone)]
pub(super) struct Caveats {
    floor: Option<FloorCaveat>,
    /// Influence of the load generator on the metrics of both sides.
    generator: Vec<ShareApart>,
    lost: Option<String>,
}

/// A risen floor, and the share of a cycle that depends on the floor.
#[derive(Debug, Clone, Copy)]
struct FloorCaveat {
    rise: FloorRise,
    requests: f64,
}

impl Caveats {
    pub fn of(base: &Repetitions<'_>, new: &Repetitions<'_>, floor: Option<FloorRise>) -> Self {
        let (were, are) = (base.trials(), new.trials());
        let floor = floor.map(|rise| FloorCaveat { rise, requests: requests_in_a_turn(&were, rise.base_us) });
        Self { floor, generator: shares(&were, &are), lost: doubt(base, new) }
    }

    /// Returns the combined caveats of several cells; `None` if there are none.
    pub fn of_any<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        // The metric covers all cells together, so use the mean share of requests.
        let floors: Vec<FloorCaveat> = cells.clone().filter_map(|cell| cell.floor).collect();
        let requests = floors.iter().map(|floor| floor.requests).sum::<f64>() / floors.len() as f64;
        cells.cloned().reduce(|mut all, one| {
            all.generator.extend(one.generator);
            let floor = all.floor.map(|floor| FloorCaveat { requests, ..floor });
            Self { lost: all.lost.or(one.lost), floor, ..all }
        })
    }

    /// Makes the result for a metric inconclusive if a caveat applies.
    pub fn allow(&self, figure: Figure, found: Compared) -> Compared {
        let found = match self.floor {
            Some(FloorCaveat { rise, requests }) => {
                rise.unless(figure, found, is_of_turns(figure).then_some(requests))
            }
            None => found,
        };
        let found = if takes_time(figure) { unless_generator(&self.generator, found) } else { found };
        unless(self.lost.as_deref(), found)
    }
}

/// Returns whether a metric measures cycles, for which the share of request times is known. For waits in an
/// open load, only a model could determine that share.
fn is_of_turns(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(Measure::Turn, _)) || figure == THROUGHPUT.figure()
}

/// Largest part of a handoff that counts as request time, as a multiple of the floor. Any time beyond that is
/// part of a polling interval.
const FLOORS_MOST: f64 = 4.0;

/// Returns the share of a cycle that requests take in the valid trials; 1 if unknown.
fn requests_in_a_turn(trials: &[&Trial], floor_us: f64) -> f64 {
    let middle = |trial: &Trial, measure| Some(trial.latency(measure)?.p50_us as f64);
    let share = |trial: &&Trial| {
        let handoff = middle(trial, Measure::Handoff)?.min(FLOORS_MOST * floor_us);
        Some((handoff / middle(trial, Measure::Turn)?).min(1.0))
    };
    median(&sound(trials).iter().filter_map(share).collect::<Vec<_>>()).unwrap_or(1.0)
}

impl BothSides<'_> {
    /// Tolerates a regression, unless repetitions were lost: then there may be more.
    pub fn tolerated(&self, found: Compared) -> Compared {
        unless(self.caveats.lost.as_deref(), Compared { regression: Regression::No, ..found })
    }
}

/// Makes a doubtful result inconclusive. A regression remains a regression, even if repetitions are lost.
fn unless(doubt: Option<&str>, found: Compared) -> Compared {
    let is_settled = found.regression == Regression::Yes || found.verdict == ComparisonVerdict::NotMeasured;
    let Some(doubt) = doubt.filter(|_| !is_settled) else { return found };
    let why = found.why.as_ref().map_or_else(|| doubt.to_owned(), |why| format!("{doubt}; {why}"));
    found.inconclusive(why)
}

/// A row of the comparison, before correction for the family.
pub(super) struct PlannedRow {
    pub cell: CellUnderLoad,
    pub strategies: Vec<String>,
    pub chosen: Chosen,
    pub planned: Planned,
    pub caveats: Caveats,
}

/// Returns one row for each number of contenders and locks with at least two strategies on both sides. The
/// row compares the leading metric or, if metrics were selected, the first of them. The row is dropped if that
/// metric does not measure time, or if a strategy lacks it or has too few samples for it.
pub(super) fn together(
    pairs: &[(CellUnderLoad, BothSides<'_>)],
    asked: &[Figure],
    terms: &Terms,
) -> Vec<PlannedRow> {
    let on_both_sides = pairs.iter().filter(|(_, pair)| {
        let has = |side: &Repetitions<'_>| !side.trials().is_empty();
        has(&pair.base) && has(&pair.new)
    });
    let groups = grouped(on_both_sides.map(|(key, pair)| {
        let of_all = CellUnderLoad { strategy: String::new(), ..key.clone() };
        (of_all, (key.strategy.as_str(), pair))
    }));
    let of_group = |(cell, members): (CellUnderLoad, Vec<(&str, &BothSides<'_>)>)| {
        if members.len() < 2 {
            return None;
        }
        let (were, are): (Vec<_>, Vec<_>) =
            members.iter().map(|(_, pair)| (pair.base.trials(), pair.new.trials())).unzip();
        let figure = match asked {
            [] => leading(&cell, &were.concat(), &are.concat()),
            [first, ..] if takes_time(*first) => *first,
            _ => return None,
        };
        if were.iter().chain(&are).any(|trials| has_too_few_samples(trials, figure)) {
            return None;
        }
        let (base, new): (Vec<_>, Vec<_>) = members.iter().map(|(_, pair)| (&pair.base, &pair.new)).unzip();
        let runs = Runs { base: means(&base, figure)?, new: means(&new, figure)? };
        let caveats = Caveats::of_any(members.iter().map(|(_, pair)| &pair.caveats))?;
        let strategies: Vec<String> = members.iter().map(|(name, _)| (*name).to_owned()).collect();
        let cell = CellUnderLoad { strategy: format!("{} strategies together", strategies.len()), ..cell };
        let chosen = Chosen { figure, role: Role::Decides };
        let test = Test::of_runs(&runs, better_of(figure), terms.of_all(figure), Scale::Values);
        Some(PlannedRow { cell, strategies, chosen, planned: Planned::Tested(test), caveats })
    };
    groups.into_iter().filter_map(of_group).collect()
}

/// Returns the geometric means over the strategies, by run, for each repetition that is valid for all
/// strategies. `None` if there is no such repetition, or if a trial lacks the metric.
fn means(strategies: &[&Repetitions<'_>], figure: Figure) -> Option<Vec<Vec<Reading>>> {
    let runs = strategies.iter().map(|of| of.runs.len()).max()?;
    let of_run = |run: usize| {
        let mut repetitions: Vec<u32> =
            strategies[0].sound_in(run).map(|trial| trial.spec.repetition).collect();
        repetitions.sort_unstable();
        let of_repetition = |repetition: u32| {
            let each = strategies
                .iter()
                .map(|of| of.sound_in(run).find(|trial| trial.spec.repetition == repetition));
            each.collect::<Option<Vec<&Trial>>>()
        };
        let trials = repetitions.into_iter().filter_map(of_repetition);
        let read = |trials: Vec<&Trial>| {
            trials.into_iter().map(|trial| reading(trial, figure)).collect::<Option<Vec<Reading>>>()
        };
        trials.map(read).map(|readings| readings.map(|all| mean(&all))).collect::<Option<Vec<Reading>>>()
    };
    let of_runs = (0..runs).map(of_run).collect::<Option<Vec<Vec<Reading>>>>()?;
    let made: Vec<Vec<Reading>> = of_runs.into_iter().filter(|run| !run.is_empty()).collect();
    (!made.is_empty()).then_some(made)
}

fn mean(readings: &[Reading]) -> Reading {
    let logs: f64 = readings.iter().map(|reading| reading.value.ln()).sum();
    Reading {
        value: (logs / readings.len() as f64).exp(),
        at_least: readings.iter().any(|reading| reading.at_least),
        samples: None,
    }
}
