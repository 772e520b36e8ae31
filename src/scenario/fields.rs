//! The one table of what a scenario file may say.
//!
//! The reader takes its bounds and defaults from here, the schema and the reference page are generated from
//! it, and the nearest-name suggestions search it: none of the four can disagree with the others.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Where a key stands in the file.
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
    /// A duration or a distribution of durations, up to the longest.
    Distribution(Duration),
    Word(&'static [&'static str]),
    Factor(RangeInclusive<f64>),
    /// A share as text with a percent sign, within the bounds, which are percents.
    Percent(RangeInclusive<f64>),
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

impl Field {
    const fn top(name: &'static str, kind: KeyKind, need: Need) -> Self {
        Self { section: Section::Top, name, kind, need, example: "", doc: "", also: &[] }
    }

    const fn ensemble(name: &'static str, kind: KeyKind, need: Need) -> Self {
        Self { section: Section::Ensemble, ..Self::top(name, kind, need) }
    }

    const fn client(name: &'static str, kind: KeyKind, need: Need) -> Self {
        Self { section: Section::Client, ..Self::top(name, kind, need) }
    }

    const fn fault(name: &'static str, kind: KeyKind, need: Need) -> Self {
        Self { section: Section::Fault, ..Self::top(name, kind, need) }
    }

    const fn gate(name: &'static str, kind: KeyKind, need: Need) -> Self {
        Self { section: Section::Gate, ..Self::top(name, kind, need) }
    }

    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }
}

/// One shape of a distribution other than a fixed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub name: &'static str,
    pub durations: &'static [&'static str],
    /// The keys inside that are plain numbers, within [`SIGMA`].
    pub numbers: &'static [&'static str],
    pub example: &'static str,
    pub doc: &'static str,
}

pub const SHAPES: &[Shape] = &[
    Shape {
        name: "uniform",
        durations: &["min", "max"],
        numbers: &[],
        example: r#"{ uniform = { min = "1ms", max = "5ms" } }"#,
        doc: "evenly between the two",
    },
    Shape {
        name: "exponential",
        durations: &["mean"],
        numbers: &[],
        example: r#"{ exponential = { mean = "5ms" } }"#,
        doc: "memoryless, with this mean",
    },
    Shape {
        name: "log-normal",
        durations: &["median"],
        numbers: &["sigma"],
        example: r#"{ log-normal = { median = "5ms", sigma = 0.5 } }"#,
        doc: "half below the median, with a tail that `sigma` (of the logarithm) makes longer",
    },
    Shape {
        name: MEASURED,
        durations: &[],
        numbers: &[],
        example: r#"{ measured = ["3ms", "5ms", "40ms"] }"#,
        doc: "one of these, each as often as the others: 1 to 1000 durations",
    },
];

/// The shape whose value is a list of durations and no table.
pub const MEASURED: &str = "measured";

/// Bounds of a log-normal's `sigma`: at 3 the 99th percentile is a thousand times the median.
pub const SIGMA: RangeInclusive<f64> = 0.0..=3.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Its word or key.
    pub name: &'static str,
    pub form: Form,
    /// Whether `rate` or `rate_each` belongs to it; otherwise it has its own rates or times.
    pub takes_rate: bool,
    /// A value that uses it.
    pub example: &'static str,
    pub doc: &'static str,
}

/// How a process of arrivals is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Its name alone.
    Word,
    Table(&'static [Part]),
    /// A list of tables of these parts.
    List(&'static [Part]),
    File,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub name: &'static str,
    /// A [`KeyKind::Duration`] or a [`KeyKind::Factor`].
    pub kind: KeyKind,
}

const fn part(name: &'static str, kind: KeyKind) -> Part {
    Part { name, kind }
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
              [arrivals.md](arrivals.md) has the format",
    },
];

/// Bounds of `rate` and `rate_each`, in arrivals a second.
const RATE: KeyKind = KeyKind::Factor(0.001..=1_000_000.0);
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

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = seconds(3600);
const DAY: Duration = seconds(24 * 3600);
const WEEK: Duration = seconds(7 * 24 * 3600);

/// Bounds of every poll interval: shorter would measure a busy loop.
pub const POLL_INTERVAL: RangeInclusive<Duration> = MILLISECOND..=HOUR;

/// Bounds of the other durations of strategies and faults.
pub const PARAM_DURATION: RangeInclusive<Duration> = Duration::ZERO..=DAY;

