//! The question of `plan`, from its options or from the load of a scenario. Hold times are given as a mean, a constant, a
//! distribution of a scenario, or a file of measured holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use toml::{Table, Value};

use crate::cli::scenario_file::{Overrides, ScenarioFile};
use crate::cli::shared_args::{GeneratorArgs, OpeningArgs, PlaceArgs, SEEDS, duration_within};
use crate::cli::worker_args::JobArgs;
use zklockbench_analysis::objective::Objective;
use zklockbench_analysis::plan::{PlannedLoad, Question, SIMULATED};
use zklockbench_core::disk;
use zklockbench_core::error::Error;
use zklockbench_core::units::{parse_duration, shown};
use zklockbench_scenario::{Distribution, Late, MeasuredTimes, Scenario, TrialPlan, parse};
use zklockbench_stats::queueing::Order;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Clients, each with its own session
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: Option<u32>,
    /// Lock requests per second over all locks and clients, e.g. 50/s or 3000/min
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, value_parser = zklockbench_analysis::plan::rate)]
    pub rate: Option<f64>,
    /// How long each client holds the lock: on average (20ms), 'exactly 20ms', or as a scenario writes a distribution, e.g.
    /// '{ exponential = { mean = "20ms" } }'
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parsed_holds)]
    pub hold: Option<Holds>,
    /// Take the holds from this file: one duration a line, or the column `hold`, `hold_us`, `hold_ms` or `hold_s` of a CSV
    /// file
    #[arg(long, value_name = "FILE", conflicts_with = "hold")]
    pub holds: Option<PathBuf>,
    /// Ask about the load of this scenario: its arrivals or, if it is closed, think times; its holds, locks, popularity and
    /// contenders
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["clients", "rate", "hold", "holds", "locks", "arrivals", "round_trip"])]
    pub from_scenario: Option<PathBuf>,
    /// Objective, written like a gate, e.g. 'wait.p99 < 200ms': on wait.p50, wait.p99, wait.p99.9, wait.mean or throughput
    #[arg(long, value_name = "CONDITION", value_parser = zklockbench_analysis::plan::objective)]
    pub slo: Objective,
    /// Number of locks; requests are spread evenly over them. A plan that misses its objective says how many locks would do
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = locks)]
    pub locks: u32,
    /// Strategies to consider [default: those of the results, or predecessor-watch, parent-watch and curator-mutex]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<String>,
    /// Arrival process: poisson, constant, or as a scenario writes it, e.g. '{ bursts = { peak = 4, length = "1s" } }'
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    pub arrivals: String,
    /// Distance: add this to every round trip between clients and servers while measuring and verifying, e.g. 5ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration_within("0.1ms", "1s"))]
    pub round_trip: Option<Duration>,
    /// Answer from these runs, sweeps, calibrations or baseline stores instead of measuring
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Break things so often under each strategy, and say what each kind of failure costs: the leader, a follower and a holder
    /// killed, and a rolling restart; takes half a minute a time and strategy [default: the leader once]
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub failures: Option<u32>,
    /// Then run exactly this load with the recommended strategy, or with each of --strategies if none is recommended
    #[arg(long)]
    pub verify: bool,
    /// Time limit for verifying each strategy
    #[arg(long, value_name = "TIME", default_value = "6m", requires = "verify", value_parser = duration_within("1s", "1h"))]
    pub verify_for: Duration,
    /// Seed for everything random
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=SEEDS))]
    pub seed: u64,
    /// Arrivals of each simulation: a 99th percentile takes 20,000 to be known
    #[arg(long, hide = true, value_name = "N", default_value_t = SIMULATED as u32, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    pub simulate: u32,
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Where to put the plan's directory
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Resume the plan that left this directory; give the other options as they were
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub opening: OpeningArgs,
    #[command(flatten)]
    pub job: JobArgs,
}

