//! `calibrate`: measures the ensemble without locks.

use std::pin::pin;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::CalibrateArgs;
use super::output;
use super::run::open_ensemble::{Needs, OpenEnsemble, calibration_site, warm_up};
use super::run::progress::Progress;
use super::run::sharing::Sharing;
use super::run::{host, tool_commit};
use zklockbench_load::calibrate::{self, CalibrationResult, IN_FLIGHT, SESSIONS};
use zklockbench_load::{Environment, LoadLimits, NearEnd, Probing, Workspace};
use zklockbench_record::{Calibration, EnsembleInfo, synced_writes_per_s};

use zklockbench_core::clock::micros;
use zklockbench_core::error::{Error, Exit};
use zklockbench_results::{CALIBRATION_SCHEMA_VERSION, CalibrationFile, CalibrationWriter, tidy};
use zklockbench_scenario::TrialPlan;

const BUDGET: Duration = Duration::from_secs(40);
const QUICK: Duration = Duration::from_secs(6);

#[expect(clippy::disallowed_methods, reason = "the start and end times are only labels")]
pub async fn execute(args: CalibrateArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let access = args.opening.access.access(None)?;
    let scenario = args.place.scenario("calibration")?;
    for left in tidy(&args.out) {
        let left = left.display();
        output::note(&format!(
            "note: {left} contains trials of a killed run; delete the directory when you no longer need it"
        ));
    }
    let started_at = SystemTime::now();
    let writer = CalibrationWriter::create_dated(&args.out, started_at)?;
    let progress = Progress::new(&TrialPlan::of(&scenario), args.opening.quiet, false);
    let logs = writer.server_logs();
    let (needs, opening) = (Needs::of(&scenario), &args.opening);
    let opened = OpenEnsemble::open(&scenario, &needs, opening, access, logs, &progress, stop).await?;
    let measured = measure(&opened, &args, &progress, stop).await;
    opened.close();
    let (measured, ensemble) = measured?;
    let file = CalibrationFile {
        schema_version: CALIBRATION_SCHEMA_VERSION,
        calibration: Calibration {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            tool_commit: tool_commit(),
            started_at,
            ended_at: SystemTime::now(),
            budget_us: micros(budget(&args)),
            rest_us: args.rest.map(micros),
            saturating_sessions: SESSIONS,
            in_flight: IN_FLIGHT,
            host: host::describe(),
            ensemble,
            floor: measured.floor,
            synced_writes_per_s: synced_writes_per_s(&measured.servers),
            servers: measured.servers,
            pairs: measured.pairs,
            missing: measured.missing,
        },
    };
    let path = writer.publish(&file)?;
    super::report::write_into(&path, zklockbench_report::page::of_calibration(&file.calibration));
    let results = path.display().to_string();
    output::tell("calibrate", Exit::Held, &json!({ "results": results, "calibration": file }), || {
        output::outcome(
            args.opening.quiet,
            &zklockbench_report::calibration_headline(&file.calibration),
            || {
                let tables = zklockbench_report::calibration(&file.calibration, output::style());
                format!("{tables}\nresults: {results}")
            },
        )
    })
}

fn budget(args: &CalibrateArgs) -> Duration {
    args.budget.unwrap_or(if args.quick { QUICK } else { BUDGET })
}

/// Measures the ensemble, and removes the nodes of the measurement even after an error.
async fn measure(
    opened: &OpenEnsemble,
    args: &CalibrateArgs,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<(CalibrationResult, EnsembleInfo), Error> {
    host::allow_sessions(opened.addresses.len() * (SESSIONS + 1), 1)?;
    let sharing = Sharing::of(opened, &args.opening.sharing, None).await;
    sharing.note().iter().for_each(|note| progress.note(note));
    let limits = LoadLimits::at_most(sharing.at_most);
    let mut ensemble = opened.describe().await;
    ensemble.config.extend(sharing.facts());
    let name = format!("calibration-{:08x}", rand::random::<u32>());
    let workspace =
        Workspace::create(opened.target.clone(), &name).await?.limited_by(limits.throttle.clone());
    let watching = limits.watching(&opened.target, &opened.addresses, sharing.stop_if_slower).await;
    let (limits, probing) = match watching {
        Ok(watching) => watching,
        Err(error) => {
            opened.clear(&workspace).await;
            return Err(error);
        }
    };
    probing.iter().filter_map(Probing::note).for_each(output::warn);
    let alarm = limits.clone();
    let environment = Environment { limits, ..opened.environment(workspace, &ensemble.servers) };
    let ends = stop.child_token();
    let mut measuring = pin!(on(opened, &environment, args, progress, &ends));
    let measured = tokio::select! {
        measured = measuring.as_mut() => measured,
        why = alarm.alarm() => {
            // The calibration must close its sessions before its nodes are removed.
            ends.cancel();
            let _ = measuring.as_mut().await;
            Err(Error::Environment(why))
        }
    };
    if let Some(probing) = probing {
        probing.end().await;
    }
    // Nodes on local servers disappear with the servers.
    if opened.started.is_none() {
        NearEnd::told(environment.workspace.counters_near_end().await).into_iter().for_each(output::warn);
        opened.clear(&environment.workspace).await;
    }
    measured.map(|measured| (measured, ensemble)).map_err(|error| environment.blame(error))
}

async fn on(
    opened: &OpenEnsemble,
    environment: &Environment,
    args: &CalibrateArgs,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<CalibrationResult, Error> {
    warm_up(opened, environment, progress, stop).await?;
    if stop.is_cancelled() {
        return Err(Error::Interrupted);
    }
    progress.note(&format!("measuring for {} s", budget(args).as_secs()));
    let site = calibration_site(environment, environment.workspace.root());
    let mut plan = calibrate::CalibrationPlan::within(budget(args), site.servers.len(), args.rest);
    if site.throttle.is_some() {
        progress.note("the load is limited, so requests are not measured at saturation");
        plan = plan.without_saturation();
    }
    calibrate::calibrate(site, plan, stop).await
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::{Cli, Command};
    use super::*;
    use zklockbench_scenario::EnsembleChoice;

    fn args(words: &[&str]) -> CalibrateArgs {
        let words = [&["zklockbench", "calibrate"], words].concat();
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Calibrate(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn calibration_accepts_the_ensemble_options_of_a_run() {
        let of = |words: &[&str]| args(words).place.scenario("calibration").map(|scenario| scenario.ensemble);
        assert!(matches!(of(&[]), Ok(EnsembleChoice::Local { servers: 3, data_dir: None })));
        assert!(matches!(of(&["--servers", "5"]), Ok(EnsembleChoice::Local { servers: 5, .. })));
        assert!(
            matches!(of(&["--connect", "zk1:2181/x"]), Ok(EnsembleChoice::Connect(to)) if to == "zk1:2181/x")
        );
    }

    #[test]
    fn budget_defaults_to_40_s_or_to_6_s_with_quick() {
        let of = |words: &[&str]| budget(&args(words));
        assert_eq!((of(&[]), of(&["--quick"])), (BUDGET, QUICK));
        assert_eq!(of(&["--budget", "2m"]), Duration::from_secs(120));
    }
}
