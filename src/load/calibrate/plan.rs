//! How much is measured: within a time, or so often.

use std::time::Duration;

/// How long, and how often at most, one thing is measured at a stretch. It is done at least once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Nothing begins after that time.
    pub lasts: Duration,
    pub rounds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationPlan {
    /// How often all of it is done, one after the other.
    pub rounds: u32,
    /// Whether an eighth of a round is done before, for nothing: so that the servers have met every kind of request.
    pub rehearses: bool,
    /// How long nothing is done before each handoff and each uncontended acquire; `None` where they follow one another.
    pub rest: Option<Duration>,
    /// Handoffs and uncontended acquires of a round: one of each pair of servers and one on each server, so often.
    pub handoffs: Slice,
    /// Each kind of request on each server, alone.
    pub alone: Slice,
    /// Each kind of request on each server, as many as possible at once.
    pub saturation: Duration,
}

/// The parts of the time that handoffs, requests alone, and saturation get. The rest is for what cannot be cut short:
/// preparing, and deleting what was created.
const SHARES: [f64; 3] = [0.3, 0.3, 0.3];
const REHEARSAL: u32 = 8;
/// What is measured alone on each server: ten kinds of request, watches, sessions, `ruok`.
const ALONE: u32 = 13;
const SATURATED: u32 = 10;
/// More samples of a kind of request tell nothing more.
const SAMPLES: u64 = 500;

impl CalibrationPlan {
    /// All that fits into that time on so many servers.
    pub fn within(budget: Duration, servers: usize, rest: Option<Duration>) -> Self {
        // A short one has no time for rounds that would each be a handful of samples.
        let rounds = if budget >= Duration::from_secs(20) { 4 } else { 1 };
        let servers = u32::try_from(servers.max(1)).unwrap_or(u32::MAX);
        let in_a_round = |share| budget.mul_f64(share) * REHEARSAL / (rounds * REHEARSAL + 1);
        let [handoffs, alone, saturation] = SHARES.map(in_a_round);
        Self {
            rounds,
            rehearses: true,
            rest,
            handoffs: Slice { lasts: handoffs, rounds: u64::MAX },
            alone: Slice { lasts: alone / servers / ALONE, rounds: SAMPLES },
            saturation: saturation / servers / SATURATED,
        }
    }

    /// What is done before, and for nothing; `None` where nothing is to be.
    pub(super) fn rehearsal(&self) -> Option<Self> {
        let short = |slice: Slice| Slice {
            lasts: slice.lasts / REHEARSAL,
            rounds: (slice.rounds / u64::from(REHEARSAL)).max(1),
        };
        self.rehearses.then(|| Self {
            rounds: 1,
            rehearses: false,
            rest: self.rest,
            handoffs: short(self.handoffs),
            alone: short(self.alone),
            saturation: self.saturation / REHEARSAL,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_planned_fits_into_the_time_that_there_is(seconds in 1_u64..600, servers in 1_usize..9) {
            let budget = Duration::from_secs(seconds);
            let plan = CalibrationPlan::within(budget, servers, None);
            let servers = u32::try_from(servers).unwrap();
            let a_round = |plan: &CalibrationPlan| {
                plan.handoffs.lasts + (plan.alone.lasts * ALONE + plan.saturation * SATURATED) * servers
            };
            prop_assert!(a_round(&plan) * plan.rounds + a_round(&plan.rehearsal().unwrap()) <= budget);
            prop_assert!(plan.saturation > Duration::ZERO && plan.alone.rounds > 0);
        }
    }
}