fn locks(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|locks| (1..=1_000).contains(locks)).ok_or_else(|| {
        format!(
            "`{}` is no number of locks from 1 to 1000; a plan is about one number, and if it misses its objective it \
             says how many locks would do",
            shown(text, 40)
        )
    })
}

/// A question and its load, in the order of a queue.
pub struct AskedLoad {
    pub question: Question,
    pub load: PlannedLoad,
    /// A scenario with one trial of the question.
    pub scenario: Scenario,
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
            (None, Some(file)) => read_holds(file)?,
            (None, None) => return Err(missing("--hold or --holds")),
        };
        let question = Question {
            clients: args.clients.ok_or_else(|| missing("--clients"))? as usize,
            rate: args.rate.ok_or_else(|| missing("--rate"))?,
            hold: mean,
            holds: toml,
            locks: args.locks as usize,
            think: None,
            arrivals: if is_word { format!("\"{text}\"") } else { text.to_owned() },
            round_trip: args.round_trip,
            scenario: None,
            objective: args.slo.clone(),
        };
        question.check().map_err(Error::usage)?;
        // Reports mistakes before anything is measured: an unknown process, or a load that no trial can have.
        let text = question.scenario("plan", &["predecessor-watch".to_owned()], &question.copies(1.0));
        let parsed = parse("the question", &text, &zklockbench_load::catalog());
        let scenario = parsed.map_err(|mistakes| Error::usage(mistakes.render(false)))?.scenario;
        let load =
            TrialPlan::of(&scenario).trials.first().and_then(|trial| PlannedLoad::of(trial, Order::Fifo));
        let load = load.ok_or_else(|| Error::usage("the question has no load of its own"))?;
        let load = if question.holds.is_none() { load.knowing_mean_only() } else { load };
        Ok(Self { question, load, scenario })
    }

    fn of_scenario(args: &PlanArgs, path: &Path) -> Result<Self, Error> {
        let file =
            ScenarioFile::read(path, &Overrides::default()).map_err(|unusable| unusable.report(path))?;
        let scenario = &file.parsed.scenario;
        let refuse = |why: &str| Error::usage(format!("{}: {why}", path.display()));
        let spec =
            TrialPlan::of(scenario).trials.into_iter().next().ok_or_else(|| refuse("it has no trial"))?;
        if spec.load == zklockbench_scenario::Load::Batch {
            return Err(refuse("a plan is about a load that goes on: write load = \"open\" or \"closed\""));
        }
        if scenario.contenders.len() != 1 {
            return Err(refuse("a plan is about one number of contenders: name one"));
        }
        if spec.load.open().is_some_and(|open| open.late == Late::Drop) {
            return Err(refuse("a plan says how long all wait, so none may be dropped: leave `late` out"));
        }
        if spec.acquire_timeout.is_some() {
            return Err(refuse(
                "a plan says how long all wait, so none may give up: leave `acquire_timeout` out",
            ));
        }
        if spec.has_readers() || spec.depth > 1 || !spec.faults.is_empty() {
            return Err(refuse(
                "a plan is about locks that let in one at a time and are not broken: leave `read_ratio`, `depth` and faults out",
            ));
        }
        let load =
            PlannedLoad::of(&spec, Order::Fifo).ok_or_else(|| refuse("its load has no end by the clock"))?;
        let question = Question {
            clients: spec.contenders,
            rate: load.rate(),
            hold: spec.mean_hold(),
            holds: Some(spec.all_holds().to_toml()),
            locks: spec.locks,
            arrivals: "\"poisson\"".to_owned(),
            think: load.is_closed().then(|| spec.all_thinks().to_toml()),
            round_trip: None,
            scenario: Some(standing_alone(&file.text, path)?),
            objective: args.slo.clone(),
        };
        question.check().map_err(|why| refuse(&why))?;
        Ok(Self { question, load, scenario: scenario.clone() })
    }
}

