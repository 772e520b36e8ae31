//! What the load generator itself adds to the figures of either side, and what may not be concluded where that is not the same.

use super::judge::Compared;
use super::verdict::{ComparisonVerdict, Regression};
use crate::answer::stats::median;
use crate::results::record::Trial;
use crate::words::units::percent;

struct OwnShare {
    what: &'static str,
    of: fn(&Trial) -> Option<f64>,
}

const SHARES: [OwnShare; 2] = [
    OwnShare {
        what: "the share of a handoff that is the load generator's own lag",
        of: |trial| trial.health.lag_share,
    },
    OwnShare {
        what: "the share by which locks were held longer than intended",
        of: |trial| trial.health.hold_overshoot_share,
    },
];

const PART_OF_MARGIN: f64 = 0.5;
/// From here on a difference is told.
const APART: f64 = 0.05;

/// That the generator's share is not the same on both sides, in the trials that count of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShareApart {
    pub what: &'static str,
    pub base: f64,
    pub new: f64,
}

pub(super) fn shares(base: &[&Trial], new: &[&Trial]) -> Vec<ShareApart> {
    let of = |trials: &[&Trial], share: &OwnShare| {
        let sound = trials.iter().filter(|trial| trial.is_sound());
        median(&sound.filter_map(|trial| (share.of)(trial)).collect::<Vec<_>>())
    };
    let apart = |share: &OwnShare| {
        Some(ShareApart { what: share.what, base: of(base, share)?, new: of(new, share)? })
    };
    SHARES.iter().filter_map(apart).collect()
}

impl ShareApart {
    pub fn is_told(&self) -> bool {
        (self.new - self.base).abs() > APART
    }

    pub fn told(&self) -> [String; 2] {
        [self.base, self.new].map(percent)
    }
}

/// What was found of a figure that takes time, unless it is worse and the generator's share grew by more than its part.
pub(super) fn unless_generator(shares: &[ShareApart], found: Compared) -> Compared {
    let Some(margin) = found.margin.filter(|_| found.regression == Regression::Yes) else { return found };
    let grew = shares.iter().find(|share| share.new - share.base > PART_OF_MARGIN * margin);
    let Some(grew) = grew else { return found };
    let [was, is] = grew.told();
    Compared {
        verdict: ComparisonVerdict::Inconclusive,
        regression: Regression::Unknown,
        why: Some(format!(
            "{} rose from {was} to {is}, more than half of the margin: compare again with fewer contenders or more \
             generator threads",
            grew.what
        )),
        ..found
    }
}
