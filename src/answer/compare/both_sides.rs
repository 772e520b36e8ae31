//! A cell on both sides, and one figure of it: by a test, or by counting where nothing is left to chance.

use super::caveats::Caveats;
use super::chosen::{VIOLATIONS, is_determined};
use super::differences::FloorRise;
use super::judge::Terms;
use super::judge::{Compared, Method, Sample, Scale, exactly};
use super::lost::Repetitions;
use super::side;
use super::side::{LINE, readings, sound};
use super::test::{Runs, Test, judge};
use crate::results::record::{Better, Figure, Reading, Trial};
use crate::words::units::shown;

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

    pub fn p(&self) -> Option<f64> {
        match self {
            Self::Done(_) => None,
            Self::Tested(test) => test.p(),
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
        let found = match self.plan(figure, terms) {
            Planned::Done(compared) => *compared,
            Planned::Tested(test) => test.alone(family),
        };
        self.caveats.allow(figure, found)
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
                    side::better_of(figure),
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
        trials.iter().filter_map(|trial| VIOLATIONS.of(trial).ok()).collect()
    };
    let (was, is) = (readings(base), readings(new));
    let any = |readings: &[Reading]| readings.iter().any(|reading| reading.value > 0.0);
    let judged = |trials: &[&Trial]| {
        use crate::words::verdict::Verdict as Judged;
        let unknown = |trial: &&Trial| matches!(trial.judged.exclusion, Judged::Unknown(_));
        sound(trials).into_iter().find(unknown).map(|trial| {
            let why = trial.judged.exclusion.why().unwrap_or_default();
            shown(&format!("whether {} excluded is not known: {why}", trial.name()), LINE)
        })
    };
    let total = |readings: &[Reading]| {
        let value = readings.iter().map(|reading| reading.value).sum();
        [Reading { value, at_least: false, samples: None }]
    };
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
            let found = judge(&was, &is, Better::Lower, terms.of(VIOLATIONS), 1);
            let broken = Some("the lock does not exclude on either side".to_owned());
            let why = [broken, found.why].into_iter().flatten().collect::<Vec<_>>().join("; ");
            Compared { why: Some(why), ..found }
        }
    }
}