fn missing(options: &str) -> Error {
    Error::usage(format!("say what is asked with {options}, or with --from-scenario"))
}

/// The scenario with an absolute path to its file of arrivals, so that it can be read from anywhere.
fn standing_alone(text: &str, path: &Path) -> Result<String, Error> {
    let mut table: Table =
        text.parse().map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    if let Some(Value::String(replay)) =
        table.get_mut("arrivals").and_then(|arrivals| arrivals.get_mut("replay"))
    {
        let beside = path.parent().unwrap_or(Path::new("")).join(&*replay);
        let absolute = std::path::absolute(&beside).map_err(|error| Error::environment(error.to_string()))?;
        *replay = absolute.display().to_string();
    }
    Ok(table.to_string())
}

/// The scenario that verifies a question with one strategy, for at most `longest`.
pub fn verifying(
    text: &str,
    name: &str,
    strategy: &str,
    seed: u64,
    longest: Duration,
) -> Result<String, Error> {
    let mut table: Table = text.parse().map_err(|error| Error::usage(format!("the scenario: {error}")))?;
    for key in ["gate", "ensemble", "precision", "repetitions_at_most", "order"] {
        table.remove(key);
    }
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    set("name", name.into());
    set("strategies", Value::Array(vec![strategy.into()]));
    set("repetitions", Value::Integer(1));
    set("seed", Value::Integer(i64::try_from(seed).unwrap_or(1)));
    let lasts = table.get("duration").and_then(Value::as_str).map(parse_duration);
    if let Some(Ok(lasts)) = lasts
        && lasts > longest
    {
        table.insert("duration".to_owned(), format!("{}ms", longest.as_millis()).into());
    }
    Ok(table.to_string())
}

#[derive(Debug, Clone, PartialEq)]
pub struct Holds {
    pub mean: Duration,
    /// The holds in TOML, as in a scenario; `None` if only the mean is known.
    pub toml: Option<String>,
}

/// Parses `20ms`, `exactly 20ms`, or a distribution as in a scenario.
fn parsed_holds(text: &str) -> Result<Holds, String> {
    let text = text.trim();
    if let Some(time) = text.strip_prefix("exactly ") {
        let mean = within(parse_duration(time.trim())?)?;
        return Ok(Holds { mean, toml: Some(format!("\"{}us\"", mean.as_micros())) });
    }
    if text.starts_with('{') {
        let mean = within(distribution(text)?.mean())?;
        return Ok(Holds { mean, toml: Some(text.to_owned()) });
    }
    Ok(Holds { mean: within(parse_duration(text)?)?, toml: None })
}

fn within(mean: Duration) -> Result<Duration, String> {
    let fits = (Duration::from_micros(1)..=Duration::from_secs(3_600)).contains(&mean);
    if fits {
        Ok(mean)
    } else {
        Err("holds are out of range; give more than 0 and at most 1h on average".into())
    }
}

fn distribution(toml: &str) -> Result<Distribution, String> {
    let text = format!(
        "hold = {toml}\nname = \"holds\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 1\nduration = \"1s\"\n"
    );
    let parsed =
        parse("--hold", &text, &zklockbench_load::catalog()).map_err(|mistakes| mistakes.render(false))?;
    Ok(parsed.scenario.hold)
}

const LARGEST: u64 = 64 << 20;

fn read_holds(path: &Path) -> Result<Holds, Error> {
    let refuse = |why: String| Error::usage(format!("--holds {}: {why}", path.display()));
    let bytes = disk::read_named(path, LARGEST)
        .map_err(|unreadable| refuse(format!("{unreadable}; name a file of holds")))?;
    let text =
        String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8; save the file as UTF-8".to_owned()))?;
    let times = times(&text).map_err(refuse)?;
    let holds = Distribution::Measured(MeasuredTimes::condensed(times));
    Ok(Holds { mean: within(holds.mean()).map_err(refuse)?, toml: Some(holds.to_toml()) })
}

