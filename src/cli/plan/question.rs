//! The load and the objective of `plan`, read from options or from a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use toml::{Table, Value};

use super::holds::{Holds, parsed_holds, read_holds};
use crate::cli::args::STRATEGIES;
use crate::cli::scenario_file::{Overrides, ScenarioFile};
use crate::cli::shared_args::{
    ColumnArgs, GeneratorArgs, JobArgs, OpeningArgs, PlaceArgs, SEEDS, duration_within,
};
use zklockbench_analysis::objective::Objective;
use zklockbench_analysis::plan::{PlannedLoad, Question, SIMULATED};
use zklockbench_core::error::Error;
use zklockbench_core::units::shown;
use zklockbench_scenario::{EnsembleChoice, Late, Popularity, RateOf, Scenario, TrialPlan, TrialSpec, parse};
use zklockbench_stats::queueing::Order;

#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Number of clients, each with a session
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: Option<u32>,
    /// Lock requests per second over all locks and clients, e.g. 50/s or 3000/min
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, value_parser = zklockbench_analysis::plan::rate)]
    pub rate: Option<f64>,
    /// Hold time of a lock: a mean (20ms), a mean with a tail ('mean 20ms p99 200ms'), 'exactly 20ms', or a
    /// distribution as in a scenario, e.g. '{ exponential = { mean = "20ms" } }'
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parsed_holds)]
    pub hold: Option<Holds>,
    /// Read the holds from this file: one duration per line, or the CSV column `hold`, `hold_us`, `hold_ms`
    /// or `hold_s`, unless --hold-column and --hold-unit select another
    #[arg(long, value_name = "FILE", conflicts_with = "hold")]
    pub holds: Option<PathBuf>,
    /// Plan for this scenario's load: arrivals or think times, holds, locks, popularity and contenders
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["clients", "rate", "hold", "holds", "locks", "popularity", "arrivals", "round_trip"])]
    pub from_scenario: Option<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArgs,
    /// Objective in the syntax of a gate, e.g. 'wait.p99 < 200ms': on wait.p50, wait.p99, wait.p99.9, wait.mean,
    /// throughput or, for try-locks, won_share
    #[arg(long, value_name = "CONDITION", value_parser = zklockbench_analysis::plan::objective)]
    pub slo: Objective,
    /// Number of locks. If the objective is missed, the plan reports how many locks would meet it
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = locks)]
    pub locks: u32,
    /// Distribution of requests over the locks: uniform, zipf (a few hot locks), or another power, e.g. 'zipf 0.8'
    #[arg(long, value_name = "SPREAD", default_value = "uniform", value_parser = popularity)]
    pub popularity: Popularity,
    /// Also measure the cost of one lock per object: each request acquires a lock at a new path
    #[arg(long, conflicts_with = "from")]
    pub fresh_locks: bool,
    /// Strategies to consider [default: from the results or the scenario, or predecessor-watch, parent-watch
    /// and curator-mutex]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = STRATEGIES, hide_possible_values = true)]
    pub strategies: Vec<String>,
    /// Arrival process: poisson, constant, or as in a scenario, e.g. '{ bursts = { peak = 4, length = "1s" }
    /// }'
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    pub arrivals: String,
    /// Add this round-trip time between clients and servers while measuring and verifying, e.g. 5ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration_within("0.1ms", "1s"))]
    pub round_trip: Option<Duration>,
    /// Session timeout that clients request [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["from", "from_scenario"], value_parser = duration_within("200ms", "10min"))]
    pub session_timeout: Option<Duration>,
    /// Use the results of these runs, sweeps, calibrations or baseline stores instead of measuring
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Cause each kind of failure N times under each strategy, and report its cost: leader, follower and
    /// holder killed, leader and holder paused for 3 s, and a rolling restart; takes a minute per repetition
    /// and strategy [default: leader killed once]
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub failures: Option<u32>,
    /// Also compare 1, 3 and 5 local servers with the best lock: waits, maximum rate, outage and write cost
    #[arg(long, conflicts_with_all = ["from", "connect", "compose"])]
    pub compare_servers: bool,
    /// Verify the prediction: run this load on restarted servers with the recommended strategy
    #[arg(long)]
    pub verify: bool,
    /// Time limit of the verification
    #[arg(long, value_name = "TIME", default_value = "3m", requires = "verify", value_parser = duration_within("1s", "1h"))]
    pub verify_for: Duration,
    /// Seed of all random numbers
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEEDS))]
    pub seed: u64,
    /// Number of arrivals in each simulation: a reliable 99th percentile needs 20,000
    #[arg(long, hide = true, value_name = "N", default_value_t = SIMULATED as u32, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub simulate: u32,
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Create the plan's directory in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Resume the plan in this directory; pass the original options again
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub opening: OpeningArgs,
    #[command(flatten)]
    pub job: JobArgs,
}

