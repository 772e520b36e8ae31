//! Whether the generator itself was fit to measure, as the files hold it.

use serde::{Deserialize, Serialize};

use crate::record::Health;

/// What the tool watched of itself and of its host during the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredHealth {
    /// Whether the trial is valid: `invalid` is null.
    pub valid: bool,
    /// Why the trial is invalid; `None` when generator and ensemble held up.
    pub invalid: Option<String>,
    /// Lateness of a periodic timer on the generator's own runtime, 99th percentile.
    pub timer_lag_p99_us: u64,
    /// The largest such lateness.
    pub timer_lag_max_us: u64,
    /// Time from a reply's or notification's arrival to its contender running, 99th percentile.
    pub dispatch_lag_p99_us: u64,
    /// Share of the mean handoff (or wait) that was the generator's own lag, between 0 and 1.
    pub lag_share: Option<f64>,
    /// Processor time used by the generator's process.
    pub cpu_us: u64,
    /// That time as a share of one core.
    pub cpu_share: f64,
    /// Share of the host's processor time that was idle, if the host tells.
    pub host_idle_share: Option<f64>,
    /// Share that the hypervisor took, if the host tells.
    pub host_steal_share: Option<f64>,
    /// The process's resident memory at the end of the measured phase, in bytes.
    pub resident_bytes: Option<u64>,
    /// The longest time that the lock was free, somebody waited for it, and nobody got it; `None` in older
    /// results.
    pub standstill_us: Option<u64>,
}

impl From<&Health> for StoredHealth {
    fn from(health: &Health) -> Self {
        Self {
            valid: health.invalid.is_none(),
            invalid: health.invalid.clone(),
            timer_lag_p99_us: health.timer_lag_p99_us,
            timer_lag_max_us: health.timer_lag_max_us,
            dispatch_lag_p99_us: health.dispatch_lag_p99_us,
            lag_share: health.lag_share,
            cpu_us: health.cpu_us,
            cpu_share: health.cpu_share,
            host_idle_share: health.host_idle_share,
            host_steal_share: health.host_steal_share,
            resident_bytes: health.resident_bytes,
            standstill_us: Some(health.standstill_us),
        }
    }
}
