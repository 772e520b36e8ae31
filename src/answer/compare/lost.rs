//! Repetitions that a side lost, and what may not be concluded without them.

use super::judge::Compared;
use super::side::{CellUnderLoad, unsound_because};
use super::side::{Loaded, Side};
use super::verdict::{ComparisonVerdict, Regression};
use crate::results::record::Trial;
use crate::words::units::{counted, grouped};

/// The repetitions of a cell of one side: those that were made, and how many there were to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repetitions<'a> {
    /// Those that were made, sound or not, run by run.
    runs: Vec<Vec<&'a Trial>>,
    asked: usize,
    /// For how many of these there is a sound trial.
    kept: usize,
}

impl Side {
    pub fn repetitions(&self, is_of: impl Fn(&Trial) -> bool) -> Repetitions<'_> {
        self.runs.iter().map(|run| Repetitions::of_run(run, &is_of)).fold(
            Repetitions::default(),
            |mut all, run| {
                all.runs.extend(run.runs);
                Repetitions { runs: all.runs, asked: all.asked + run.asked, kept: all.kept + run.kept }
            },
        )
    }
}

impl<'a> Repetitions<'a> {
    fn of_run(run: &'a Loaded, is_of: impl Fn(&Trial) -> bool) -> Self {
        let trials: Vec<&Trial> = run.stored.trials.iter().filter(|trial| is_of(trial)).collect();
        let repetitions = grouped(trials.iter().map(|trial| (trial.spec.repetition, trial.is_sound())));
        let kept = repetitions.iter().filter(|(_, sound)| sound.contains(&true)).count();
        // A run that ended before its first trial lacks every cell; where others are there, this is none of its own.
        let has_others = trials.is_empty() && !run.stored.trials.is_empty();
        let asked = if has_others { 0 } else { repetitions.len().max(planned(run)) };
        Self { runs: vec![trials], asked, kept }
    }

    /// Those that were made, sound or not, in the order of running.
    pub fn trials(&self) -> Vec<&'a Trial> {
        self.runs.concat()
    }

    /// The same, run by run, of every run of the side.
    pub(super) fn runs(&self) -> &[Vec<&'a Trial>] {
        &self.runs
    }

    pub(super) fn sound_in(&self, run: usize) -> impl Iterator<Item = &'a Trial> {
        self.runs.get(run).into_iter().flatten().copied().filter(|trial| trial.is_sound())
    }

    /// What there is one of for each sound repetition, by run; runs without any are left out.
    pub(super) fn by_run<T: Clone>(&self, of_each: &[T]) -> Vec<Vec<T>> {
        let mut left = of_each;
        let of_run = |trials: &Vec<&Trial>| {
            let sound = trials.iter().filter(|trial| trial.is_sound()).count();
            let (taken, rest) = left.split_at(sound.min(left.len()));
            left = rest;
            taken.to_vec()
        };
        self.runs.iter().map(of_run).filter(|run| !run.is_empty()).collect()
    }

    fn lost(&self) -> usize {
        self.asked - self.kept
    }

    fn share(&self) -> String {
        format!("{} of {}", self.lost(), counted(self.asked, "repetition", "repetitions"))
    }

    /// Too many are lost for what is left to stand for all: more than every third, as in an A/B comparison.
    fn are_too_few(&self) -> bool {
        3 * self.lost() > self.asked
    }

    /// Why the first that is lost is.
    fn why(&self) -> String {
        let unsound = self.runs.iter().flatten().find_map(|trial| unsound_because(trial));
        unsound.unwrap_or_else(|| "the run ended before it".to_owned())
    }
}

/// How many repetitions of each cell a run was to make: every cell has as many.
fn planned(run: &Loaded) -> usize {
    let ran = grouped(run.stored.trials.iter().map(|trial| (CellUnderLoad::of(trial), ()))).len();
    let cells = if ran == 0 { run.stored.run.strategies.len() } else { ran };
    run.stored.run.planned_trials.div_ceil(cells.max(1))
}

/// Why what is left of both sides shows of nothing that it is no worse; `None` where it may.
///
/// What spoils a repetition may be what makes it slow: the new must not have lost more of them than the base.
pub(super) fn doubt(base: &Repetitions<'_>, new: &Repetitions<'_>) -> Option<String> {
    if new.lost() * base.asked > base.lost() * new.asked {
        return Some(format!(
            "the new lost {}, the base {}, and what spoils one may be what makes it slow: {}",
            new.share(),
            base.lost(),
            new.why()
        ));
    }
    let few = [("base", base), ("new", new)].into_iter().find(|(_, side)| side.are_too_few())?;
    Some(format!("the {} lost {}, so too few are left: {}", few.0, few.1.share(), few.1.why()))
}

/// What was found, unless it is doubtful: what is worse although repetitions are lost is worse all the same.
pub(super) fn unless(doubt: Option<&str>, found: Compared) -> Compared {
    let (Some(doubt), false) = (doubt, found.regression == Regression::Yes) else { return found };
    if found.verdict == ComparisonVerdict::NotMeasured {
        return found;
    }
    let why = [Some(doubt.to_owned()), found.why].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Compared {
        verdict: ComparisonVerdict::Inconclusive,
        regression: Regression::Unknown,
        why: Some(why),
        ..found
    }
}
