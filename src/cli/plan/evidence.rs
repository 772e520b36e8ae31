//! Evidence for each strategy from stored results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::question::AskedLoad;
use zklockbench_analysis::model::Observation;
use zklockbench_analysis::plan::{
    self, ByServers, Evidence, MeasuredFailure, MeasuredLoad, PlannedLoad, Question,
};
use zklockbench_core::disk;
use zklockbench_core::error::Error;
use zklockbench_core::units::{distinct_sorted, format_duration, shown};
use zklockbench_ensemble::fault::reaches_servers;
use zklockbench_record::{EnsembleInfo, HostInfo, RawRequest, Trial};
use zklockbench_results::layout;
use zklockbench_scenario::each_way;

/// Maximum depth of the search for results, enough for a store with sweeps, whose points are runs.
const DEPTH: usize = 4;
/// Prefix of the number in the names of runs that verify a plan.
pub const VERIFIES: &str = "verify-";

pub struct StoredEvidence {
    question: Question,
    load: PlannedLoad,
    /// Measurement with the most waits for each strategy, from trials with exactly the planned load.
    own_loads: BTreeMap<String, MeasuredLoad>,
    trials: Vec<Observation>,
    failures: BTreeMap<String, Vec<MeasuredFailure>>,
    writes_per_s: Option<f64>,
    /// Median duration of a synced write through the leader, in microseconds.
    write_us: Option<u64>,
    pub sources: Vec<PathBuf>,
    pub place: Option<(HostInfo, EnsembleInfo)>,
    /// Whether the servers kept their data in memory; `None` if unknown.
    in_memory: Option<bool>,
    pub left_out: Vec<String>,
}

impl StoredEvidence {
    pub fn of(asked: &AskedLoad) -> Self {
        Self {
            question: asked.question.clone(),
            load: asked.load.clone(),
            own_loads: BTreeMap::new(),
            trials: Vec::new(),
            failures: BTreeMap::new(),
            writes_per_s: None,
            write_us: None,
            sources: Vec::new(),
            place: None,
            in_memory: None,
            left_out: Vec::new(),
        }
    }

    /// Returns the measurement from a trial with exactly the planned load, if any.
    pub fn own_load(&self, strategy: &str) -> Option<&MeasuredLoad> {
        self.own_loads.get(strategy)
    }

    fn take_own_load(&mut self, dir: &Path, trial: &Trial) {
        let is_own = self.load.is_of(&trial.spec) && self.question.round_trip.is_none();
        let measured =
            is_own.then(|| MeasuredLoad::of(dir.to_owned(), trial, &self.question, 1.0, None)).flatten();
        let label = &trial.spec.strategy.label;
        let longer =
            |one: &MeasuredLoad| self.own_loads.get(label).is_none_or(|other| one.waits > other.waits);
        if let Some(measured) = measured.filter(longer) {
            self.own_loads.insert(label.clone(), measured);
        }
    }

    /// Reads a run, a calibration, or all results below a directory.
    pub fn take(&mut self, path: &Path) -> Result<(), Error> {
        let mut found = FoundDirectories::default();
        collect(path, DEPTH, &mut found)?;
        refuse_if!(
            found.runs.is_empty() && found.plans.is_empty(),
            "{} contains neither a run nor a calibration; specify a directory created by `run`, `sweep` \
             or `calibrate`",
            path.display()
        );
        found.plans.sort();
        for plan in found.plans {
            self.take_plan(&plan)?;
        }
        found.runs.sort();
        for one in found.runs {
            let is_run = disk::has(&one, layout::RUN);
            if is_run { self.take_run(&one, None)? } else { self.take_calibration(&one)? }
        }
        Ok(())
    }

    /// Reads the evidence that a plan used, excluding skipped trials and runs that verified the plan.
    fn take_plan(&mut self, dir: &Path) -> Result<(), Error> {
        let plan = plan::read(dir)?;
        let trials: BTreeSet<String> =
            plan.answers.iter().flat_map(|answer| &answer.sources).cloned().collect();
        for source in &plan.sources {
            // The plan's directory may have moved.
            let here = dir.join(plan::RUNS).join(source.file_name().unwrap_or_default());
            let source = if here.is_dir() { &here } else { source };
            if disk::has(source, layout::CALIBRATION) {
                self.take_calibration(source)?;
            } else {
                self.take_run(source, Some(&trials))?;
            }
        }
        Ok(())
    }

