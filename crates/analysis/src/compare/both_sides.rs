//! A cell on both sides, and one figure of it: by a test, or by counting where nothing is left to chance; and what may not be
//! concluded of the cell, whatever its figures came to, for a comparison and for a gate alike.
//!
//! The same of all strategies of a run together. A slower host, release or network shows in every lock a little; the geometric
//! mean over the strategies of a repetition shows it with less noise than any of them.

use super::differences::{FloorRise, ShareApart, shares, takes_time, unless_generator};
use super::figures::{VIOLATIONS, better_of, is_determined, leading, reading, readings};
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

/// What there is of a figure in a cell before the family is corrected.
pub(super) enum Planned {
    Done(Box<Compared>),
    Tested(Test),
}

impl Planned {
    fn done(compared: Compared) -> Self {
        Self::Done(Box::new(compared))
    }

    /// The verdict as one of so many comparisons.
    pub fn conclude(self, family: usize) -> Compared {
        match self {
            Self::Done(compared) => *compared,
            Self::Tested(test) => test.judge(family),
        }
    }

    /// Whether it is one of those that chance can make differ. A test that could not be made is.
    pub fn takes_a_test(&self, figure: Figure) -> bool {
        let is_exact = matches!(self, Self::Done(compared) if compared.method == Some(Method::Exact));
        figure != VIOLATIONS && !is_exact
    }
}

impl<'a> BothSides<'a> {
    /// `floor` is by how much the floor of a handoff rose between the sides.
    pub fn of(base: Repetitions<'a>, new: Repetitions<'a>, floor: Option<FloorRise>) -> Self {
        Self { caveats: Caveats::of(&base, &new, floor), base, new }
    }

    /// Compares one figure as one of `family` comparisons: for callers that ask for no more, such as a gate. Trials that are
    /// not sound do not count, and what they leave unknown is.
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
                let runs = Runs { base: self.base.by_run(was), new: self.new.by_run(is) };
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

/// The violations in the trials of a cell, those that do not count otherwise among them. One is enough: where the base
/// has none, the new is worse by any.
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
            shown(&format!("whether {} excluded is not known: {why}", trial.name()), LINE)
        })
    };
    let total = |readings: &[Reading]| [Reading::exact(readings.iter().map(|reading| reading.value).sum())];
    let [before, after] = [total(&was), total(&is)];
    match (any(&was), any(&is)) {
        // What the base does not have it has not violated.
        _ if is.is_empty() || was.is_empty() && !any(&is) => {
            let why =
                if was.is_empty() { "the base has no such cell" } else { "the new run has no such cell" };
            Compared::not_measured(Sample::of(&was), Sample::of(&is), why.into())
        }
        (false, true) => exactly(&before, &after, Better::Lower),
        (true, false) | (false, false) => match judged(new).filter(|_| judged(base).is_none()) {
            Some(why) => Compared::not_measured(Sample::of(&was), Sample::of(&is), why),
            None => exactly(&before, &after, Better::Lower),
        },
        // How often a lock fails that does not exclude is chance, so it takes a test to tell.
        (true, true) => {
            let found = Test::unpaired(&was, &is, Better::Lower, terms.of(VIOLATIONS)).judge(1);
            let broken = Some("the lock does not exclude on either side".to_owned());
            let why = [broken, found.why].into_iter().flatten().collect::<Vec<_>>().join("; ");
            Compared { why: Some(why), ..found }
        }
    }
}

/// What of both sides of a cell speaks against a verdict.
#[derive(Debug, Clone)]
pub(super) struct Caveats {
    floor: Option<FloorCaveat>,
    /// What the load generator adds to figures on either side.
    generator: Vec<ShareApart>,
    lost: Option<String>,
}

/// A floor that rose, and how much of a figure of turns depends on it.
#[derive(Debug, Clone, Copy)]
struct FloorCaveat {
    rise: FloorRise,
    requests: f64,
}

