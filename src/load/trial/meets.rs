//! Where a trial's workers wait for each other, and whether their parts make one load.

use std::time::Duration;

use super::super::rendezvous::Meeting;
use super::{Conductor, INTERRUPTED};
use crate::record::Cause;
use crate::scenario::{Stop, TrialSpec};

/// How far apart workers may begin, as a share of the shortest phase.
const SPREAD_AT_MOST: f64 = 0.1;

/// What the workers of a run meet for in each trial, and the stamp that they leave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meets {
    /// All have their sessions: the load may begin.
    Connected,
    Started,
    /// Nothing is under way any more.
    Drained,
}

impl Meets {
    /// Its name among the meetings of a run.
    pub(super) fn of_trial(self, trial: usize) -> String {
        let what = match self {
            Self::Connected => "connected",
            Self::Started => "started",
            Self::Drained => "drained",
        };
        format!("t{trial:03}-{what}")
    }
}

impl<'a> Conductor<'a> {
    /// Where this worker is one of several, comes to one of their meetings of this trial.
    pub(super) async fn come_to(&mut self, what: Meets) -> Option<Meeting<'a>> {
        let rendezvous = self.environment.rendezvous.as_ref()?;
        let name = what.of_trial(self.shared.spec.index);
        let met = self.interrupt.run_until_cancelled(rendezvous.meet(&name)).await;
        if met.is_none() {
            self.cut_short(Cause::Interrupted, INTERRUPTED);
        }
        met
    }

    /// Goes on from a meeting with the others, unless one is missing, which cuts the trial short.
    pub(super) async fn go_on_from(&mut self, meeting: Option<Meeting<'a>>) {
        let Some(meeting) = meeting else { return };
        match self.interrupt.run_until_cancelled(meeting.release()).await {
            Some(Ok(())) => {}
            Some(Err(failed)) => self.cut_short(Cause::WorkerLost, failed.to_string()),
            None => self.cut_short(Cause::Interrupted, INTERRUPTED),
        }
    }

    /// How far apart the workers began, on the leading server's clock; `None` where another worker finds out, or of one only.
    pub(super) async fn start_spread(&self) -> Option<Result<Duration, String>> {
        let rendezvous = self.environment.rendezvous.as_ref().filter(|one| one.slice.leads())?;
        if self.cut_short.is_some() {
            return None;
        }
        Some(rendezvous.spread(&Meets::Started.of_trial(self.shared.spec.index)).await)
    }

    /// Why the workers' parts don't make one load.
    pub(super) fn too_far_apart(&self, spread: &Result<Duration, String>) -> Option<String> {
        let spread = match spread {
            Ok(spread) => *spread,
            Err(why) => return Some(format!("it is not known how far apart the workers began: {why}")),
        };
        let shortest = shortest_phase(&self.shared.spec)?;
        (spread > shortest.mul_f64(SPREAD_AT_MOST)).then(|| {
            format!(
                "the workers began {} apart, which is more than {:.0} % of the shortest phase ({}); use longer phases, or \
                 hosts that are not as busy",
                humantime::format_duration(spread),
                100.0 * SPREAD_AT_MOST,
                humantime::format_duration(shortest)
            )
        })
    }
}

/// The shortest of the phases whose length is known before; `None` where acquisitions end the only one.
fn shortest_phase(spec: &TrialSpec) -> Option<Duration> {
    let measured = match spec.stop {
        Stop::After(duration) => duration,
        Stop::Acquisitions(_) => Duration::ZERO,
    };
    [spec.ramp_up, spec.warm_up_at_most.max(spec.warm_up), measured]
        .into_iter()
        .filter(|phase| !phase.is_zero())
        .min()
}
