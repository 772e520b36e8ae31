//! Whether the queue of an open load grew, so that there is no steady state to speak of.

use std::time::Duration;

use crate::measure::growth;
use crate::record::Trial;

/// Judges the backlog of an open load, by the samples that the trial keeps.
pub fn judge(trial: &mut Trial) {
    let open = trial.arrived.is_some();
    if let Some(steady) = trial.steady.as_mut().filter(|_| open) {
        let samples: Vec<f64> = steady.backlog.iter().map(|waiting| *waiting as f64).collect();
        steady.queue = Some(growth(&samples, Duration::from_micros(steady.slot_us)));
    }
}
