//! Load before the first trial, so that fresh servers don't count against the first trial.
//!
//! A JVM compiles its code while it runs: on two cores the first seconds of a fresh ensemble are several times
//! slower than the rest. An ensemble that others run is not warmed up: it gets no load that was not asked for, save for
//! that of the floor.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::load::{self, Environment, EnvironmentEvent, run_trial};
use crate::lock;
use crate::scenario::{Plan, parse};
use crate::words::error::Error;

const NAME: &str = "warm-up";
/// What the person who waits is told.
pub const NOTE: &str = "warming up the servers, up to 12 s";

/// A load that warms servers up; two contenders on each of several locks keep them busier than one queue does.
pub fn scenario(name: &str, lasts: Duration) -> String {
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

/// Loads the ensemble in rounds of three seconds until it is warm; what happens is not kept.
pub async fn warm_up(environment: &Environment, stop: &CancellationToken) -> Result<(), Error> {
    let parsed = parse(NAME, &scenario(NAME, ROUND), &load::catalog()).map_err(Error::usage)?;
    let mut acquired = 0;
    for spec in Plan::of(&parsed.scenario).trials.iter().cycle().take(ROUNDS_AT_MOST) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_a_scenario_of_one_trial() {
        let parsed = parse(NAME, &scenario(NAME, ROUND), &load::catalog())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(Plan::of(&parsed.scenario).trials.len(), 1);
    }
}
