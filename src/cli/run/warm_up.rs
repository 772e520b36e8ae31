//! Load before the first trial, so that fresh servers don't count against whoever comes first.
//!
//! A JVM compiles its code while it runs: on two cores the first seconds of a fresh ensemble are several times
//! slower than the rest. Somebody else's ensemble is not warmed up: it gets no load that was not asked for.

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::load::{Environment, Event, run_trial};
use crate::lock;
use crate::record::Completeness;
use crate::scenario::{Plan, parse};

/// After five seconds the rate no longer rises much.
const LOAD: &str = r#"
name = "warm-up"
strategies = ["predecessor-watch"]
contenders = 10
hold = "0ms"
duration = "5s"
warm_up = "0s"
repetitions = 1
"#;

/// Loads the ensemble for five seconds; what happens is not kept.
///
/// # Errors
/// When no session can be opened, or the ensemble goes away.
pub async fn warm_up(environment: &Environment, stop: &CancellationToken) -> Result<(), Error> {
    let parsed = parse("warm-up", LOAD, &lock::cards()).map_err(Error::usage)?;
    for spec in &Plan::of(&parsed.scenario).trials {
        if let Some(entry) = lock::find(&spec.strategy.name) {
            let ignore = |_: Event<'_>| {};
            let trial = run_trial(environment, spec, entry, stop, &ignore).await?;
            match trial.completeness {
                Completeness::Partial(why) if !stop.is_cancelled() => {
                    return Err(Error::environment(format!("while the servers were warmed up: {why}")));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_a_scenario_of_one_trial() {
        let parsed = parse("warm-up", LOAD, &lock::cards()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(Plan::of(&parsed.scenario).trials.len(), 1);
    }
}
