//! From which rate on an open load waits: where the median wait is so many times that of a lock that nobody else wants.
//!
//! Where a curve over rates bends depends on how far it was swept: towards saturation a wait has no scale of its own. What
//! an acquire takes while nobody is in the way is one, and it does not depend on what else was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sample::{Sample, State};
use super::series::{Point, Series};
use crate::answer::stats::median;

/// How many times as long as an idle lock's the median wait has to be.
pub const TIMES: f64 = 10.0;

/// The rate at which the median wait is ten times the idle one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// How many times.
    pub times: f64,
    /// What an acquire takes while no other contender is in the way: the median, in microseconds.
    pub idle_us: f64,
    /// The rate, between two that were measured.
    pub at: f64,
    /// The lower end of its interval of 95 %: where the upper ends of the waits get there. `None` where they are there from
    /// the first rate on.
    pub low: Option<f64>,
    /// The upper end: where the lower ends of the waits get there. `None` where they don't.
    pub high: Option<f64>,
}

/// Where these points get there; or why that is not known.
pub fn saturation(series: &Series, samples: &[Sample]) -> Result<Saturation, String> {
    let own = samples.iter().filter(|sample| {
        sample.strategy == series.strategy
            && sample.at.beside == series.beside
            && sample.state == State::Sound
    });
    let idle: Vec<f64> = own.filter_map(|sample| sample.uncontended_p50).filter(|us| *us > 0.0).collect();
    let Some(idle_us) = median(&idle) else {
        return Err("no acquire found the lock free, so there is no idle wait to compare with".into());
    };
    let waits = |of: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        let known = |point: &Point| Some((point.at.x, of(point)?));
        series.points.iter().filter(|point| point.state == State::Sound).filter_map(known).collect()
    };
    let limit = TIMES * idle_us;
    let at = match reached(&waits(|point| Some(point.wait_p50?.value)), limit) {
        Reached::At(at) => at,
        Reached::FromTheFirst => {
            return Err(format!("the median wait is {TIMES} times the idle one from the first rate on"));
        }
        Reached::Never => return Err(format!("the median wait stays below {TIMES} times the idle one")),
    };
    let end = |of: fn(&Point) -> Option<f64>| match reached(&waits(of), limit) {
        Reached::At(at) => Some(at),
        Reached::FromTheFirst | Reached::Never => None,
    };
    let low = end(|point| point.wait_p50?.high);
    let high = end(|point| point.wait_p50?.low);
    Ok(Saturation { times: TIMES, idle_us, at, low, high })
}

/// Where a curve gets to a limit.
enum Reached {
    At(f64),
    FromTheFirst,
    Never,
}

/// The first place where a curve crosses a limit upwards. Between two points the reciprocal of the wait is a straight line over
/// the rate, as it is for a lock that has so much to do and no more.
fn reached(curve: &[(f64, f64)], limit: f64) -> Reached {
    if curve.first().is_some_and(|(_, wait)| *wait >= limit) {
        return Reached::FromTheFirst;
    }
    let crossing = curve.windows(2).find(|pair| pair[1].1 >= limit);
    crossing.map_or(Reached::Never, |pair| {
        let [(from, below), (to, above)] = [pair[0], pair[1]];
        let share = (below.recip() - limit.recip()) / (below.recip() - above.recip());
        Reached::At(from + share * (to - from))
    })
}
