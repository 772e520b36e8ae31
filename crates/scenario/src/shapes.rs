//! The syntax of distributions, arrival processes and popularity: a name, or a table with exactly one
//! key.

use std::borrow::Cow;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::arrivals::{Arrivals, Popularity, Replay, Step};
use super::columns::Columns;
use super::distribution::{Distribution, MeasuredTimes};
use super::fields::PROCESSES_WITH_RATE;
use super::file::{DAY, ONE, WEEK};
use super::trace::Trace;
use super::value::{ColumnName, Is, Number, Time, Unit, Wrong, written, wrong};

type Drawn = Is<Time<0, DAY>>;

/// A distribution of times.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, expecting = "a table")]
pub(super) enum Shape {
    /// constant; a plain duration means the same
    #[schemars(extend("x-example" = r#""20ms""#))]
    Fixed(Drawn),
    /// uniform between `min` and `max`
    #[schemars(extend("x-example" = r#"{ uniform = { min = "1ms", max = "5ms" } }"#))]
    Uniform { min: Drawn, max: Drawn },
    /// exponential with this mean
    #[schemars(extend("x-example" = r#"{ exponential = { mean = "5ms" } }"#))]
    Exponential { mean: Drawn },
    /// log-normal with this median; `sigma` is the standard deviation of the logarithm
    #[schemars(extend("x-example" = r#"{ log-normal = { median = "5ms", sigma = 0.5 } }"#))]
    LogNormal { median: Drawn, sigma: Is<Number<0, { 3 * ONE }>> },
    /// one of 1 to 1000 listed durations, all equally likely
    #[schemars(extend("x-example" = r#"{ measured = ["3ms", "5ms", "40ms"] }"#))]
    Measured(#[schemars(length(min = 1, max = 1000))] Vec<Drawn>),
}

/// A distribution as the value of a key.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Shape")]
pub(super) struct Times(pub(super) Distribution);

impl TryFrom<Shape> for Times {
    type Error = Wrong;

    fn try_from(shape: Shape) -> Result<Self, Wrong> {
        Ok(Self(match shape {
            Shape::Fixed(time) => Distribution::Fixed(time.0),
            Shape::Uniform { min, max } if min.0 > max.0 => {
                let message = format!("`min` {} is more than `max` {}", written(min.0), written(max.0));
                return Err(wrong(message, "swap the two values"));
            }
            Shape::Uniform { min, max } => Distribution::Uniform { min: min.0, max: max.0 },
            Shape::Exponential { mean } => Distribution::Exponential { mean: mean.0 },
            Shape::LogNormal { median, sigma } => {
                Distribution::LogNormal { median: median.0, sigma: sigma.0 }
            }
            Shape::Measured(times) if !(1..=MeasuredTimes::MOST).contains(&times.len()) => {
                let help = format!("list 1 to {}, some typical and some long", MeasuredTimes::MOST);
                return Err(wrong(format!("`measured` lists {} durations", times.len()), help));
            }
            Shape::Measured(times) => {
                Distribution::Measured(MeasuredTimes::new(times.iter().map(|time| time.0).collect()))
            }
        }))
    }
}

impl JsonSchema for Times {
    fn schema_name() -> Cow<'static, str> {
        "distribution".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-words": "duration or [distribution](#distributions) up to 1day",
            "anyOf": [Is::<Time<0, DAY>>::json_schema(generator), Shape::json_schema(generator)],
        })
    }
}

/// An arrival process. A process without its own rates or times requires `rate` or `rate_each`.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, expecting = "a table")]
#[schemars(rename = "arrivals")]
pub(super) enum Process {
    /// independent arrivals with exponential gaps, as in queueing theory
    #[schemars(extend("x-example" = r#""poisson""#))]
    Poisson,
    /// evenly spaced; queues are much shorter than with `poisson`
    #[schemars(extend("x-example" = r#""constant""#))]
    Constant,
    /// bursts at `peak` times the rate, with exponential lengths of mean `length`, and no arrivals in between
    #[schemars(extend("x-example" = r#"{ bursts = { peak = 4.0, length = "500ms" } }"#))]
    Bursts { peak: Is<Number<1_010_000, { 1000 * ONE }>>, length: Is<Time<1, DAY>> },
    /// a sine wave: the rate times 1 ± `amplitude`, repeated every `period`
    #[schemars(extend("x-example" = r#"{ day = { amplitude = 0.8, period = "60s" } }"#))]
    Day { amplitude: Is<Number<0, ONE>>, period: Is<Time<1, WEEK>> },
    /// a linear change from one rate to another over the measured phase
    #[schemars(extend("x-example" = "{ ramp = { from = 10, to = 200 } }"))]
    Ramp { from: Rate, to: Rate },
    /// each rate for its duration; the last rate lasts until the end
    #[schemars(extend("x-example" = r#"{ steps = [{ rate = 10, for = "5s" }, { rate = 40, for = "5s" }] }"#))]
    Steps(#[schemars(length(min = 1))] Vec<RateStep>),
    /// from a file: CSV, or a history recorded by this suite (`*.jsonl`); see [workloads](../workloads.md#replay)
    #[schemars(extend("x-example" = r#"{ replay = "trace.csv" }"#))]
    Replay(ReplayedFile),
}

/// A replay file: a path, or a table with the path and the columns.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct ReplayedFile(ReplayParts);

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "the path of a file, or a table with `file` and column keys")]
#[schemars(inline)]
struct ReplayParts {
    file: String,
    time_column: Option<Is<ColumnName>>,
    lock_column: Option<Is<ColumnName>>,
    hold_column: Option<Is<ColumnName>>,
    time_unit: Option<Is<Unit>>,
    hold_unit: Option<Is<Unit>>,
}

