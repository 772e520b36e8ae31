//! `learn`: learns how locks are used on a running ensemble, from its transaction logs or by watching the
//! ensemble.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::LearnArgs;
use super::run::tool_commit;
use super::{output, reading, runs};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::shown;
use zklockbench_ensemble::{parse_connect, reach_servers};
use zklockbench_learn::{
    Asked, Learned, LogFacts, Observed, Read, Scope, Source, SourceKind, WatchFacts, Watching, read_logs,
    summarise, watch, write_scenarios, writes,
};
use zklockbench_report::page::of_learned;
use zklockbench_results::create_dated;
use zklockbench_zk::Target;

pub async fn execute(args: LearnArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let Some(connect) = args.connect.clone() else {
        let stopped = stop.clone();
        return reading(stop, move || from_logs(&args, &stopped)).await;
    };
    let external = parse_connect(&connect)?;
    let connect = external.text();
    let watching = Watching { path: args.path.clone(), lasts: args.lasts, at_most: args.at_most };
    if args.dry_run {
        return dry_run(&watching, &connect);
    }
    let target = Target { connect, access: args.access.access(None)? };
    reach_servers(&external).await?;
    let scratch = scratch()?;
    let (observed, mut facts) = watch(&target, &watching, scratch.path(), stop).await?;
    if args.anonymous {
        // The path contains node names, and the connect string host names.
        facts.path.clear();
        facts.connect.clear();
    }
    conclude(&args, &observed, None, Some(facts))
}

/// Prints the requests that watching would send.
fn dry_run(watching: &Watching, connect: &str) -> Result<Exit, Error> {
    let requests = watching.requests();
    let found = json!({ "connect": connect, "requests": requests });
    output::tell("learn", Exit::Held, &found, || {
        let lines: String = requests.iter().map(|request| format!("  {request}\n")).collect();
        output::text(&format!("Requests to {connect}, in one session:\n{lines}"))
    })
}

fn from_logs(args: &LearnArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let scope = Scope {
        path: args.path.clone(),
        since_ms: args.since.map(ms_since_1970),
        until_ms: args.until.map(ms_since_1970),
    };
    let scratch = scratch()?;
    let Read { observed, mut logs } =
        read_logs(&args.directories, scope, args.strict, scratch.path(), &|| stop.is_cancelled())?;
    if observed.counts.records == 0 {
        let (from, to) = observed.covers_ms;
        let [from, to] = [from, to].map(|ms| humantime::format_rfc3339_seconds(at_ms(ms)));
        return Err(Error::usage(format!(
            "no transaction between --since and --until; the logs cover {from} to {to}"
        )));
    }
    if args.anonymous {
        // Paths may contain host names.
        let numbered = (1..=logs.directories.len()).map(|number| format!("server {number}"));
        logs.directories = numbered.collect();
    }
    conclude(args, &observed, Some(logs), None)
}

/// Creates a directory for data that does not fit into memory.
fn scratch() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir()
        .map_err(|error| Error::environment(format!("cannot create a temporary directory: {error}")))
}

fn conclude(
    args: &LearnArgs,
    observed: &Observed,
    logs: Option<LogFacts>,
    watch: Option<WatchFacts>,
) -> Result<Exit, Error> {
    let source = Source {
        kind: if watch.is_some() { SourceKind::Watch } else { SourceKind::Logs },
        from: at_ms(observed.first_ms),
        to: at_ms(observed.last_ms),
        lasts_us: (observed.last_ms - observed.first_ms).unsigned_abs() * 1_000,
        clock_steps: observed.clock_steps,
        has_folded_locks: observed.has_folded_locks,
        is_anonymous: args.anonymous,
        logs,
        watch,
    };
    let failed =
        |error: std::io::Error| Error::environment(format!("cannot read the recorded cycles: {error}"));
    let asked = Asked { handoff: args.handoff, is_anonymous: args.anonymous };
    let found = summarise(observed, asked).map_err(failed)?;
    let results = results(args)?;
    let servers = source.logs.as_ref().and_then(|logs| usize::try_from(logs.servers).ok());
    let scenarios = write_scenarios(observed, &found, servers, &results);
    let written = writes(observed, &found);
    let mut learned = Learned::of(source, written, found.families);
    learned.scenarios = scenarios.map_err(Error::cannot("write scenarios to", &results))?;
    learned.tool_commit = tool_commit();
    // Omit the command line, because it contains node names.
    learned.command = if args.anonymous { Vec::new() } else { runs::command_line() };
    learned.write(&results)?;
    super::report::write_into(&results, of_learned(&learned));
    let found = json!({ "results": results.display().to_string(), "learned": learned });
    output::tell("learn", Exit::Held, &found, || {
        output::outcome(args.quiet, &zklockbench_report::learned_headline(&learned), || {
            let text = zklockbench_report::learned(&learned, output::style());
            let scenario = learned.scenarios.first().map_or_else(String::new, |scenario| {
                format!("replay with: zklockbench run {}\n", results.join(&scenario.file).display())
            });
            format!("{text}{scenario}results: {}", results.display())
        })
    })
}

/// Creates the requested results directory, or a new directory with a dated name.
fn results(args: &LearnArgs) -> Result<PathBuf, Error> {
    match &args.out {
        Some(out) => {
            fs::create_dir_all(out).map_err(Error::cannot("create", out))?;
            Ok(out.clone())
        }
        None => create_dated(Path::new("results"), "learned", now()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the time is part of a directory's name")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn ms_since_1970(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn at_ms(ms: i64) -> SystemTime {
    // RFC 3339 supports years up to 9999.
    const LATEST_MS: u64 = 253_402_300_799_000;
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0).min(LATEST_MS))
}

/// Parses the time of `--since` and `--until`.
pub fn moment(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text).map_err(|_| {
        format!("`{}` is not a UTC time; write, for example, 2026-11-29T08:00:00Z", shown(text, 40))
    })
}

/// Parses the value of `--path`; trims trailing slashes.
pub fn node_path(text: &str) -> Result<String, String> {
    match text {
        "/" => Ok("/".to_owned()),
        _ if text.starts_with('/') && !text.contains("//") && !text.contains('\0') => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("`{}` is not a node path; write, for example, /locks", shown(text, 40))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_paths_and_times_are_validated() {
        assert_eq!(node_path("/locks/"), Ok("/locks".to_owned()));
        assert_eq!(node_path("/"), Ok("/".to_owned()));
        for wrong in ["", "locks", "/a//b"] {
            assert!(node_path(wrong).is_err(), "{wrong}");
        }
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(at_ms(1_000)));
        assert!(moment("yesterday").unwrap_err().contains("write, for example,"));
        assert_eq!((ms_since_1970(at_ms(5)), at_ms(-5)), (5, UNIX_EPOCH));
    }
}