    /// Reads the trials of a run, or only the trials in `only`.
    fn take_run(&mut self, dir: &Path, only: Option<&BTreeSet<String>>) -> Result<(), Error> {
        let stored = zklockbench_results::read(dir)?;
        self.fits(dir, &stored.run.host, &stored.run.ensemble)?;
        let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
        for trial in &stored.trials {
            self.take_own_load(dir, trial);
            let added = trial.spec.added_round_trip();
            // A delay throughout the trial is added round-trip time, not a failure.
            let failures =
                trial.faults.iter().filter(|fault| added.is_none() || reaches_servers(&fault.kind));
            let failures =
                failures.filter_map(|fault| MeasuredFailure::of(trial, fault, reaches_servers(&fault.kind)));
            self.failures.entry(trial.spec.strategy.label.clone()).or_default().extend(failures);
            match Observation::of(&name, trial) {
                Ok(observation) if added.map(each_way) == self.question.round_trip.map(each_way) => {
                    if only.is_none_or(|only| only.contains(&observation.source)) {
                        self.trials.push(observation);
                    }
                }
                Ok(_) => {
                    let why = self.other_distance(&name, added);
                    // All trials of a run have the same reason, so list it once.
                    if !self.left_out.contains(&why) {
                        self.left_out.push(why);
                    }
                }
                Err(_) if !trial.faults.is_empty() && added.is_none() => {}
                // The trial measures only the outage.
                Err(_) if trial.faults.iter().any(|one| reaches_servers(&one.kind)) => {}
                Err(why) => self.left_out.push(why),
            }
        }
        self.sources.push(dir.to_owned());
        Ok(())
    }

    fn take_calibration(&mut self, dir: &Path) -> Result<(), Error> {
        let calibration = zklockbench_results::read_calibration(dir)?.calibration;
        self.fits(dir, &calibration.host, &calibration.ensemble)?;
        self.writes_per_s = calibration.synced_writes_per_s.or(self.writes_per_s);
        let leader = calibration.servers.iter().find(|server| server.leads());
        let write = leader.and_then(|leader| leader.of(RawRequest::SetData)?.alone);
        self.write_us = write.map(|write| write.p50_us).or(self.write_us);
        self.sources.push(dir.to_owned());
        Ok(())
    }

    fn other_distance(&self, run: &str, added: Option<Duration>) -> String {
        let said = |added: Option<Duration>| added.map_or_else(|| "nothing".to_owned(), format_duration);
        format!(
            "{run} adds {} to each round trip, but your load adds {}",
            said(added),
            said(self.question.round_trip)
        )
    }

    /// Checks that a result is from the same host and ensemble as the earlier results.
    fn fits(&mut self, dir: &Path, host: &HostInfo, ensemble: &EnsembleInfo) -> Result<(), Error> {
        const APART: &str = "so they cannot be combined; use results from one environment";
        let dir = dir.display();
        if let Some((host_before, ensemble_before)) = &self.place {
            let (is, before) = (processors(host), processors(host_before));
            refuse_if!(
                is != before,
                "{dir}: it was measured on different processors ({is}) than the earlier results ({before}), {APART}"
            );
            let (is, before) = (servers(ensemble), servers(ensemble_before));
            refuse_if!(
                !is_like(ensemble_before, ensemble),
                "{dir}: it is from an ensemble with different servers ({is}) than the earlier results ({before}), {APART}"
            );
        }
        if let Some([is, before]) = self.other_placement(ensemble) {
            return Err(Error::usage(format!(
                "{dir}: the servers kept their data {is}, but {before} in the earlier results, which changes write \
                 times: use results from one environment"
            )));
        }
        self.in_memory = ensemble.is_in_memory().or(self.in_memory);
        self.place = Some((host.clone(), ensemble.clone()));
        Ok(())
    }

    /// Returns where this ensemble and the earlier results kept their data, in memory or on disk, if that differs.
    fn other_placement(&self, ensemble: &EnsembleInfo) -> Option<[&'static str; 2]> {
        let (is, before) = (ensemble.is_in_memory()?, self.in_memory?);
        let said = |in_memory| if in_memory { "in memory" } else { "on disk" };
        (is != before).then(|| [is, before].map(said))
    }