impl ReplayParts {
    fn columns(&self) -> Columns {
        let name = |column: &Option<Is<ColumnName>>| column.as_ref().map(|column| column.0.clone());
        Columns {
            time: name(&self.time_column),
            lock: name(&self.lock_column),
            hold: name(&self.hold_column),
            time_unit: self.time_unit.map(|unit| unit.0),
            hold_unit: self.hold_unit.map(|unit| unit.0),
        }
    }
}

impl JsonSchema for ReplayedFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "replayed file".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, ReplayParts::json_schema(generator)] })
    }
}

/// A rate, possibly 0.
type Rate = Is<Number<0, { 1_000_000 * ONE }>>;

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `rate` and `for`")]
#[schemars(inline)]
pub(super) struct RateStep {
    rate: Rate,
    #[serde(rename = "for")]
    lasts: Is<Time<1, WEEK>>,
}

/// Reads a scenario's replay file, in order of time. Errors state the file, the line and the problem.
pub type ReadTrace<'r> = &'r dyn Fn(&Path, &Columns) -> Result<Trace, String>;

impl Process {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
            Self::Bursts { .. } => "bursts",
            Self::Day { .. } => "day",
            Self::Ramp { .. } => "ramp",
            Self::Steps(_) => "steps",
            Self::Replay(_) => "replay",
        }
    }

    pub(super) fn takes_rate(&self) -> bool {
        PROCESSES_WITH_RATE.contains(&self.name())
    }

    /// Returns the arrivals, at one per second if the process takes a rate.
    pub(super) fn arrivals(self, traces: ReadTrace<'_>) -> Result<Arrivals, Wrong> {
        let rate = 1.0;
        Ok(match self {
            Self::Poisson => Arrivals::Poisson { rate },
            Self::Constant => Arrivals::Constant { rate },
            Self::Bursts { peak, length } => Arrivals::Bursts { rate, peak: peak.0, length: length.0 },
            Self::Day { amplitude, period } => {
                Arrivals::Day { rate, amplitude: amplitude.0, period: period.0 }
            }
            Self::Ramp { from, to } => Arrivals::Ramp { from: from.0, to: to.0 },
            Self::Steps(steps) if steps.is_empty() => {
                return Err(wrong("the list is empty", "write { steps = [{ rate = 10, for = \"5s\" }] }"));
            }
            Self::Steps(steps) => {
                let step = |step: RateStep| Step { rate: step.rate.0, lasts: step.lasts.0 };
                Arrivals::Steps(steps.into_iter().map(step).collect())
            }
            Self::Replay(ReplayedFile(parts)) => Arrivals::Replay(replay(parts, traces)?),
        })
    }
}

fn replay(parts: ReplayParts, traces: ReadTrace<'_>) -> Result<Replay, Wrong> {
    let (columns, file) = (parts.columns(), parts.file);
    let trace = traces(Path::new(&file), &columns).map_err(|problem| match problem.split_once("; ") {
        Some((message, help)) => wrong(message, help),
        None => wrong(problem, "write the path of a CSV file or of a history, relative to the scenario file"),
    })?;
    if trace.arrivals.is_empty() {
        return Err(wrong(format!("{file} has no arrivals"), "use a file with at least one arrival"));
    }
    let count = trace.arrivals.len();
    Ok(Replay { file: file.into(), count, inferred: trace.inferred, trace: trace.arrivals.into() })
}

/// Popularity of the locks.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum PopularityShape {
    Uniform,
    /// exponent of Zipf's law
    Zipf(Is<Number<0, { 5 * ONE }>>),
}

impl From<PopularityShape> for Popularity {
    fn from(shape: PopularityShape) -> Self {
        match shape {
            PopularityShape::Uniform => Self::Uniform,
            PopularityShape::Zipf(power) => Self::Zipf(power.0),
        }
    }
}
