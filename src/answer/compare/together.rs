//! All strategies of a run together. A slower host, release or network shows in every lock a little; the geometric mean over the
//! strategies of a repetition shows it with less noise than any of them.

use super::both_sides::BothSides;
use super::caveats::Caveats;
use super::chosen::leading;
use super::differences::takes_time;
use super::judge::Scale;
use super::judge::Terms;
use super::lost::Repetitions;
use super::side;
use super::side::{CellUnderLoad, reading};
use super::test::{Runs, Test};
use crate::results::record::{Figure, Reading, Trial};
use crate::words::units::grouped;

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
        Test::of_runs(&self.runs, side::better_of(self.figure), terms.of_all(self.figure), Scale::Values)
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
        let [base, new]: [Vec<&Repetitions<'_>>; 2] = [
            members.iter().map(|(_, pair)| &pair.base).collect(),
            members.iter().map(|(_, pair)| &pair.new).collect(),
        ];
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
    let runs = strategies.iter().map(|of| of.runs().len()).max()?;
    let of_run = |run: usize| {
        let mut repetitions: Vec<u32> =
            strategies[0].sound_in(run).map(|trial| trial.spec.repetition).collect();
        repetitions.sort_unstable();
        let of_repetition = |repetition: u32| {
            let mut trials: Vec<&Trial> = Vec::new();
            for of in strategies {
                trials.extend(of.sound_in(run).find(|trial| trial.spec.repetition == repetition));
            }
            (trials.len() == strategies.len()).then_some(trials)
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
