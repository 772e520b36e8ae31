//! The one table of what a scenario file may say.
//!
//! The reader takes its bounds and defaults from here, the schema and the reference page are generated from
//! it, and the nearest-name suggestions search it: none of the four can disagree with the others.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::arrivals::Late;
use super::model::{InDoubt, Order};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Top,
    Ensemble,
    /// Under each `[[client]]`: a kind of clients.
    Client,
    /// Under each `[[fault]]`. What belongs to one kind of fault only is a parameter on its card.
    Fault,
    Gate,
}

impl Section {
    pub const ALL: [Self; 5] = [Self::Top, Self::Ensemble, Self::Client, Self::Fault, Self::Gate];

    /// How its header is written; `None` of the top, which has none.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Self::Top => None,
            Self::Ensemble => Some("[ensemble]"),
            Self::Client => Some("[[client]]"),
            Self::Fault => Some("[[fault]]"),
            Self::Gate => Some("[[gate]]"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum KeyKind {
    /// Lower-case letters, digits and hyphens.
    Name,
    Text,
    Strategies,
    /// One whole number or a list of them, each within the bounds.
    Counts(RangeInclusive<u64>),
    Count(RangeInclusive<u64>),
    OneOfCounts(&'static [u64]),
    Duration(RangeInclusive<Duration>),
    /// A duration or a distribution of durations, all within [`DRAWN`].
    Distribution,
    Word(&'static [&'static str]),
    Factor(RangeInclusive<f64>),
    /// A share as text with a percent sign, within the bounds, which are percents.
    Percent(RangeInclusive<f64>),
    /// A probability and an error rate, as [`zklockbench_core::evidence::Sensitivity`] reads them.
    Sensitivity,
    Path,
    Connect,
    Fault,
    Gate,
    /// A target of a fault; which there are depends on its kind.
    Target,
    /// One of the [`PROCESSES`].
    Arrivals,
    /// `uniform`, or `{ zipf = s }` with s within the bounds.
    Popularity(RangeInclusive<f64>),
}

/// What happens when a key is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Required,
    Default(&'static str),
    /// Nothing holds; the sentence says what that means.
    Absent(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub section: Section,
    pub name: &'static str,
    pub kind: KeyKind,
    pub need: Need,
    pub example: &'static str,
    pub doc: &'static str,
    /// Other words that people try for it.
    pub also: &'static [&'static str],
}

/// How a shape of a distribution or a process of arrivals is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Its name alone.
    Word,
    Table(&'static [SubKey]),
    /// A list of tables of these parts.
    List(&'static [SubKey]),
    /// A list of durations, within [`DRAWN`].
    Durations,
    File,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SubKey {
    pub name: &'static str,
    /// A [`KeyKind::Duration`] or a [`KeyKind::Factor`].
    pub kind: KeyKind,
}

const fn part(name: &'static str, kind: KeyKind) -> SubKey {
    SubKey { name, kind }
}

/// One shape of a distribution other than a fixed time.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub name: &'static str,
    pub form: Form,
    pub example: &'static str,
    pub doc: &'static str,
}

const TIME: KeyKind = KeyKind::Duration(DRAWN);

pub const SHAPES: &[Shape] = &[
    Shape {
        name: "uniform",
        form: Form::Table(&[part("min", TIME), part("max", TIME)]),
        example: r#"{ uniform = { min = "1ms", max = "5ms" } }"#,
        doc: "evenly between the two",
    },
    Shape {
        name: "exponential",
        form: Form::Table(&[part("mean", TIME)]),
        example: r#"{ exponential = { mean = "5ms" } }"#,
        doc: "memoryless, with this mean",
    },
    Shape {
        name: "log-normal",
        form: Form::Table(&[part("median", TIME), part("sigma", KeyKind::Factor(SIGMA))]),
        example: r#"{ log-normal = { median = "5ms", sigma = 0.5 } }"#,
        doc: "half below the median, with a tail that `sigma` (of the logarithm) makes longer",
    },
    Shape {
        name: "measured",
        form: Form::Durations,
        example: r#"{ measured = ["3ms", "5ms", "40ms"] }"#,
        doc: "one of these, each as often as the others: 1 to 1000 durations",
    },
];

/// Bounds of what a distribution is made of.
pub const DRAWN: RangeInclusive<Duration> = Duration::ZERO..=DAY;

/// Bounds of a log-normal's `sigma`: at 3 the 99th percentile is a thousand times the median.
pub const SIGMA: RangeInclusive<f64> = 0.0..=3.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    pub name: &'static str,
    pub form: Form,
    /// Whether `rate` or `rate_each` belongs to it; otherwise it has its own rates or times.
    pub takes_rate: bool,
    pub example: &'static str,
    pub doc: &'static str,
}

pub const PROCESSES: &[Process] = &[
    Process {
        name: "poisson",
        form: Form::Word,
        takes_rate: true,
        example: r#""poisson""#,
        doc: "independent of each other, with exponential gaps; what queueing theory is about",
    },
    Process {
        name: "constant",
        form: Form::Word,
        takes_rate: true,
        example: r#""constant""#,
        doc: "evenly spaced; queues are much shorter than with `poisson`",
    },
    Process {
        name: "bursts",
        form: Form::Table(&[
            part("peak", KeyKind::Factor(1.01..=1000.0)),
            part("length", KeyKind::Duration(MILLISECOND..=DAY)),
        ]),
        takes_rate: true,
        example: r#"{ bursts = { peak = 4.0, length = "500ms" } }"#,
        doc: "at `peak` times the rate in bursts whose length is exponential with the mean `length`, and none in between",
    },
    Process {
        name: "day",
        form: Form::Table(&[
            part("amplitude", KeyKind::Factor(0.0..=1.0)),
            part("period", KeyKind::Duration(MILLISECOND..=WEEK)),
        ]),
        takes_rate: true,
        example: r#"{ day = { amplitude = 0.8, period = "60s" } }"#,
        doc: "up and down as a sine: the rate times 1 ± `amplitude`, once in each `period`",
    },
    Process {
        name: "ramp",
        form: Form::Table(&[part("from", RATE_OR_NONE), part("to", RATE_OR_NONE)]),
        takes_rate: false,
        example: "{ ramp = { from = 10, to = 200 } }",
        doc: "from one rate to another, evenly over the measured phase",
    },
    Process {
        name: "steps",
        form: Form::List(&[part("rate", RATE_OR_NONE), part("for", KeyKind::Duration(MILLISECOND..=WEEK))]),
        takes_rate: false,
        example: r#"{ steps = [{ rate = 10, for = "5s" }, { rate = 40, for = "5s" }] }"#,
        doc: "each rate for its time; the last one stays",
    },
    Process {
        name: "replay",
        form: Form::File,
        takes_rate: false,
        example: r#"{ replay = "trace.csv" }"#,
        doc: "as a file has them: CSV with `time`, `lock` and `hold`, or a history of this suite (`*.jsonl`); \
              [workloads](../workloads.md#replay) describes the format",
    },
];

/// Bounds of `rate` and `rate_each`, in arrivals a second.
const RATE: RangeInclusive<f64> = 0.001..=1_000_000.0;
/// Where a process may pause.
const RATE_OR_NONE: KeyKind = KeyKind::Factor(0.0..=1_000_000.0);

/// Most arrivals of a trial: of each it is kept in memory what became of it.
pub const ARRIVALS_MAX: usize = 50_000_000;
pub const ROWS_MAX: usize = 5_000_000;

pub const OPEN_KEYS: &[&str] = &["rate", "rate_each", "arrivals", "popularity", "late", "backlog_at_most"];

/// Most contenders of a trial, and most locks.
pub const CONTENDERS_MAX: u64 = 100_000;

/// Most servers of an ensemble that the suite starts.
pub const SERVERS_MAX: u64 = 5;

pub const TRIALS_MAX: usize = 10_000;

/// What is measured lasts at least so long, scaled or not.
pub const SHORTEST: Duration = MILLISECOND;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Bounds of every poll interval: shorter would measure a busy loop.
pub const POLL_INTERVAL: RangeInclusive<Duration> = MILLISECOND..=HOUR;

/// Bounds of the other durations of strategies and faults.
pub const PARAM_DURATION: RangeInclusive<Duration> = Duration::ZERO..=DAY;

/// The parameter of strategies that `poll_interval` at the top gives a default to.
pub const POLL_INTERVAL_PARAM: &str = "poll_interval";

/// The load by its word alone; what an open one is stands in keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadWord {
    Closed,
    Batch,
    Open,
}

pub(super) trait Word: Sized {
    const WORDS: &'static [&'static str];