/// The parameter of strategies that `poll_interval` at the top gives a default to.
pub const POLL_INTERVAL_PARAM: &str = "poll_interval";

const WORDS_LOAD: &[&str] = &["closed", "batch", "open"];
const WORDS_LATE: &[&str] = &["keep", "drop"];
const WORDS_ORDER: &[&str] = &["shuffled", "as-written"];
const WORDS_IN_DOUBT: &[&str] = &["end-session", "keep-session"];

/// Every key, in the order in which the reference shows them.
pub const FIELDS: &[Field] = &[
    Field::top("name", KeyKind::Name, Need::Required)
        .example(r#"name = "quick""#)
        .doc("Short name: lower-case letters, digits and hyphens. Results directories start with it.")
        .also(&["title", "id"]),
    Field::top("description", KeyKind::Text, Need::Default(r#""""#))
        .example(r#"description = "Does a herd slow the handoff?""#)
        .doc("The question it answers.")
        .also(&["purpose", "summary", "about", "desc"]),
    Field::top("strategies", KeyKind::Strategies, Need::Required)
        .example(r#"strategies = ["polling", { name = "predecessor-watch", watch = "exists" }]"#)
        .doc("The strategies compared: names, or tables of a name and parameters.")
        .also(&["strategy", "algorithms", "recipes"]),
    Field::top("contenders", KeyKind::Counts(1..=CONTENDERS_MAX), Need::Required)
        .example("contenders = [1, 5, 20]")
        .doc("How many contenders, each with its own session: a number, or a list to run each count.")
        .also(&["contender", "clients", "threads", "workers", "sessions", "concurrency", "users"]),
    Field::top("locks", KeyKind::Count(1..=CONTENDERS_MAX), Need::Default("1"))
        .example("locks = 1")
        .doc("How many independent lock paths the contenders share.")
        .also(&["lock", "lock_count", "paths"]),
    Field::top("hold", KeyKind::Distribution(DAY), Need::Default(r#""0ms""#))
        .example(r#"hold = "20ms""#)
        .doc("How long a lock is held: a duration or a distribution.")
        .also(&["hold_time", "work", "critical_section"]),
    Field::top("think", KeyKind::Distribution(DAY), Need::Default(r#""0ms""#))
        .example(r#"think = { exponential = { mean = "5ms" } }"#)
        .doc("Time between a release and the next acquire: a duration or a distribution. Closed load only.")
        .also(&["think_time", "pause", "idle"]),
    Field::top("read_ratio", KeyKind::Factor(0.0..=1.0), Need::Default("0.0"))
        .example("read_ratio = 0.8")
        .doc("Share of acquires that ask to read. Readers may be inside together; a lock without a read \
              side takes every request as a write.")
        .also(&["reads", "readers", "read_share", "read_fraction", "shared"]),
    Field::top("depth", KeyKind::Count(1..=1000), Need::Default("1"))
        .example("depth = 3")
        .doc("How many times a contender takes the lock in each turn before it holds, and releases it afterwards. \
              More than once only if all listed strategies are reentrant. Waits and holds are those of the outermost \
              acquire.")
        .also(&["reentrancy", "nesting", "reentrant", "levels"]),
    Field::top(POLL_INTERVAL_PARAM, KeyKind::Duration(POLL_INTERVAL), Need::Absent("each polling strategy has its own default"))
        .example(r#"poll_interval = "1s""#)
        .doc("How often a polling strategy looks; applies to every listed strategy that polls and does not set its \
              own.")
        .also(&["poll", "polling_interval", "interval"]),
    Field::top("load", KeyKind::Word(WORDS_LOAD), Need::Default(r#""closed""#))
        .example(r#"load = "closed""#)
        .doc("`closed`: each contender acquires over and over. `batch`: the first holds until all are queued, then \
              each acquires once, which makes totals exact. `open`: arrivals keep coming, however slow the lock is, \
              and the contenders are the sessions that serve them; see [arrivals.md](arrivals.md).")
        .also(&["load_model", "mode"]),
    Field::top("rate", RATE, Need::Absent("an open load needs either this or `rate_each`, unless its arrivals have their own rates"))
        .example("rate = 40")
        .doc("Average arrivals per second, over all contenders and locks. Open load only.")
        .also(&["arrival_rate", "arrivals_per_second", "qps", "tps", "rps", "offered"]),
    Field::top("rate_each", RATE, Need::Absent("see `rate`"))
        .example("rate_each = 0.2")
        .doc("Average arrivals per second for each contender, so the rate grows with their number. Open load only.")
        .also(&["rate_per_contender", "each_rate"]),
    Field::top("arrivals", KeyKind::Arrivals, Need::Default(r#""poisson""#))
        .example(r#"arrivals = "poisson""#)
        .doc("When arrivals come. Open load only.")
        .also(&["arrival", "arrival_process", "process", "traffic"]),
    Field::top("popularity", KeyKind::Popularity(0.0..=5.0), Need::Default(r#""uniform""#))
        .example("popularity = { zipf = 1.0 }")
        .doc("Which of many locks an arrival asks for: `\"uniform\"`, or the k-th most popular in proportion to 1 / \
              k to the power of `zipf`; the seed decides which lock is how popular. Open load only.")
        .also(&["skew", "zipf", "hot_locks"]),
    Field::top("late", KeyKind::Word(WORDS_LATE), Need::Default(r#""keep""#))
        .example(r#"late = "drop""#)
        .doc("What happens to an arrival that finds no free contender. `keep`: it waits for one, and that is part of \
              its wait. `drop`: it is dropped, and counted. Open load only.")
        .also(&["late_arrivals", "overflow"]),
    Field::top("backlog_at_most", KeyKind::Duration(Duration::ZERO..=DAY), Need::Default(r#""30s""#))
        .example(r#"backlog_at_most = "30s""#)
        .doc("How long after the measured phase waiting arrivals may still be served; those that wait longer count \
              as unserved. Not scaled by `time_scale`. Open load only.")
        .also(&["backlog", "drain", "drain_at_most"]),
    Field::top("duration", KeyKind::Duration(MILLISECOND..=WEEK), Need::Absent("a closed load needs either this or `acquisitions`, an open one this; a replay lasts as long as its file"))
        .example(r#"duration = "5s""#)
        .doc("How long the measured phase lasts. Closed and open loads only.")
        .also(&["time", "run_time", "length", "measure"]),
    Field::top("acquisitions", KeyKind::Count(1..=1_000_000_000), Need::Absent("a closed load needs either this or `duration`; in a batch it is 1"))
        .example("acquisitions = 10")
        .doc("How often each contender acquires before the measured phase ends.")
        .also(&["acquires", "iterations", "count", "acquisition"]),
    Field::top("ramp_up", KeyKind::Duration(Duration::ZERO..=DAY), Need::Default(r#""0s""#))
        .example(r#"ramp_up = "2s""#)
        .doc("Over how long the contenders start. Closed load only.")
        .also(&["ramp", "stagger"]),
    Field::top("warm_up", KeyKind::Duration(Duration::ZERO..=DAY), Need::Default(r#""0s""#))
        .example(r#"warm_up = "1s""#)
        .doc("Load before the measured phase, not recorded. Closed and open loads only.")
        .also(&["warm", "burn_in"]),
    Field::top("warm_up_at_most", KeyKind::Duration(Duration::ZERO..=WEEK), Need::Absent("4 times `warm_up`; the same \
                                                                                       as `warm_up` if the rate of \
                                                                                       arrivals changes"))
        .example(r#"warm_up_at_most = "10s""#)
        .doc("How long the warm-up may take until the load is steady. Closed and open loads only.")
        .also(&["warm_up_max", "max_warm_up", "warm_up_limit"]),
    Field::top("repetitions", KeyKind::Count(1..=1000), Need::Default("3"))
        .example("repetitions = 3")
        .doc("How often each combination of strategy and contenders runs.")
        .also(&["repeat", "repeats", "runs", "reps", "rounds"]),
    Field::top("precision", KeyKind::Percent(0.1..=50.0), Need::Absent("exactly `repetitions` are run"))
        .example(r#"precision = "2%""#)
        .doc("Repeat until the 95 % confidence interval of the mean, over the repetitions, is at most this wide to \
              either side for every strategy and number of contenders: of the throughput in a closed load, of the \
              mean handoff in a batch, of the mean wait in an open load. `repetitions` is then the minimum, at least \
              3.")
        .also(&["accuracy", "confidence", "error_margin", "until_precise"]),
    Field::top("repetitions_at_most", KeyKind::Count(3..=1000), Need::Default("30"))
        .example("repetitions_at_most = 30")
        .doc("With `precision`: the most repetitions of each combination, even if it is still imprecise.")
        .also(&["max_repetitions", "repetitions_max", "most_repetitions"]),
    Field::top("order", KeyKind::Word(WORDS_ORDER), Need::Default(r#""shuffled""#))
        .example(r#"order = "shuffled""#)
        .doc("Order of the trials within each repetition: `shuffled` by the seed, so that drift of the \
              machine favours no strategy, or `as-written`.")
        .also(&["shuffle", "sequence"]),
    Field::top("seed", KeyKind::Count(0..=i64::MAX as u64), Need::Default("1"))
        .example("seed = 1")
        .doc("Seed for everything random: trial order, hold and think times, who reads, whom faults hit and when.")
        .also(&["random_seed", "rng"]),
    Field::top("session_timeout", KeyKind::Duration(Duration::from_millis(200)..=seconds(600)), Need::Default(r#""10s""#))
        .example(r#"session_timeout = "10s""#)
        .doc("Session timeout that contenders request.")
        .also(&["timeout", "session"]),
    Field::top("acquire_timeout", KeyKind::Duration(MILLISECOND..=WEEK), Need::Absent("an acquire waits forever"))
        .example(r#"acquire_timeout = "30s""#)
        .doc("How long an acquire may take before it counts as timed out. Not scaled by `time_scale`.")
        .also(&["lock_timeout", "wait_timeout", "max_wait"]),
    Field::top("give_up_after", KeyKind::Duration(MILLISECOND..=WEEK), Need::Default(r#""10m""#))
        .example(r#"give_up_after = "10m""#)
        .doc("How long a batch, or a measured phase that ends by acquisitions, goes on without any acquisition \
              before the run gives up and the trial is partial. The longest hold and think times, strategies' \
              intervals and faults come on top. Not scaled by `time_scale`.")
        .also(&["give_up", "stall_timeout", "no_progress"]),
    Field::top("in_doubt", KeyKind::Word(WORDS_IN_DOUBT), Need::Default(r#""end-session""#))
        .example(r#"in_doubt = "keep-session""#)
        .doc("What a contender does when the lock reports a failed request and it can't know whether the request was \
              carried out. `end-session`: it ends its session, and any node it left goes at once. `keep-session`: it \
              keeps its session and lock object, as a careless program would; a node it left then blocks the queue.")
        .also(&["on_doubt", "after_doubt", "when_in_doubt", "on_connection_loss", "after_loss"]),
    Field::top("time_scale", KeyKind::Factor(1e-6..=1000.0), Need::Default("1.0"))
        .example("time_scale = 0.1")
        .doc("Factor on hold, think, strategies' intervals, duration, ramp-up, warm-up, times of arrivals and all times \
              of faults; rates are divided by it, timeouts stay.")
        .also(&["scale", "speed"]),
    Field::ensemble("servers", KeyKind::OneOfCounts(&[1, 3, 5]), Need::Default("3"))
        .example("servers = 3")
        .doc("Servers to start on this host: 1, 3 or 5. Not with `connect`.")
        .also(&["size", "nodes", "replicas"]),
    Field::ensemble("data_dir", KeyKind::Path, Need::Absent("chosen by the suite, and recorded in the results"))
        .example(r#"data_dir = "/dev/shm""#)
        .doc("Where the servers keep their data: a tmpfs or a disk decides most of a write's cost. \
              Excludes `connect`.")
        .also(&["dir", "directory", "datadir", "path"]),
    Field::ensemble("compose", KeyKind::Path, Need::Absent("the servers are processes on this host"))
        .example(r#"compose = "docker/compose.3.yaml""#)
        .doc("A Compose file: the suite brings its servers up in containers for the run, and takes them down. Only from \
              the command line, as `--compose FILE`: containers can do to this host whatever their file says. \
              Excludes `servers`, `data_dir` and `connect`.")
        .also(&["docker", "compose_file", "docker_compose"]),
    Field::ensemble("connect", KeyKind::Connect, Need::Absent("the suite starts its own ensemble"))
        .example(r#"connect = "zk1:2181,zk2:2181/chroot""#)
        .doc("Existing ensemble to use instead: `host:port` pairs and an optional chroot.")
        .also(&["connection", "connect_string", "hosts", "address", "url"]),
    Field::client("share", KeyKind::Factor(1e-6..=1e6), Need::Required)
        .example("share = 0.2")
        .doc("How many are of this kind, beside the shares of the others: 0.8 and 0.2, or 8 and 2. Of the contenders, of \
              which the first ones are of the first kind; in an open load of the arrivals.")
        .also(&["weight", "part", "ratio"]),
    Field::client("hold", KeyKind::Distribution(DAY), Need::Absent("as at the top of the file"))
        .example(r#"hold = "1s""#)
        .doc("How long they hold a lock.")
        .also(&["hold_time", "work", "critical_section"]),
    Field::client("think", KeyKind::Distribution(DAY), Need::Absent("as at the top of the file"))
        .example(r#"think = { exponential = { mean = "5s" } }"#)
        .doc("Their time between a release and the next acquire. Closed load only.")
        .also(&["think_time", "pause", "idle"]),
    Field::client("read_ratio", KeyKind::Factor(0.0..=1.0), Need::Absent("as at the top of the file"))
        .example("read_ratio = 1")
        .doc("Share of their acquires that ask to read.")
        .also(&["reads", "readers", "read_share"]),
    Field::fault("kind", KeyKind::Fault, Need::Required)
        .example(r#"kind = "kill""#)
        .doc("Kind of fault.")
        .also(&["name", "type", "fault"]),
    Field::fault("target", KeyKind::Target, Need::Absent("each kind has its own default"))
        .example(r#"target = "leader""#)
        .doc("Whom it hits, resolved each time it fires: `leader`, `follower`, `any` or `all` servers; `holder`, \
              `waiter`, `any` or `all` contenders. Excludes `server` and `contender`.")
        .also(&["whom", "victim", "hits"]),
    Field::fault("server", KeyKind::Count(1..=SERVERS_MAX), Need::Absent("see `target`"))
        .example("server = 2")
        .doc("Hits this server only, counted from 1.")
        .also(&["node", "server_id"]),
    Field::fault("contender", KeyKind::Count(0..=CONTENDERS_MAX - 1), Need::Absent("see `target`"))
        .example("contender = 3")
        .doc("Hits this contender only, counted from 0.")
        .also(&["client", "worker"]),
    Field::fault("at", KeyKind::Duration(Duration::ZERO..=WEEK), Need::Absent("a fault needs either this or `after_acquisitions`"))
        .example(r#"at = "5s""#)
        .doc("When it fires, from the start of the measured phase.")
        .also(&["start", "begin", "when"]),
    Field::fault("after_acquisitions", KeyKind::Count(1..=1_000_000_000), Need::Absent("a fault needs either this or `at`"))
        .example("after_acquisitions = 100")
        .doc("Fires after this many acquisitions in the measured phase, over all contenders.")
        .also(&["acquisitions", "after"]),
    Field::fault("duration", KeyKind::Duration(MILLISECOND..=WEEK), Need::Absent("required for faults that are healed; \
                                                                               faults that end on their own have \
                                                                               none"))
        .example(r#"duration = "2s""#)
        .doc("How long until it is healed.")
        .also(&["length", "lasts"]),
    Field::fault("times", KeyKind::Count(1..=1000), Need::Default("1"))
        .example("times = 3")
        .doc("How often it fires.")
        .also(&["repeat", "repetitions", "count"]),
    Field::fault("every", KeyKind::Duration(MILLISECOND..=WEEK), Need::Absent("required if it fires more than once"))
        .example(r#"every = "10s""#)
        .doc("Time from one start to the next; longer than `duration` and `jitter` together.")
        .also(&["interval", "period"]),
    Field::fault("jitter", KeyKind::Duration(Duration::ZERO..=DAY), Need::Default(r#""0s""#))
        .example(r#"jitter = "500ms""#)
        .doc("Each start is delayed by a random part of this.")
        .also(&["random", "spread"]),
    Field::gate("require", KeyKind::Gate, Need::Required)
        .example(r#"require = "wait.p99 < 50ms""#)
        .doc("What must be true of the results: [gates.md](gates.md) has the grammar.")
        .also(&["check", "condition", "expect", "assert", "that", "threshold", "gate"]),
    Field::gate("name", KeyKind::Text, Need::Absent("its condition is its name"))
        .example(r#"name = "nobody waits long""#)
        .doc("Name in reports.")
        .also(&["title", "label", "description"]),
];

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

    #[test]
    fn every_key_is_explained_and_its_example_uses_it() {
        for field in FIELDS {
            assert!(!field.doc.is_empty(), "{}", field.name);
            assert!(field.example.starts_with(&format!("{} = ", field.name)), "{}", field.name);
        }
    }
}
