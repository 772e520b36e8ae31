//! Stored runs and calibrations, as claims ask for them.

use super::counted::Trials;
use crate::results::StoredRun;
use crate::results::record::{Behaviour, Calibration};
use crate::words::units::{counted, grouped};

/// A stored thing and the name of its directory.
#[derive(Debug, Clone)]
pub struct Named<T> {
    pub name: String,
    pub what: T,
}

/// All that decisions may rest on. Where several runs of a scenario are given, the one that began last counts.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub runs: Vec<Named<StoredRun>>,
    pub calibrations: Vec<Named<Calibration>>,
    /// What Java's Curator was seen to do, as `benches/java/CuratorFacts.java` writes it.
    pub curators: Vec<Named<serde_json::Value>>,
}

impl Evidence {
    pub fn run(&self, scenario: &str) -> Option<&Named<StoredRun>> {
        let of_it = self.runs.iter().filter(|run| run.what.run.scenario == scenario);
        of_it.max_by_key(|run| run.what.run.started_at)
    }

    /// Its trials; none where there is no such run.
    pub(super) fn trials(&self, scenario: &str) -> Trials<'_> {
        Trials(self.run(scenario).into_iter().flat_map(|run| &run.what.trials).collect())
    }

    /// On what hosts and ensembles the runs were measured, and how busy these hosts were; each once.
    pub fn measured_on(&self) -> Vec<String> {
        let places = grouped(self.runs.iter().map(|run| {
            let (host, ensemble) = (&run.what.run.host, &run.what.run.ensemble);
            let version = ensemble.servers.first().map_or("unknown", |server| server.version.as_str());
            let place = format!(
                "Measured with {} processors ({}), {}; {} of ZooKeeper {version}, {}; data: {}.",
                host.cores,
                host.cpu,
                host.os,
                counted(ensemble.servers.len(), "server", "servers"),
                if ensemble.shares_host { "on the generator's host" } else { "on other hosts" },
                ensemble.placement,
            );
            (place, run.what.trials.iter().filter_map(|trial| trial.health.host_idle_share))
        }));
        let told = places.into_iter().map(|(place, shares)| {
            let mut shares: Vec<f64> = shares.into_iter().flatten().collect();
            shares.sort_by(f64::total_cmp);
            let idle = shares.get(shares.len() / 2).map_or_else(String::new, |share| {
                format!(" In the median trial the host was idle for {:.0} % of its time.", 100.0 * share)
            });
            place + &idle
        });
        told.collect()
    }

    /// The newest calibration for which ZooKeeper's own behaviour was tried.
    pub fn behaviour(&self) -> Option<(&Named<Calibration>, &Behaviour)> {
        let tried = self.calibrations.iter().filter_map(|one| Some((one, one.what.behaviour.as_ref()?)));
        tried.max_by_key(|(one, _)| one.what.started_at)
    }

    /// What Java's Curator was seen to do, of what was given the last.
    #[must_use]
    pub fn curator(&self) -> Option<&Named<serde_json::Value>> {
        self.curators.last()
    }

    /// The newest calibration of so many servers.
    pub fn calibration(&self, servers: usize) -> Option<&Named<Calibration>> {
        let of_it = self.calibrations.iter().filter(|one| one.what.servers.len() == servers);
        of_it.max_by_key(|one| one.what.started_at)
    }
}