impl Caveats {
    pub fn of(base: &Repetitions<'_>, new: &Repetitions<'_>, floor: Option<FloorRise>) -> Self {
        let (were, are) = (base.trials(), new.trials());
        let floor =
            floor.map(|rise| FloorCaveat { rise, requests: requests_in_a_turn(&were, rise.base_us()) });
        Self { floor, generator: shares(&were, &are), lost: doubt(base, new) }
    }

    /// Of several cells together: what speaks against any of them; `None` of none.
    pub fn of_any<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        // Turns of all are told together, so it is the mean share of requests that counts.
        let floors: Vec<FloorCaveat> = cells.clone().filter_map(|cell| cell.floor).collect();
        let requests = floors.iter().map(|floor| floor.requests).sum::<f64>() / floors.len() as f64;
        cells.cloned().reduce(|mut all, one| {
            all.generator.extend(one.generator);
            let floor = all.floor.map(|floor| FloorCaveat { requests, ..floor });
            Self { lost: all.lost.or(one.lost), floor, ..all }
        })
    }

    /// What was found of a figure, as far as it may be concluded.
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

/// Whether a figure is of turns, of which holds are a part that does not depend on how long a request takes. How far waits in an
/// open load grow with that is not known without a model.
fn is_of_turns(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(Measure::Turn, _)) || figure == THROUGHPUT.figure()
}

/// A handoff takes so many times its floor at most because of requests. What is more is an interval between two looks.
const FLOORS_MOST: f64 = 4.0;

/// The share of a turn that requests take, in the trials that count; 1 where that is not known.
fn requests_in_a_turn(trials: &[&Trial], floor_us: f64) -> f64 {
    let middle = |trial: &Trial, measure| Some(trial.latency(measure)?.p50_us as f64);
    let share = |trial: &&Trial| {
        let handoff = middle(trial, Measure::Handoff)?.min(FLOORS_MOST * floor_us);
        Some((handoff / middle(trial, Measure::Turn)?).min(1.0))
    };
    median(&sound(trials).iter().filter_map(share).collect::<Vec<_>>()).unwrap_or(1.0)
}

/// What was found, unless it is doubtful: what is worse although repetitions are lost is worse all the same.
fn unless(doubt: Option<&str>, found: Compared) -> Compared {
    let is_settled = found.regression == Regression::Yes || found.verdict == ComparisonVerdict::NotMeasured;
    let Some(doubt) = doubt.filter(|_| !is_settled) else { return found };
    let why = found.why.as_ref().map_or_else(|| doubt.to_owned(), |why| format!("{doubt}; {why}"));
    found.inconclusive(why)
}

/// A figure over all strategies with as many contenders and locks.
pub(super) struct Together {
    pub cell: CellUnderLoad,
    pub strategies: Vec<String>,
    pub figure: Figure,
    pub caveats: Caveats,
    runs: Runs,
}

impl Together {
    pub fn of_base(&self) -> Vec<Reading> {
        self.runs.base.concat()
    }

    pub fn test(&self, terms: &Terms) -> Test {
        Test::of_runs(&self.runs, better_of(self.figure), terms.of_all(self.figure), Scale::Values)
    }
}

/// One for each number of contenders and locks for which both sides have two strategies or more: of the leading figure or, where
/// others were asked for, of the first, if it takes time. None if it was measured of some of them only.
pub(super) fn together(pairs: &[(CellUnderLoad, BothSides<'_>)], asked: &[Figure]) -> Vec<Together> {
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
        let (base, new): (Vec<_>, Vec<_>) = members.iter().map(|(_, pair)| (&pair.base, &pair.new)).unzip();
        let runs = Runs { base: means(&base, figure)?, new: means(&new, figure)? };
        let caveats = Caveats::of_any(members.iter().map(|(_, pair)| &pair.caveats))?;
        let strategies: Vec<String> = members.iter().map(|(name, _)| (*name).to_owned()).collect();
        let cell = CellUnderLoad { strategy: format!("{} strategies together", strategies.len()), ..cell };
        Some(Together { cell, strategies, figure, caveats, runs })
    };
    groups.into_iter().filter_map(of_group).collect()
}

/// The geometric mean over the strategies for each repetition that is sound for all, by run; `None` if there is none, or one
/// of these trials has no such figure.
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
