//! Stored runs and calibrations, as claims ask for them.

use super::CuratorWatches;
use crate::results::StoredRun;
use crate::results::record::{Behaviour, Calibration, Trial};
use crate::words::catalog::ParamValue;
use crate::words::units::grouped;

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
    /// Counts of the watches that Java's Curator leaves.
    pub curators: Vec<Named<CuratorWatches>>,
}

impl Evidence {
    pub fn run(&self, scenario: &str) -> Option<&Named<StoredRun>> {
        let of_it = self.runs.iter().filter(|run| run.what.run.scenario == scenario);
        of_it.max_by_key(|run| run.what.run.started_at)
    }

    /// All its trials, also those that did not end as planned.
    pub fn all(&self, scenario: &str) -> Trials<'_> {
        Trials(self.run(scenario).into_iter().flat_map(|run| &run.what.trials).collect())
    }

    /// Its trials that ran to their end. Their counts are right even where the generator was slow.
    pub fn counted(&self, scenario: &str) -> Trials<'_> {
        self.all(scenario).keep(|trial| trial.cut_short.is_none())
    }

    /// Its trials whose times are right as well.
    pub fn timed(&self, scenario: &str) -> Trials<'_> {
        self.all(scenario).keep(|trial| trial.is_sound())
    }

    /// On what hosts and ensembles the runs were measured, and how busy these hosts were; each once.
    pub fn measured_on(&self) -> Vec<String> {
        let places = grouped(self.runs.iter().map(|run| {
            let (host, ensemble) = (&run.what.run.host, &run.what.run.ensemble);
            let version = ensemble.servers.first().map_or("unknown", |server| server.version.as_str());
            let place = format!(
                "Measured with {} processors ({}), {}; {} servers of ZooKeeper {version}, {}; data: {}.",
                host.cores,
                host.cpu,
                host.os,
                ensemble.servers.len(),
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

    /// The count of the watches that Java's Curator leaves that was given last.
    #[must_use]
    pub fn curator(&self) -> Option<&Named<CuratorWatches>> {
        self.curators.last()
    }

    /// The newest calibration of so many servers.
    pub fn calibration(&self, servers: usize) -> Option<&Named<Calibration>> {
        let of_it = self.calibrations.iter().filter(|one| one.what.servers.len() == servers);
        of_it.max_by_key(|one| one.what.started_at)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Trials<'a>(pub Vec<&'a Trial>);

impl<'a> Trials<'a> {
    fn keep(mut self, which: impl Fn(&Trial) -> bool) -> Self {
        self.0.retain(|trial| which(trial));
        self
    }

    pub fn of(&self, strategy: &str) -> Self {
        self.clone().keep(|trial| trial.spec.strategy.name == strategy)
    }

    /// Those whose strategy has that word for a parameter.
    pub fn with(&self, param: &str, word: &str) -> Self {
        let has = |trial: &Trial| matches!(trial.spec.strategy.params.get(param), Some(ParamValue::Word(value)) if value == word);
        self.clone().keep(has)
    }

    pub fn at(&self, contenders: usize) -> Self {
        self.clone().keep(|trial| trial.spec.contenders == contenders)
    }

    /// Numbers of contenders, each once, the smallest first.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.0.iter().map(|trial| trial.spec.contenders).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The mean of a figure over them; `None` where there are none, or one of them lacks it.
    pub fn mean(&self, figure: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.0.iter().map(|trial| figure(trial)).collect::<Option<_>>()?;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The sum of a count over them; `None` where there are none.
    pub fn sum(&self, count: impl Fn(&Trial) -> u64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.iter().map(|trial| count(trial)).sum())
    }

    /// Whether all of them are so; `None` where there are none.
    pub fn all(&self, is_so: impl Fn(&Trial) -> bool) -> Option<bool> {
        (!self.0.is_empty()).then(|| self.0.iter().all(|trial| is_so(trial)))
    }
}

/// Requests per acquisition of a whole trial, queueing included.
pub fn requests(trial: &Trial) -> Option<f64> {
    per_acquisition(trial, trial.whole.requests.total())
}

/// Bytes per acquisition of a whole trial.
pub fn bytes(trial: &Trial) -> Option<f64> {
    per_acquisition(trial, trial.whole.bytes_sent + trial.whole.bytes_received)
}

/// Notifications per acquisition of a whole trial.
pub fn notifications(trial: &Trial) -> Option<f64> {
    per_acquisition(trial, trial.whole.notifications.total())
}

fn per_acquisition(trial: &Trial, amount: u64) -> Option<f64> {
    let acquired = trial.whole.acquired();
    (acquired > 0 && trial.whole.unseen == 0).then(|| amount as f64 / acquired as f64)
}

/// Notifications of a whole trial that releases sent to waiters.
pub fn to_waiters(trial: &Trial) -> u64 {
    trial.whole.notifications.by_release().saturating_sub(trial.whole.notifications.to_releaser)
}