    /// Adds the duration of a write and the maximum write rate to a row.
    pub fn with_writes(&self, row: ByServers) -> ByServers {
        ByServers { write_us: self.write_us, writes_per_s: self.writes_per_s, ..row }
    }

    /// Fails if none of the results can be used.
    pub fn check(&self) -> Result<(), Error> {
        match self.left_out.first() {
            Some(why) if self.trials.is_empty() && self.own_loads.is_empty() => Err(Error::usage(format!(
                "none of these results can be used: {why}; specify other results, or omit --from to measure"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns a note if this ensemble differs from the one on which the results were measured.
    pub fn differs_from(&self, ensemble: &EnsembleInfo) -> Option<String> {
        if let Some([is, before]) = self.other_placement(ensemble) {
            return Some(format!(
                "the servers kept their data {is}, but the prediction is based on data {before}"
            ));
        }
        let (_, own) = self.place.as_ref().filter(|(_, own)| !is_like(own, ensemble))?;
        Some(format!(
            "it ran on different servers ({}) than the runs behind the prediction ({})",
            servers(ensemble),
            servers(own)
        ))
    }

    /// Returns the synced writes per second that the ensemble sustains, if a calibration measured them.
    pub fn writes_per_s(&self) -> Option<f64> {
        self.writes_per_s
    }

    pub fn strategies(&self) -> Vec<String> {
        let own = self.own_loads.keys().cloned();
        distinct_sorted(self.trials.iter().map(|trial| trial.strategy.clone()).chain(own))
    }

    pub fn evidence(&self, strategy: &str, watches: bool) -> Evidence {
        Evidence {
            trials: self.trials.iter().filter(|trial| trial.strategy == strategy).cloned().collect(),
            failures: self.failures.get(strategy).cloned().unwrap_or_default(),
            writes_per_s: self.writes_per_s,
            watches,
        }
    }
}

/// Returns whether two ensembles have the same server versions, and either both or neither share the load
/// generator's host.
fn is_like(one: &EnsembleInfo, other: &EnsembleInfo) -> bool {
    let versions = |ensemble: &EnsembleInfo| {
        let mut versions: Vec<String> =
            ensemble.servers.iter().map(|server| server.version.clone()).collect();
        versions.sort();
        versions
    };
    versions(one) == versions(other) && one.shares_host == other.shares_host
}

fn processors(host: &HostInfo) -> String {
    shown(&format!("{} x {}", host.cores, host.cpu), 120)
}

fn servers(ensemble: &EnsembleInfo) -> String {
    let version = ensemble.servers.first().map_or("unknown version", |server| server.version.as_str());
    format!("{} of {version}", ensemble.servers.len())
}

#[derive(Default)]
struct FoundDirectories {
    runs: Vec<PathBuf>,
    /// Plans; only the evidence that they used is read.
    plans: Vec<PathBuf>,
}

/// Collects the directories of plans, runs and calibrations at this path and below. Skips links, hidden
/// directories of unfinished runs, and runs that verified a plan unless specified directly.
fn collect(path: &Path, depth: usize, found: &mut FoundDirectories) -> Result<(), Error> {
    if disk::has(path, plan::FILE.name) {
        found.plans.push(path.to_owned());
        return Ok(());
    }
    if disk::has(path, layout::RUN) || disk::has(path, layout::CALIBRATION) {
        found.runs.push(path.to_owned());
        return Ok(());
    }
    let directories = disk::directories(path).map_err(|error| {
        Error::usage(format!(
            "--from {}: cannot be read ({error}); specify a directory with results",
            path.display()
        ))
    })?;
    for below in directories {
        let has_verified = verifies(&below.file_name().unwrap_or_default().to_string_lossy());
        if depth > 0 && !has_verified {
            collect(&below, depth - 1, found)?;
        }
    }
    Ok(())
}

/// Returns whether a run with this name, e.g. `plan-1a2b3c4d-verify-1`, verified a plan.
fn verifies(name: &str) -> bool {
    name.rsplit_once(VERIFIES).is_some_and(|(plan, number)| {
        (plan.is_empty() || plan.ends_with('-')) && number.chars().all(|c| c.is_ascii_digit())
    })
}