    fn of(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($($Choice:ident { $($word:literal => $Variant:ident),* })*) => {$(
        impl Word for $Choice {
            const WORDS: &'static [&'static str] = &[$($word),*];

            fn of(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$Variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    LoadWord { "closed" => Closed, "batch" => Batch, "open" => Open }
    Late { "keep" => Keep, "drop" => Drop }
    Order { "shuffled" => Shuffled, "as-written" => AsWritten }
    InDoubt { "end-session" => EndSession, "keep-session" => KeepSession }
}

/// The table itself; `$with` is the macro that makes something of it.
///
/// Of each section: the struct of what could be read of it, and its keys. Of each key: what it means, what its value
/// becomes, its kind, what happens without it, an example, and other words that people try for it. A key without a type is
/// read by code of its own, because its value means something only beside strategies, faults or files.
macro_rules! scenario_keys {
    ($with:ident) => { $with! {
        Top TopKeys {
            /// Short name: lower-case letters, digits and hyphens. Results directories start with it.
            name: String = Name, Required, r#""quick""#, ["title", "id"];
            /// The question it answers.
            description: String = Text, Default(r#""""#),
                r#""Does a herd slow the handoff?""#, ["purpose", "summary", "about", "desc"];
            /// The strategies compared: names, or tables of a name and parameters.
            strategies = Strategies, Required,
                r#"["polling", { name = "predecessor-watch", watch = "exists" }]"#,
                ["strategy", "algorithms", "recipes"];
            /// How many contenders, each with its own session: a number, or a list to run each count.
            contenders: Vec<usize> = Counts(1..=CONTENDERS_MAX), Required,
                "[1, 5, 20]",
                ["contender", "clients", "threads", "workers", "sessions", "concurrency", "users"];
            /// How many independent lock paths the contenders share.
            locks: usize = Count(1..=CONTENDERS_MAX), Default("1"), "1", ["lock", "lock_count", "paths"];
            /// How long a lock is held: a duration or a distribution.
            hold: Distribution = Distribution, Default(r#""0ms""#),
                r#""20ms""#, ["hold_time", "work", "critical_section"];
            /// Time between a release and the next acquire: a duration or a distribution. Closed load only.
            think: Distribution = Distribution, Default(r#""0ms""#),
                r#"{ exponential = { mean = "5ms" } }"#, ["think_time", "pause", "idle"];
            /// Share of acquires that ask to read. Readers may be inside together; a lock without a read side
            /// takes every request as a write.
            read_ratio: f64 = Factor(0.0..=1.0), Default("0.0"),
                "0.8", ["reads", "readers", "read_share", "read_fraction", "shared"];
            /// How many times a contender takes the lock in each turn before it holds, and releases it
            /// afterwards. More than once only if all listed strategies are reentrant. Waits and holds are
            /// those of the outermost acquire.
            depth: u32 = Count(1..=1000), Default("1"), "3", ["reentrancy", "nesting", "reentrant", "levels"];
            /// How often a polling strategy looks; applies to every listed strategy that polls and does not
            /// set its own.
            poll_interval: Duration = Duration(POLL_INTERVAL),
                Absent("each polling strategy has its own default"),
                r#""1s""#, ["poll", "polling_interval", "interval"];
            /// `closed`: each contender acquires over and over. `batch`: the first holds until all are
            /// queued, then each acquires once, which makes totals exact. `open`: arrivals keep coming,
            /// however slow the lock is, and the contenders are the sessions that serve them; see
            /// [workloads](../workloads.md).
            load: LoadWord = Word(LoadWord::WORDS), Default(r#""closed""#),
                r#""closed""#, ["load_model", "mode"];
            /// Average arrivals per second, over all contenders and locks. Open load only.
            rate: f64 = Factor(RATE),
                Absent("an open load needs either this or `rate_each`, unless its arrivals have their own \
                        rates"),
                "40", ["arrival_rate", "arrivals_per_second", "qps", "tps", "rps", "offered"];
            /// Average arrivals per second for each contender, so the rate grows with their number. Open load
            /// only.
            rate_each: f64 = Factor(RATE), Absent("see `rate`"), "0.2", ["rate_per_contender", "each_rate"];
            /// When arrivals come. Open load only.
            arrivals = Arrivals, Default(r#""poisson""#),
                r#""poisson""#, ["arrival", "arrival_process", "process", "traffic"];
            /// Which of many locks an arrival asks for: `"uniform"`, or the k-th most popular in proportion
            /// to 1 / k to the power of `zipf`; the seed decides which lock is how popular. Open load only.
            popularity: Popularity = Popularity(0.0..=5.0), Default(r#""uniform""#),
                "{ zipf = 1.0 }", ["skew", "zipf", "hot_locks"];
            /// What happens to an arrival that finds no free contender. `keep`: it waits for one, and that is
            /// part of its wait. `drop`: it is dropped, and counted. Open load only.
            late: Late = Word(Late::WORDS), Default(r#""keep""#), r#""drop""#, ["late_arrivals", "overflow"];
            /// How long after the measured phase waiting arrivals may still be served; those that wait longer
            /// count as unserved. Not scaled by `time_scale`. Open load only.
            backlog_at_most: Duration = Duration(Duration::ZERO..=DAY), Default(r#""30s""#),
                r#""30s""#, ["backlog", "drain", "drain_at_most"];
            /// How long the measured phase lasts. Closed and open loads only.
            duration: Duration = Duration(MILLISECOND..=WEEK),
                Absent("a closed load needs either this or `acquisitions`, an open one this; a replay \
                        lasts as long as its file"),
                r#""5s""#, ["time", "run_time", "length", "measure"];
            /// How often each contender acquires before the measured phase ends.
            acquisitions: u64 = Count(1..=1_000_000_000),
                Absent("a closed load needs either this or `duration`; in a batch it is 1"),
                "10", ["acquires", "iterations", "count", "acquisition"];
            /// Over how long the contenders start. Closed load only.
            ramp_up: Duration = Duration(Duration::ZERO..=DAY), Default(r#""0s""#),
                r#""2s""#, ["ramp", "stagger"];
            /// Load before the measured phase, not recorded. Closed and open loads only.
            warm_up: Duration = Duration(Duration::ZERO..=DAY), Default(r#""0s""#),
                r#""1s""#, ["warm", "burn_in"];
            /// How long the warm-up may take until the load is steady. Closed and open loads only.
            warm_up_at_most: Duration = Duration(Duration::ZERO..=WEEK),
                Absent("4 times `warm_up`; the same as `warm_up` if the rate of arrivals changes"),
                r#""10s""#, ["warm_up_max", "max_warm_up", "warm_up_limit"];
            /// How often each combination of strategy and contenders runs.
            repetitions: u32 = Count(1..=1000), Default("3"),
                "3", ["repeat", "repeats", "runs", "reps", "rounds"];
            /// Repeat until the 95 % confidence interval over the repetitions is at most this wide to either
            /// side for every strategy and number of contenders: of the throughput in a closed load, of the
            /// mean handoff in a batch, of the mean wait in an open load. `repetitions` is then the minimum.
            /// With the defaults, the interval is checked after 8, 13, 20 and 30 repetitions.
            precision: f64 = Percent(0.1..=50.0), Absent("exactly `repetitions` are run"),
                r#""2%""#, ["accuracy", "confidence", "error_margin", "until_precise"];
            /// With `precision`: the most repetitions of each combination, even if it is still imprecise.
            repetitions_at_most: u32 = Count(6..=1000), Default("30"),
                "30", ["max_repetitions", "repetitions_max", "most_repetitions"];
            /// Order of the trials within each repetition: `shuffled` by the seed, so that drift of the
            /// machine favours no strategy, or `as-written`.
            order: Order = Word(Order::WORDS), Default(r#""shuffled""#),
                r#""shuffled""#, ["shuffle", "sequence"];
            /// Seed for everything random: trial order, hold and think times, who reads, whom faults hit and
            /// when.
            seed: u64 = Count(0..=i64::MAX as u64), Default("1"), "1", ["random_seed", "rng"];
            /// Session timeout that contenders request.
            session_timeout: Duration = Duration(Duration::from_millis(200)..=Duration::from_secs(600)),
                Default(r#""10s""#), r#""10s""#, ["timeout", "session"];
            /// How long an acquire may take before it counts as timed out. Not scaled by `time_scale`.
            acquire_timeout: Duration = Duration(MILLISECOND..=WEEK), Absent("an acquire waits forever"),
                r#""30s""#, ["lock_timeout", "wait_timeout", "max_wait"];
            /// How long a batch, or a measured phase that ends by acquisitions, goes on without any
            /// acquisition before the run gives up and the trial is partial. The longest hold and think
            /// times, strategies' intervals and faults come on top. Not scaled by `time_scale`.
            give_up_after: Duration = Duration(MILLISECOND..=WEEK), Default(r#""10m""#),
                r#""10m""#, ["give_up", "stall_timeout", "no_progress"];
            /// What a contender does when the lock reports a failed request and it can't know whether the
            /// request was carried out. `end-session`: it ends its session, and any node it left goes at
            /// once. `keep-session`: it keeps its session and lock object, as a careless program would; a
            /// node it left then blocks the queue.
            in_doubt: InDoubt = Word(InDoubt::WORDS), Default(r#""end-session""#),
                r#""keep-session""#,
                ["on_doubt", "after_doubt", "when_in_doubt", "on_connection_loss", "after_loss"];
            /// How small an error rate the acquisitions of each trial must exclude for a verdict of *held*:
            /// `0.99@1%` means that a lock that errs at 1 % of its acquisitions would have been caught with
            /// probability 0.99 ([methodology](../methodology.md)). Otherwise the verdict is
            /// *unknown*.
            evidence: Sensitivity = Sensitivity, Default(r#""0.99@100%""#),
                r#""0.99@1%""#, ["sensitivity", "proof", "error_rate", "evidence_needed"];
            /// Factor on hold, think, strategies' intervals, duration, ramp-up, warm-up, times of arrivals
            /// and all times of faults; rates are divided by it, timeouts stay.
            time_scale: f64 = Factor(1e-6..=1000.0), Default("1.0"), "0.1", ["scale", "speed"];
        }
        Ensemble EnsembleKeys {
            /// Servers to start on this host: 1, 3 or 5. Not with `connect`.
            servers: usize = OneOfCounts(&[1, 3, 5]), Default("3"), "3", ["size", "nodes", "replicas"];
            /// Where the servers keep their data: a tmpfs or a disk decides most of a write's cost. Excludes
            /// `connect`.
            data_dir: PathBuf = Path, Absent("chosen by the suite, and recorded in the results"),
                r#""/dev/shm""#, ["dir", "directory", "datadir", "path"];
            /// A Compose file: the suite brings its servers up in containers for the run, and takes them
            /// down. Only from the command line, as `--compose FILE`: containers can do to this host whatever
            /// their file says. Excludes `servers`, `data_dir` and `connect`.
            compose: PathBuf = Path, Absent("the servers are processes on this host"),
                r#""docker/compose.3.yaml""#, ["docker", "compose_file", "docker_compose"];
            /// Existing ensemble to use instead: `host:port` pairs and an optional chroot.
            connect: String = Connect, Absent("the suite starts its own ensemble"),
                r#""zk1:2181,zk2:2181/chroot""#, ["connection", "connect_string", "hosts", "address", "url"];
        }
        Client ClientKeys {
            /// How many are of this kind, relative to the shares of the others: 0.8 and 0.2, or 8 and 2. In an
            /// open load a share of the arrivals; otherwise of the contenders, the first of the first kind.
            share: f64 = Factor(1e-6..=1e6), Required, "0.2", ["weight", "part", "ratio"];
            /// How long they hold a lock.
            hold: Distribution = Distribution, Absent("as at the top of the file"),
                r#""1s""#, ["hold_time", "work", "critical_section"];
            /// Their time between a release and the next acquire. Closed load only.
            think: Distribution = Distribution, Absent("as at the top of the file"),
                r#"{ exponential = { mean = "5s" } }"#, ["think_time", "pause", "idle"];
            /// Share of their acquires that ask to read.
            read_ratio: f64 = Factor(0.0..=1.0), Absent("as at the top of the file"),
                "1", ["reads", "readers", "read_share"];
        }
        Fault FaultKeys {
            /// Kind of fault.
            kind = Fault, Required, r#""kill""#, ["name", "type", "fault"];
            /// Whom it hits, resolved each time it fires: `leader`, `follower`, `any` or `all` servers;
            /// `holder`, `waiter`, `any` or `all` contenders. Excludes `server` and `contender`.
            target = Target, Absent("each kind has its own default"),
                r#""leader""#, ["whom", "victim", "hits"];
            /// Hits this server only, counted from 1.
            server: usize = Count(1..=SERVERS_MAX), Absent("see `target`"), "2", ["node", "server_id"];
            /// Hits this contender only, counted from 0.
            contender: usize = Count(0..=CONTENDERS_MAX - 1), Absent("see `target`"),
                "3", ["client", "worker"];
            /// When it fires, from the start of the measured phase.
            at: Duration = Duration(Duration::ZERO..=WEEK),
                Absent("a fault needs either this or `after_acquisitions`"),
                r#""5s""#, ["start", "begin", "when"];
            /// Fires after this many acquisitions in the measured phase, over all contenders.
            after_acquisitions: u64 = Count(1..=1_000_000_000), Absent("a fault needs either this or `at`"),
                "100", ["acquisitions", "after"];
            /// How long until it is healed.
            duration: Duration = Duration(MILLISECOND..=WEEK),
                Absent("required for faults that are healed; faults that end on their own have none"),
                r#""2s""#, ["length", "lasts"];
            /// How often it fires.
            times: u32 = Count(1..=1000), Default("1"), "3", ["repeat", "repetitions", "count"];
            /// Time from one start to the next; longer than `duration` and `jitter` together.
            every: Duration = Duration(MILLISECOND..=WEEK), Absent("required if it fires more than once"),
                r#""10s""#, ["interval", "period"];
            /// Each start is delayed by a random part of this.
            jitter: Duration = Duration(Duration::ZERO..=DAY), Default(r#""0s""#),
                r#""500ms""#, ["random", "spread"];
        }
        Gate GateKeys {
            /// What must be true of the results: [Gates](../ci.md#gates) has the grammar.
            require = Gate, Required,
                r#""wait.p99 < 50ms""#,
                ["check", "condition", "expect", "assert", "that", "threshold", "gate"];
            /// Name in reports.
            name: String = Text, Absent("its condition is its name"),
                r#""nobody waits long""#, ["title", "label", "description"];
        }
    } };
}
pub(super) use scenario_keys;

macro_rules! fields {
    ($($section:ident $Keys:ident { $(
        $(#[doc = $doc:literal])+
        $name:ident $(: $Value:ty)? = $kind:ident $(($($bounds:tt)*))?, $need:ident $(($otherwise:literal))?,
            $example:literal, $also:tt;
    )* })*) => {
        /// Every key, in the order in which the reference shows them.
        pub const FIELDS: &[Field] = &[$($(Field {
            section: Section::$section,
            name: stringify!($name),
            kind: KeyKind::$kind $(($($bounds)*))?,
            need: Need::$need $(($otherwise))?,
            example: concat!(stringify!($name), " = ", $example),
            doc: concat!($($doc),+).trim_ascii(),
            also: &$also,
        },)*)*];
    };
}
scenario_keys!(fields);

pub const ENSEMBLE: &str = "ensemble";

pub const CLIENT: &str = "client";

pub const FAULT: &str = "fault";

pub const GATE: &str = "gate";

pub fn field(section: Section, name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.section == section && field.name == name)
}

pub fn fields_of(section: Section) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.section == section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_every_other_word_for_it_means_one_thing() {
        for section in Section::ALL {
            let mut words: Vec<_> =
                fields_of(section).flat_map(|field| field.also.iter().copied().chain([field.name])).collect();
            words.sort_unstable();
            let count = words.len();
            words.dedup();
            assert_eq!(words.len(), count);
        }
    }
}