/// Maximum number of locks, as in a scenario.
const LOCKS_MOST: u32 = 100_000;

fn locks(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|locks| (1..=LOCKS_MOST).contains(locks)).ok_or_else(|| {
        format!(
            "`{}` is not a number of locks from 1 to {LOCKS_MOST}; set a single number: a plan that misses \
             its objective reports how many locks would meet it",
            shown(text, 40)
        )
    })
}

/// Returns the popularity in TOML; `None` for the default.
fn popularity_in_toml(popularity: Popularity) -> Option<String> {
    match popularity {
        Popularity::Uniform => None,
        Popularity::Zipf(power) => Some(format!("{{ zipf = {power:?} }}")),
    }
}

/// Parses `uniform`, `zipf`, `zipf 0.8`, or a popularity as in a scenario.
fn popularity(text: &str) -> Result<Popularity, String> {
    let wrong = || {
        let text = shown(text, 40);
        format!("`{text}` is not a spread; write uniform, zipf, or a power from 0 to 5 such as 'zipf 0.8'")
    };
    let text = text.trim();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let words: Vec<&str> = inner.split([' ', '=', ':']).filter(|word| !word.is_empty()).collect();
    match *words {
        ["uniform"] => Ok(Popularity::Uniform),
        ["zipf"] => Ok(Popularity::Zipf(1.0)),
        ["zipf", power] => {
            let power = power.parse().ok().filter(|power: &f64| (0.0..=5.0).contains(power));
            power.map(Popularity::Zipf).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// The planned load and its objective; `load` assumes a FIFO queue.
pub struct AskedLoad {
    pub question: Question,
    pub load: PlannedLoad,
    /// Scenario with a single trial of the load.
    pub scenario: Scenario,
    /// TOML of the scenario's strategies by label; empty if the load comes from options.
    pub strategies: BTreeMap<String, String>,
}

impl AskedLoad {
    pub fn of(args: &PlanArgs) -> Result<Self, Error> {
        match &args.from_scenario {
            Some(path) => Self::of_scenario(args, path),
            None => Self::of_options(args),
        }
    }

    fn of_options(args: &PlanArgs) -> Result<Self, Error> {
        let text = args.arrivals.trim();
        let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let Holds { mean, toml } = match (&args.hold, &args.holds) {
            (Some(hold), _) => hold.clone(),
            (None, Some(file)) => read_holds(file, &args.columns.columns())?,
            (None, None) => return Err(missing("--hold or --holds")),
        };
        let clients = args.clients.ok_or_else(|| missing("--clients"))? as usize;
        let rate = args.rate.ok_or_else(|| missing("--rate"))?;
        let question = Question {
            holds: toml,
            popularity: popularity_in_toml(args.popularity),
            arrivals: if is_word { format!("\"{text}\"") } else { text.to_owned() },
            round_trip: args.round_trip,
            session_timeout: args.session_timeout,
            ..Question::plain(clients, rate, mean, args.locks as usize, args.slo.clone())
        };
        question.check().map_err(Error::usage)?;
        // Parse the scenario to report mistakes, such as an impossible load, before anything is measured.
        let text = question.scenario("plan", &["predecessor-watch".to_owned()], &question.copies(1.0));
        let parsed = parse("the question", &text, &zklockbench_load::catalog());
        let scenario = parsed?.scenario;
        let load =
            TrialPlan::of(&scenario).trials.first().and_then(|trial| PlannedLoad::of(trial, Order::Fifo));
        let load = load.ok_or_else(|| Error::usage("the options describe no load"))?;
        let load = if question.holds.is_none() { load.knowing_mean_only() } else { load };
        Ok(Self { question, load, scenario, strategies: BTreeMap::new() })
    }

    fn of_scenario(args: &PlanArgs, path: &Path) -> Result<Self, Error> {
        let overrides =
            Overrides { place: args.place.clone(), columns: args.columns.clone(), ..Overrides::default() };
        let file = ScenarioFile::read(path, &overrides).map_err(|unusable| unusable.report(path))?;
        let scenario = &file.parsed.scenario;
        let named = path.display().to_string();
        let refuse = |why: &str| Error::usage(why).about(&named);
        let spec =
            TrialPlan::of(scenario).trials.into_iter().next().ok_or_else(|| refuse("there is no trial"))?;
        check(args, scenario, &spec).map_err(|error| error.about(&named))?;
        let load = PlannedLoad::of(&spec, Order::Fifo).ok_or_else(|| refuse("the load has no duration"))?;
        let question = Question {
            clients: spec.contenders,
            rate: load.rate(),
            hold: spec.mean_hold(),
            holds: Some(spec.all_holds().to_toml()),
            locks: spec.locks,
            popularity: spec.load.open().and_then(|open| popularity_in_toml(open.popularity)),
            arrivals: "\"poisson\"".to_owned(),
            think: load.is_closed().then(|| spec.all_thinks().to_toml()),
            round_trip: None,
            session_timeout: Some(scenario.session_timeout),
            scenario: Some(file.standing_alone(path)?.to_string()),
            only_tries: spec.only_tries(),
            objective: args.slo.clone(),
        };
        question.check().map_err(|why| refuse(&why))?;
        let strategies = spelled(&file.text, scenario).map_err(|why| refuse(&why))?;
        Ok(Self { question, load, scenario: scenario.clone(), strategies })
    }

    /// Returns the ensemble to measure on: the scenario's ensemble, unless the options specify another. Rejects an
    /// identity for an address that only the scenario contains.
    pub fn place(&self, args: &PlanArgs) -> Result<PlaceArgs, Error> {
        let place = args.place.clone();
        if args.from_scenario.is_none() || !(args.from.is_empty() || args.verify) {
            return Ok(place);
        }
        let overrides = Overrides { place, ..Overrides::default() };
        args.opening.access.access(overrides.unnamed(&self.scenario))?;
        let nothing = PlaceArgs::default();
        Ok(match self.scenario.ensemble.clone() {
            EnsembleChoice::Local { servers, data_dir } => {
                PlaceArgs { servers: i64::try_from(servers).ok(), data_dir, ..nothing }
            }
            EnsembleChoice::Connect(to) => PlaceArgs { connect: Some(to), ..nothing },
            EnsembleChoice::Compose(file) => PlaceArgs { compose: Some(file), ..nothing },
        })
    }

    /// Returns whether the load may be copied to additional groups of locks.
    pub fn may_be_copied(&self) -> bool {
        let is_scenario = self.question.scenario.is_some();
        let is_each = matches!(self.scenario.rate_of, RateOf::Each);
        !is_scenario || self.load.is_closed() || self.load.is_stationary() && !is_each
    }

    /// Returns a strategy as it is written in the plan's scenarios.
    pub fn spelled(&self, label: &str) -> String {
        self.strategies.get(label).cloned().unwrap_or_else(|| super::name_in(label).to_owned())
    }
}

/// Rejects scenarios for which no plan is possible.
fn check(args: &PlanArgs, scenario: &Scenario, spec: &TrialSpec) -> Result<(), Error> {
    refuse_if!(
        spec.load == zklockbench_scenario::Load::Batch,
        "a plan needs a continuous load: write load = \"open\" or \"closed\""
    );
    refuse_if!(scenario.contenders.len() != 1, "a plan needs a single number of contenders: specify one");
    let only_tries = spec.only_tries();
    refuse_if!(
        spec.load.open().is_some_and(|open| open.late == Late::Drop) && !only_tries,
        "a plan predicts the waits of all requests, so requests must not be dropped: remove `late`"
    );
    refuse_if!(
        spec.acquire_timeout.is_some() && !only_tries,
        "a plan predicts the waits of all requests, so requests must not time out: remove `acquire_timeout`, \
         or set it to \"0s\" to plan for try-locks"
    );
    refuse_if!(
        args.compare_servers && !scenario.ensemble.is_local() && args.place.servers.is_none(),
        "--compare-servers starts local servers, but the scenario has an existing ensemble: remove \
         `connect`, or set --servers"
    );
    refuse_if!(
        args.verify && only_tries,
        "--verify compares waits, but try-locks do not wait: run the scenario itself with --gate 'won_share > 0.9'"
    );
    refuse_if!(
        spec.fresh_locks,
        "a plan needs locks that are requested repeatedly: set --rate and --hold instead, and add \
         --fresh-locks"
    );
    refuse_if!(
        spec.has_readers() || spec.depth > 1 || !spec.faults.is_empty(),
        "a plan needs locks that admit one contender at a time, and no faults: remove `read_ratio`, \
         `depth` and the faults"
    );
    Ok(())
}

/// Returns the TOML of each strategy in a scenario, by label.
fn spelled(text: &str, scenario: &Scenario) -> Result<BTreeMap<String, String>, String> {
    let table: Table = text.parse().map_err(|error| format!("{error}"))?;
    let listed = table.get("strategies").and_then(Value::as_array).cloned().unwrap_or_default();
    let spelled = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let labels = scenario.strategies.iter().map(|strategy| strategy.label.clone());
    Ok(labels.zip(listed.into_iter().map(spelled)).collect())
}

fn missing(options: &str) -> Error {
    Error::usage(format!("describe the load with {options}, or with --from-scenario"))
}

#[cfg(test)]
pub mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;

    #[derive(Parser)]
    struct OnlyPlan {
        #[command(flatten)]
        args: PlanArgs,
    }

    /// Returns the options and the load of a plan for a scenario. `replay` is the content of the replay file next to
    /// it.
    pub fn of_scenario(more: &[&str], scenario: &str, replay: &str) -> Result<(PlanArgs, AskedLoad), Error> {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("scenario.toml");
        std::fs::write(place.path().join("replay.csv"), replay).unwrap();
        std::fs::write(
            &file,
            format!("name = \"asked\"\nstrategies = [\"baton\"]\ncontenders = 20\n{scenario}"),
        )
        .unwrap();
        let words = ["plan", "--slo", "wait.p99 < 500ms", "--from-scenario", file.to_str().unwrap()];
        // Variables of the environment, such as ZKLOCKBENCH_CONNECT, must not change the test.
        let command = OnlyPlan::command().mut_args(|arg| arg.env(None));
        let found = command.try_get_matches_from(words.iter().chain(more)).map_err(Error::usage)?;
        let args = OnlyPlan::from_arg_matches(&found).map_err(Error::usage)?.args;
        let asked = AskedLoad::of(&args)?;
        Ok((args, asked))
    }

    #[test]
    fn popularity_is_limited_as_in_a_scenario() {
        assert_eq!(popularity("zipf 5"), Ok(Popularity::Zipf(5.0)));
        assert_eq!(popularity("{ zipf = 0.8 }"), Ok(Popularity::Zipf(0.8)));
        for wrong in ["zipf 5.1", "zipf -1", "zipf NaN", "pareto", ""] {
            assert!(popularity(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn plan_measures_the_scenarios_ensemble_unless_options_name_another() {
        let place = |more: &[&str], ensemble: &str| {
            let load = "load = \"open\"\nrate = 10\nduration = \"20s\"\n[ensemble]\n";
            let asked = of_scenario(more, &format!("{load}{ensemble}\n"), "");
            asked.and_then(|(args, asked)| asked.place(&args)).map_err(|error| error.to_string())
        };
        let five = place(&[], "servers = 5").unwrap();
        assert_eq!((five.servers, five.connect), (Some(5), None));
        assert_eq!(place(&["--servers", "1"], "servers = 5").unwrap().servers, Some(1));
        let on_disk = place(&["--servers", "1"], "data_dir = \"/tmp\"").unwrap();
        assert_eq!(on_disk.data_dir.as_deref(), Some(Path::new("/tmp")));
        let existing = "connect = \"zk1:2181/bench\"";
        assert_eq!(place(&[], existing).unwrap().connect.as_deref(), Some("zk1:2181/bench"));
        let other = place(&["--connect", "zk2:2181"], existing).unwrap();
        assert_eq!(other.connect.as_deref(), Some("zk2:2181"));
        assert_eq!(place(&["--servers", "3"], existing).unwrap().connect, None);
        // And a plan from stored results opens no ensemble
        assert_eq!(place(&["--from", "known"], existing).unwrap().connect, None);
        let refused = place(&["--compare-servers"], existing).unwrap_err();
        assert!(refused.contains("remove `connect`, or set --servers"), "{refused}");
        // And an identity is sent only to an address in the options
        let auth = ["--auth", "user:secret"];
        let refused = place(&auth, existing).unwrap_err();
        assert!(refused.contains("but zk1:2181/bench comes from the scenario"), "{refused}");
        let named = [&auth[..], &["--connect", "zk1:2181/bench"]].concat();
        assert_eq!(place(&named, existing).unwrap().connect.as_deref(), Some("zk1:2181/bench"));
        assert_eq!(place(&[&auth[..], &["--servers", "3"]].concat(), existing).unwrap().connect, None);
        // And a Compose file must come from the options, too
        let containers = "compose = \"theirs.yaml\"";
        let refused = place(&[], containers).unwrap_err();
        assert!(refused.contains("add --compose FILE"), "{refused}");
        let mine = place(&["--compose", "mine.yaml"], containers).unwrap();
        assert_eq!(mine.compose.as_deref(), Some(Path::new("mine.yaml")));
    }
}