/// Headings of a column of holds, and the unit in microseconds of numbers without one.
const HEADERS: [(&str, Option<f64>); 4] =
    [("hold", None), ("hold_us", Some(1.0)), ("hold_ms", Some(1e3)), ("hold_s", Some(1e6))];

fn times(text: &str) -> Result<Vec<Duration>, String> {
    let (mut column, mut unit_us) = (0, None);
    let mut found = Vec::new();
    // Spreadsheets put a byte order mark at the start of a file.
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let fields = fields(line);
        let header = fields.iter().enumerate().find_map(|(at, field)| {
            let (_, unit_us) = HEADERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(field))?;
            Some((at, *unit_us))
        });
        if let (Some(header), true) = (header, found.is_empty()) {
            (column, unit_us) = header;
            continue;
        }
        let field = fields.get(column).copied().unwrap_or_default();
        found.push(time(field, unit_us).map_err(|why| format!("line {number}: {why}"))?);
    }
    match found.iter().all(Duration::is_zero) {
        true => Err("it has no hold that takes any time; write one duration a line, such as 20ms".into()),
        false => Ok(found),
    }
}

/// The fields of a line, without their quotes. A comma within quotes is part of a field.
fn fields(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let between = |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    };
    line.split(between).map(|field| field.trim().trim_matches('"')).collect()
}

fn time(field: &str, unit_us: Option<f64>) -> Result<Duration, String> {
    let wrong =
        || format!("`{}` is no duration; write e.g. 20ms, or a header such as hold_ms", shown(field, 40));
    match (field.parse::<f64>(), unit_us) {
        (Ok(count), Some(unit_us)) if count >= 0.0 => {
            Duration::try_from_secs_f64(count * unit_us / 1e6).map_err(|_| wrong())
        }
        (Ok(_), _) => Err(wrong()),
        (Err(_), _) => parse_duration(field).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_duration_is_a_mean_and_a_distribution_can_be_given() {
        assert_eq!(parsed_holds("20ms"), Ok(Holds { mean: 20 * MILLISECOND, toml: None }));
        let exact = parsed_holds("exactly 20ms").unwrap();
        assert_eq!((exact.mean, exact.toml.as_deref()), (20 * MILLISECOND, Some("\"20000us\"")));
        let text = "{ exponential = { mean = \"20ms\" } }";
        assert_eq!(parsed_holds(text), Ok(Holds { mean: 20 * MILLISECOND, toml: Some(text.into()) }));
        for wrong in ["0ms", "-5ms", "2h", "20", "{ exponential = \"20ms\" }", "{ gamma = 3 }", "exactly", ""]
        {
            assert!(parsed_holds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_has_one_hold_a_line_or_a_column_with_a_unit() {
        let ms = |all: &[u32]| all.iter().map(|one| *one * MILLISECOND).collect::<Vec<_>>();
        assert_eq!(times("3ms\n\n5 ms\n1s\n"), Ok(ms(&[3, 5, 1_000])));
        assert_eq!(times("time,hold_ms,lock\n0,3,a\n1,2.5,b\n").unwrap()[1], Duration::from_micros(2_500));
        assert_eq!(times("hold\n\"7ms\"\n"), Ok(ms(&[7])));
        assert_eq!(times("\u{feff}lock,hold_ms\r\n\"a,3\",7\r\n"), Ok(ms(&[7])));
        for (text, told) in [
            ("", "no hold that takes any time"),
            ("3ms\n4\n", "line 2: `4` is no duration"),
            ("hold_ms\n-4\n", "line 2: `-4` is no duration"),
            ("hold_s\nNaN\n", "line 2: `NaN` is no duration"),
            ("3ms,4ms\nfast\n", "line 2: `fast` is no duration"),
        ] {
            let found = times(text).unwrap_err();
            assert!(found.contains(told), "{text:?}: {found}");
        }
    }
}
