//! Whether the generator itself was fit to measure what it reports.

/// What the tool watched of itself and of its host during the measured phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Health {
    /// Lateness of a periodic timer on the generator's own runtime, 99th percentile.
    pub timer_lag_p99_us: u64,
    /// The largest such lateness.
    pub timer_lag_max_us: u64,
    /// Time from a reply's or notification's arrival to its contender running, 99th percentile.
    pub dispatch_lag_p99_us: u64,
    /// Share of the mean handoff (or wait, where there was no handoff) that was the generator's own
    /// dispatch lag, between 0 and 1; `None` when nothing was measured.
    pub lag_share: Option<f64>,
    /// Processor time used by this process, in microseconds.
    pub cpu_us: u64,
    /// That time as a share of one core.
    pub cpu_share: f64,
    /// Share of the host's processor time that was idle, if the host tells.
    pub host_idle_share: Option<f64>,
    /// Share that the hypervisor took, if the host tells.
    pub host_steal_share: Option<f64>,
    /// The process's resident memory at the end of the measured phase, in bytes.
    pub resident_bytes: Option<u64>,
    /// The longest time that the lock was free, somebody waited for it, and nobody got it; seen every 25 ms.
    pub standstill_us: u64,
    /// Why the trial is invalid; `None` when generator and ensemble held up.
    pub invalid: Option<String>,
}
