//! Before the first trial: the servers are warmed up, and the floor is measured that its locks are compared with.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::open_ensemble::OpenEnsemble;
use super::progress::Progress;
use crate::load::calibrate::{self, CalibrationSite};
use crate::load::{self, Environment, EnvironmentEvent, run_trial};
use crate::lock;
use crate::record::Floor;
use crate::scenario::{TrialPlan, parse};
use crate::words::error::Error;

const NAME: &str = "warm-up";

/// A load that warms servers up; two contenders on each of several locks keep them busier than one queue does.
pub fn warm_up_scenario(name: &str, lasts: Duration) -> String {
    format!(
        "name = \"{name}\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 16\nlocks = 8\nhold = \"0ms\"\n\
         duration = \"{}s\"\nwarm_up = \"0s\"\nrepetitions = 1\n",
        lasts.as_secs()
    )
}

const ROUND: Duration = Duration::from_secs(3);
/// After so many acquisitions, of about four requests each, the rate no longer rises: the JIT counts calls, not seconds.
const ENOUGH: u64 = 8_000;
/// On a slow host it has to end all the same.
const ROUNDS_AT_MOST: usize = 4;

/// Loads the ensemble in rounds of three seconds until it is warm, unless it is to stay cold; what happens is not kept.
///
/// A JVM compiles its code while it runs: on two cores the first seconds of a fresh ensemble are several times slower than the
/// rest. An ensemble that others run is not warmed up: it gets no load that was not asked for, save for that of the floor.
pub async fn warm_up(
    ensemble: &OpenEnsemble,
    environment: &Environment,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<(), Error> {
    if ensemble.is_external() || ensemble.is_cold || stop.is_cancelled() {
        return Ok(());
    }
    progress.note("warming up the servers, up to 12 s");
    let parsed = parse(NAME, &warm_up_scenario(NAME, ROUND), &load::catalog()).map_err(Error::usage)?;
    let mut acquired = 0;
    for spec in TrialPlan::of(&parsed.scenario).trials.iter().cycle().take(ROUNDS_AT_MOST) {
        if acquired >= ENOUGH || stop.is_cancelled() {
            break;
        }
        let Some(entry) = lock::find(&spec.strategy.name) else { continue };
        let ignore = |_: EnvironmentEvent<'_>| {};
        let trial = run_trial(environment, spec, entry, stop, &ignore).await?;
        match trial.cut_short {
            Some(cut) if !stop.is_cancelled() => {
                return Err(Error::environment(format!("while warming up the servers: {}", cut.why)));
            }
            _ => acquired += trial.measured.acquired(),
        }
    }
    Ok(())
}

/// How long it may take, with what it takes to prepare and to tidy up about a quarter of a second more.
const WITHIN: Duration = Duration::from_millis(1_200);

/// Measures the floor. A run goes on without one, and says why it has none.
pub async fn measure_floor(
    ensemble: &OpenEnsemble,
    environment: &Environment,
    stop: &CancellationToken,
) -> Floor {
    if ensemble.is_cold {
        return Floor::not_measured("the servers were not warmed up (--cold)");
    }
    if stop.is_cancelled() {
        return Floor::not_measured("the run was interrupted");
    }
    let measured = measured(environment, stop).await;
    measured.unwrap_or_else(|error| Floor::not_measured(error.to_string()))
}

async fn measured(environment: &Environment, stop: &CancellationToken) -> Result<Floor, Error> {
    let place = environment.workspace.place("floor").await?;
    let site = CalibrationSite {
        target: environment.target.clone(),
        servers: environment.servers.clone(),
        place: place.clone(),
        keep_awake: environment.keep_awake,
        logs: Vec::new(),
        processes: Vec::new(),
    };
    let floor = calibrate::floor(site, WITHIN, stop).await;
    environment.workspace.clear(&place).await?;
    Ok(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_a_scenario_of_one_trial() {
        let parsed = parse(NAME, &warm_up_scenario(NAME, ROUND), &load::catalog())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(TrialPlan::of(&parsed.scenario).trials.len(), 1);
    }
}
