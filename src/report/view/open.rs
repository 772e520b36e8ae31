//! What a table says of an open load: what was offered, what became of it, and where the time went.

use crate::results::record::{Arrived, Dispersion, Trial, Utilisation, figures};

#[derive(Debug, Clone, PartialEq)]
pub struct OpenFigures {
    /// Arrivals a second that were due.
    pub offered_per_s: Option<f64>,
    pub arrived: Arrived,
    /// How late the generator was, 99th percentile, in microseconds.
    pub lateness_p99_us: Option<u64>,
    /// How busy the locks were; `None` where several may hold one.
    pub utilisation: Option<Utilisation>,
    /// By how many waiting arrivals a second the queue grew; `None` where it did not.
    pub grows_per_s: Option<f64>,
    /// Where the arrivals were not issued as they were scheduled: how unevenly they came, in windows of each such width.
    pub distorted: Vec<Dispersion>,
    /// What limited the throughput, the busiest first, where less was achieved than was offered.
    pub limits: Vec<Limit>,
}

/// Something that a trial used, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    pub what: &'static str,
    /// The share of it that was used, 0 to 1.
    pub share: f64,
}

impl OpenFigures {
    /// Of a stored trial; `None` where its load was not an open one.
    pub fn of(trial: &Trial) -> Option<Self> {
        let arrived = trial.arrived?;
        let offered_per_s = figures::OFFERED.of(trial);
        let missed = offered_per_s.zip(figures::THROUGHPUT.of(trial));
        let missed = missed.is_some_and(|(offered, achieved)| achieved < Arrived::ACHIEVED * offered);
        Some(Self {
            offered_per_s,
            arrived,
            lateness_p99_us: trial.health.lateness_p99_us,
            utilisation: trial.utilisation,
            grows_per_s: trial.steady.as_ref().and_then(|steady| steady.grows_per_s()),
            distorted: trial.dispersion.iter().copied().filter(Dispersion::is_off).collect(),
            limits: if missed { limits(trial) } else { Vec::new() },
        })
    }
}

fn limits(trial: &Trial) -> Vec<Limit> {
    let lock = trial.utilisation.map(|used| Limit { what: "the busiest lock", share: used.busiest });
    let generator = Limit { what: "the generator's processor", share: trial.health.cpu_share };
    let host =
        trial.health.host_idle_share.map(|idle| Limit { what: "this host's processors", share: 1.0 - idle });
    let disk = trial.busiest_disk().map(|share| Limit { what: "the servers' log", share });
    let mut limits: Vec<Limit> = lock.into_iter().chain([generator]).chain(host).chain(disk).collect();
    limits.sort_by(|one, other| other.share.total_cmp(&one.share));
    limits
}
