//! Whether the queue of an open load grew, so that there is no steady state to speak of.

use crate::measure::growth;
use crate::record::Trial;

/// Judges the backlog of an open load, by the samples that the trial keeps.
pub fn judge(trial: &mut Trial) {
    let open = trial.arrived.is_some();
    if let Some(steady) = trial.steady.as_mut().filter(|_| open) {
        let samples: Vec<f64> = steady.backlog.iter().map(|waiting| *waiting as f64).collect();
        steady.queue = Some(growth(&samples, steady.slot_us as f64 / 1e6));
    }
}
