//! The contents of a scenario file, section by section.
//!
//! The reader, the schema, the reference page and spelling suggestions derive from these types. A key is
//! `None` if it is absent and has no default, or if its value is wrong. Annotations: `x-default` (TOML),
//! `x-absent` (behaviour if the key is absent), `x-example`, and `x-also` (other names that users try).

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::arrivals::Late;
use super::model::{InDoubt, OnLost, Order};
use super::shapes::{PopularityShape, Process, Times};
use super::value::{
    ConnectString, Evidence, File, Is, LockCount, Name, Number, Percent, PollInterval, Servers, Time,
    UNBOUNDED, Whole,
};

/// Maximum number of contenders in a trial, and of locks.
pub(super) const CONTENDERS_MAX: u64 = 100_000;
/// Maximum number of servers that the suite starts for an ensemble.
const SERVERS_MAX: u64 = 5;
const HIGHEST_CONTENDER: u64 = CONTENDERS_MAX - 1;

/// One day in milliseconds.
pub(super) const DAY: u64 = 24 * 3_600_000;
pub(super) const WEEK: u64 = 7 * DAY;

/// One, in millionths.
pub(super) const ONE: u64 = 1_000_000;

pub(super) type Count<T, const LEAST: u64, const MOST: u64> = Option<Is<Whole<T, LEAST, MOST>>>;
pub(super) type Lasts<const LEAST: u64, const MOST: u64> = Option<Is<Time<LEAST, MOST>>>;
pub(super) type Factor<const LEAST: u64, const MOST: u64> = Option<Is<Number<LEAST, MOST>>>;

/// Number of contenders in a trial.
pub(super) type Contenders = Is<Whole<usize, 1, CONTENDERS_MAX>>;

/// Values of `load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LoadWord {
    Closed,
    Batch,
    Open,
}

/// Values of `in_doubt`.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WhenInDoubt {
    EndSession,
    KeepSession,
}

impl From<WhenInDoubt> for InDoubt {
    fn from(written: WhenInDoubt) -> Self {
        match written {
            WhenInDoubt::EndSession => Self::EndSession,
            WhenInDoubt::KeepSession => Self::KeepSession,
        }
    }
}

/// Values of `sessions`.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sessions {
    Kept,
    PerAcquisition,
}

#[derive(Default, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "strategies are read separately, using their cards")]
pub(super) struct Top {
    /// Short name: lower-case letters, digits and hyphens. Results directories start with it.
    #[schemars(extend("x-example" = r#""quick""#, "x-also" = "title id"))]
    pub(super) name: Option<Is<Name>>,
    /// The question that the scenario answers.
    #[schemars(extend("x-default" = r#""""#, "x-example" = r#""Does a herd slow the handoff?""#))]
    #[schemars(extend("x-also" = "purpose summary about desc"))]
    pub(super) description: Option<String>,
    /// Strategies to compare: names, or tables of a name and parameters.
    #[schemars(with = "Vec<String>", extend("x-words" = "list of [strategies](#strategies)"))]
    #[schemars(extend("x-example" = r#"["polling", { name = "predecessor-watch", watch = "exists" }]"#))]
    #[schemars(extend("x-also" = "strategy algorithms recipes"))]
    pub(super) strategies: Option<IgnoredAny>,
    /// Number of contenders, each with its own session: a number, or a list of numbers to compare.
    #[schemars(with = "OneOrMore<Contenders>")]
    #[schemars(extend("x-words" = "whole number from 1 to 100000, or a list of them"))]
    #[schemars(extend("x-example" = "[1, 5, 20]"))]
    #[schemars(extend("x-also" = "contender clients threads workers concurrency users"))]
    pub(super) contenders: Option<Vec<Spanned<Contenders>>>,
    /// Number of independent lock paths that the contenders share. With `"fresh"`, each acquisition uses a
    /// new path, as in programs with a lock per object; see [workloads](../workloads.md#a-lock-per-object).
    #[schemars(extend("x-default" = "1", "x-example" = "1", "x-also" = "lock lock_count paths"))]
    pub(super) locks: Option<Is<LockCount<CONTENDERS_MAX>>>,
    /// Hold time: a duration or a distribution.
    #[schemars(extend("x-default" = r#""0ms""#, "x-example" = r#"{ uniform = { min = "1ms", max = "5ms" } }"#))]
    #[schemars(extend("x-also" = "hold_time work critical_section"))]
    pub(super) hold: Option<Times>,
    /// Time between a release and the next acquire: a duration or a distribution. Closed load only.
    #[schemars(extend("x-default" = r#""0ms""#, "x-example" = r#"{ exponential = { mean = "5ms" } }"#))]
    #[schemars(extend("x-also" = "think_time pause idle"))]
    pub(super) think: Option<Times>,
    /// Share of acquires that are reads. Readers may hold the lock together; a lock without a read side
    /// treats every request as a write.
    #[schemars(extend("x-default" = "0.0", "x-example" = "0.8"))]
    #[schemars(extend("x-also" = "reads readers read_share read_fraction shared"))]
    pub(super) read_ratio: Factor<0, ONE>,
    /// Number of nested acquires in each cycle. More than one requires all listed strategies to be reentrant.
    /// Waits and holds are measured on the outermost acquire.
    #[schemars(extend("x-default" = "1", "x-example" = "3", "x-also" = "reentrancy nesting reentrant levels"))]
    pub(super) depth: Count<u32, 1, 1000>,
    /// Interval at which polling strategies read the queue, unless they set their own.
    #[schemars(extend("x-absent" = "each polling strategy has its own default", "x-example" = r#""1s""#))]
    #[schemars(extend("x-also" = "poll polling_interval interval"))]
    pub(super) poll_interval: Option<Is<PollInterval>>,
    /// `closed`: each contender acquires repeatedly. `batch`: the first contender holds until all are queued,
    /// then each acquires once, so totals are exact. `open`: arrivals do not depend on the lock, and the
    /// contenders are the sessions that serve them; see [workloads](../workloads.md).
    #[schemars(extend("x-default" = r#""closed""#, "x-example" = r#""closed""#, "x-also" = "load_model mode"))]
    pub(super) load: Option<LoadWord>,
    /// Average arrivals per second, over all contenders and locks. Open load only.
    #[schemars(extend("x-absent" = "an open load needs either this or `rate_each`, unless its arrivals have \
                                    their own rates"))]
    #[schemars(extend("x-example" = "40"))]
    #[schemars(extend("x-also" = "arrival_rate arrivals_per_second qps tps rps offered"))]
    pub(super) rate: Factor<1_000, 1_000_000_000_000>,
    /// Average arrivals per second for each contender, so the total rate grows with the number of contenders.
    /// Open load only.
    #[schemars(extend("x-absent" = "see `rate`", "x-example" = "0.2", "x-also" = "rate_per_contender each_rate"))]
    pub(super) rate_each: Factor<1_000, 1_000_000_000_000>,
    /// Arrival process. Open load only.
    #[schemars(extend("x-words" = "[process](#arrivals)", "x-default" = r#""poisson""#))]
    #[schemars(extend("x-example" = r#"{ bursts = { peak = 4.0, length = "500ms" } }"#))]
    #[schemars(extend("x-also" = "arrival arrival_process process traffic"))]
    pub(super) arrivals: Option<Process>,
    /// Popularity of the locks: `"uniform"`, or Zipf's law, where the k-th most popular lock's share of the
    /// requests is proportional to 1 / k to the power of `zipf`. The seed determines which locks are popular.
    /// Open load only.
    #[schemars(extend("x-words" = "`\"uniform\"`, or `{ zipf = s }` with s from 0 to 5"))]
    #[schemars(extend("x-default" = r#""uniform""#, "x-example" = "{ zipf = 1.0 }", "x-also" = "skew zipf hot_locks"))]
    pub(super) popularity: Option<PopularityShape>,
    /// What happens to an arrival that finds no free contender. `keep`: the arrival waits for a contender,
    /// and this time is part of its wait. `drop`: the arrival is dropped and counted. Open load only.
    #[schemars(extend("x-default" = r#""keep""#, "x-example" = r#""drop""#, "x-also" = "late_arrivals overflow"))]
    pub(super) late: Option<Late>,
    /// Maximum time for serving waiting arrivals after the measured phase; the rest count as unserved. Not
    /// scaled by `time_scale`. Open load only.
    #[schemars(extend("x-default" = r#""30s""#, "x-example" = r#""30s""#, "x-also" = "backlog drain drain_at_most"))]
    pub(super) backlog_at_most: Lasts<0, DAY>,
    /// Length of the measured phase. Closed and open loads only.
    #[schemars(extend("x-absent" = "required for an open load, except a replay, which lasts as long as its \
                                    file; a closed load needs either this or `acquisitions`"))]
    #[schemars(extend("x-example" = r#""5s""#, "x-also" = "time run_time length measure"))]
    pub(super) duration: Lasts<1, WEEK>,
    /// Number of acquisitions by each contender after which the measured phase ends.
    #[schemars(extend("x-absent" = "a closed load needs either this or `duration`; in a batch it is 1"))]
    #[schemars(extend("x-example" = "10", "x-also" = "acquires iterations count acquisition"))]
    pub(super) acquisitions: Count<u64, 1, 1_000_000_000>,
    /// Time over which the contenders' starts are spread. Closed load only.
    #[schemars(extend("x-default" = r#""0s""#, "x-example" = r#""2s""#, "x-also" = "ramp stagger"))]
    pub(super) ramp_up: Lasts<0, DAY>,
    /// Length of the unrecorded load before the measured phase. Closed and open loads only.
    #[schemars(extend("x-default" = r#""0s""#, "x-example" = r#""1s""#, "x-also" = "warm burn_in"))]
    pub(super) warm_up: Lasts<0, DAY>,
    /// Maximum length of the warm-up, which continues until the load is steady. Closed and open loads only.
    #[schemars(extend("x-absent" = "4 times `warm_up`, or equal to `warm_up` if the rate of arrivals changes"))]
    #[schemars(extend("x-example" = r#""10s""#, "x-also" = "warm_up_max max_warm_up warm_up_limit"))]
    pub(super) warm_up_at_most: Lasts<0, WEEK>,
    /// Number of trials of each combination of strategy and contenders.
    #[schemars(extend("x-default" = "3", "x-example" = "3", "x-also" = "repeat repeats runs reps rounds"))]
    pub(super) repetitions: Count<u32, 1, 1000>,
    /// Maximum half-width of the 95 % confidence interval over the repetitions, for each strategy and number
    /// of contenders. The metric is the throughput in a closed load, the mean handoff in a batch, and the
    /// mean wait in an open load. Trials repeat until the precision is reached; `repetitions` is then the
    /// minimum. With the defaults, the interval is checked after 8, 13, 20 and 30 repetitions.
    #[schemars(extend("x-absent" = "each combination runs `repetitions` times", "x-example" = r#""2%""#))]
    #[schemars(extend("x-also" = "accuracy confidence error_margin until_precise"))]
    pub(super) precision: Option<Is<Percent>>,
    /// With `precision`: maximum number of repetitions of each combination.
    #[schemars(extend("x-default" = "30", "x-example" = "30"))]
    #[schemars(extend("x-also" = "max_repetitions repetitions_max most_repetitions"))]
    pub(super) repetitions_at_most: Count<u32, 6, 1000>,
    /// Order of the trials within each repetition: `shuffled` by the seed, so that machine drift favours no
    /// strategy, or `as-written`.
    #[schemars(extend("x-default" = r#""shuffled""#, "x-example" = r#""shuffled""#, "x-also" = "shuffle sequence"))]
    pub(super) order: Option<Order>,
    /// Seed of all random choices: trial order, hold and think times, which acquires are reads, and targets
    /// and times of faults.
    #[schemars(extend("x-default" = "1", "x-example" = "1", "x-also" = "random_seed rng"))]
    pub(super) seed: Count<u64, 0, UNBOUNDED>,
    /// Session timeout that contenders request.
    #[schemars(extend("x-default" = r#""10s""#, "x-example" = r#""10s""#, "x-also" = "timeout session"))]
    pub(super) session_timeout: Lasts<200, 600_000>,
    /// Timeout of an acquire. With `0s`, each acquire is a try: it gets the lock at once or fails
    /// ([workloads](../workloads.md#try-locks)). Not scaled by `time_scale`.
    #[schemars(extend("x-absent" = "acquires have no timeout", "x-example" = r#""30s""#))]
    #[schemars(extend("x-also" = "lock_timeout wait_timeout max_wait"))]
    pub(super) acquire_timeout: Lasts<0, WEEK>,
    /// Time without an acquisition after which a batch, or a measured phase that ends after a number of
    /// acquisitions, is abandoned and the trial is partial. The longest hold and think times, strategies'
    /// intervals and faults are added to this time. Not scaled by `time_scale`.
    #[schemars(extend("x-default" = r#""10m""#, "x-example" = r#""10m""#))]
    #[schemars(extend("x-also" = "give_up stall_timeout no_progress"))]
    pub(super) give_up_after: Lasts<1, WEEK>,
    /// Whether a contender keeps its session between acquisitions. `per-acquisition`: each acquisition opens
    /// a session as part of its wait and closes it after the release, like a program that connects for each
    /// lock.
    #[schemars(extend("x-default" = r#""kept""#, "x-example" = r#""per-acquisition""#))]
    #[schemars(extend("x-also" = "reconnect reconnects"))]
    pub(super) sessions: Option<Sessions>,
    /// What a contender does when one of its lock's requests fails and may or may not have been executed.
    /// `end-session`: end the session, which deletes any leftover node at once. `keep-session`: keep the
    /// session and the lock object, like a careless program; a leftover node then blocks the queue.
    #[schemars(extend("x-default" = r#""end-session""#, "x-example" = r#""keep-session""#))]
    #[schemars(extend("x-also" = "on_doubt after_doubt when_in_doubt on_connection_loss after_loss"))]
    pub(super) in_doubt: Option<WhenInDoubt>,
    /// What a holder does when it is notified that its session has ended and the lock is lost. `stop`: end
    /// the hold at once. `ignore`: hold as planned, like a program that ignores the notification.
    #[schemars(extend("x-default" = r#""stop""#, "x-example" = r#""ignore""#))]
    #[schemars(extend("x-also" = "on_session_lost when_lost on_expiry on_lost_session"))]
    pub(super) on_lost: Option<OnLost>,
    /// Maximum hold, after which the contender releases the lock. A paused holder cannot release; the report
    /// shows how long it blocked others beyond the limit. Not scaled by `time_scale`. Closed and open loads
    /// only.
    #[schemars(extend("x-absent" = "holds have no limit", "x-example" = r#""5s""#))]
    #[schemars(extend("x-also" = "max_hold maximum_hold longest_hold lease_time"))]
    pub(super) hold_limit: Lasts<1, WEEK>,
    /// Error rate that the acquisitions of each trial must rule out for a verdict of *held*. `0.99@1%`: a
    /// lock that errs in 1 % of its acquisitions would have been caught with probability 0.99
    /// ([methodology](../methodology.md)). Otherwise the verdict is *unknown*.
    #[schemars(extend("x-default" = r#""0.99@100%""#, "x-example" = r#""0.99@1%""#))]
    #[schemars(extend("x-also" = "sensitivity proof error_rate evidence_needed"))]
    pub(super) evidence: Option<Is<Evidence>>,
    /// Factor for hold, think, strategies' intervals, duration, ramp-up, warm-up and all times of arrivals
    /// and faults. Rates are divided by the factor; timeouts are unchanged.
    #[schemars(extend("x-default" = "1.0", "x-example" = "0.1", "x-also" = "scale speed"))]
    pub(super) time_scale: Factor<1, 1_000_000_000>,
}

#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct Ensemble {
    /// Servers to start on this host: 1, 3 or 5. Cannot be combined with `connect`.
    #[schemars(extend("x-default" = "3", "x-example" = "3", "x-also" = "size nodes replicas"))]
    pub(super) servers: Option<Is<Servers>>,
    /// Directory for the servers' data. The cost of a write depends mainly on whether the directory is on
    /// tmpfs or on disk. Cannot be combined with `connect`.
    #[schemars(extend("x-absent" = "chosen by the suite, and recorded in the results"))]
    #[schemars(extend("x-example" = r#""/dev/shm""#, "x-also" = "dir directory datadir path"))]
    pub(super) data_dir: Option<Is<File>>,
    /// A Compose file, whose servers the suite runs in containers. Allowed only on the command line, as
    /// `--compose FILE`, because a Compose file can give containers full access to this host. Cannot
    /// be combined with `servers`, `data_dir` or `connect`.
    #[schemars(extend("x-absent" = "the servers are processes on this host"))]
    #[schemars(extend("x-example" = r#""docker/compose.3.yaml""#, "x-also" = "docker compose_file docker_compose"))]
    pub(super) compose: Option<Is<File>>,
    /// Existing ensemble to use instead: `host:port` pairs and an optional chroot.
    #[schemars(extend("x-absent" = "the suite starts its own ensemble"))]
    #[schemars(extend("x-example" = r#""zk1:2181,zk2:2181/chroot""#))]
    #[schemars(extend("x-also" = "connection connect_string hosts address url"))]
    pub(super) connect: Option<Is<ConnectString>>,
}

/// A kind of client; missing keys default to those at the top of the file.
#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct Client {
    /// Weight of this kind relative to the others: 0.8 and 0.2, or 8 and 2. The weights divide the arrivals
    /// of an open load, and the contenders of other loads; the first contenders are of the first kind.
    #[schemars(extend("x-example" = "0.2", "x-also" = "weight part ratio"))]
    pub(super) share: Factor<1, 1_000_000_000_000>,
    /// Hold time of these clients.
    #[schemars(extend("x-absent" = "the value at the top of the file"))]
    #[schemars(extend("x-example" = r#"{ exponential = { mean = "1s" } }"#))]
    #[schemars(extend("x-also" = "hold_time work critical_section"))]
    pub(super) hold: Option<Times>,
    /// Time between a release and the next acquire of these clients. Closed load only.
    #[schemars(extend("x-absent" = "the value at the top of the file"))]
    #[schemars(extend("x-example" = r#"{ exponential = { mean = "5s" } }"#, "x-also" = "think_time pause idle"))]
    pub(super) think: Option<Times>,
    /// Share of these clients' acquires that are reads.
    #[schemars(extend("x-absent" = "the value at the top of the file", "x-example" = "1"))]
    #[schemars(extend("x-also" = "reads readers read_share"))]
    pub(super) read_ratio: Factor<0, ONE>,
}

/// Keys that faults of all kinds share. Keys of a single kind are parameters on its card.
#[derive(Default, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "kind and target are read separately, using the fault cards")]
pub(super) struct Fault {
    /// Kind of fault.
    #[schemars(with = "String", extend("x-words" = "[fault](#faults)", "x-example" = r#""kill""#, "x-also" = "name type fault"))]
    pub(super) kind: Option<IgnoredAny>,
    /// Target, resolved each time the fault fires: `leader`, `follower`, `any` or `all` servers; `holder`,
    /// `waiter`, `any` or `all` contenders. Cannot be combined with `server` or `contender`.
    #[schemars(with = "String", extend("x-words" = "target of its [fault](#faults)", "x-absent" = "each kind has its own default"))]
    #[schemars(extend("x-example" = r#""leader""#, "x-also" = "whom victim hits"))]
    pub(super) target: Option<IgnoredAny>,
    /// Server to hit, numbered from 1.
    #[schemars(extend("x-absent" = "see `target`", "x-example" = "2", "x-also" = "node server_id"))]
    pub(super) server: Count<usize, 1, SERVERS_MAX>,
    /// Contender to hit, numbered from 0.
    #[schemars(extend("x-absent" = "see `target`", "x-example" = "3", "x-also" = "client worker"))]
    pub(super) contender: Count<usize, 0, HIGHEST_CONTENDER>,
    /// Time at which the fault fires, from the start of the measured phase.
    #[schemars(extend("x-absent" = "a fault needs either this or `after_acquisitions`"))]
    #[schemars(extend("x-example" = r#""5s""#, "x-also" = "start begin when"))]
    pub(super) at: Lasts<0, WEEK>,
    /// Number of acquisitions in the measured phase, over all contenders, after which the fault fires.
    #[schemars(extend("x-absent" = "a fault needs either this or `at`"))]
    #[schemars(extend("x-example" = "100", "x-also" = "acquisitions after"))]
    pub(super) after_acquisitions: Count<u64, 1, 1_000_000_000>,
    /// Time until the fault is healed.
    #[schemars(extend("x-absent" = "required for faults that are healed; other faults have none"))]
    #[schemars(extend("x-example" = r#""2s""#, "x-also" = "length lasts"))]
    pub(super) duration: Lasts<1, WEEK>,
    /// Number of times that the fault fires.
    #[schemars(extend("x-default" = "1", "x-example" = "3", "x-also" = "repeat repetitions count"))]
    pub(super) times: Count<u32, 1, 1000>,
    /// Time from one start to the next; longer than `duration` and `jitter` together.
    #[schemars(extend("x-absent" = "required if the fault fires more than once"))]
    #[schemars(extend("x-example" = r#""10s""#, "x-also" = "interval period"))]
    pub(super) every: Lasts<1, WEEK>,
    /// Maximum random delay of each start.
    #[schemars(extend("x-default" = r#""0s""#, "x-example" = r#""500ms""#, "x-also" = "random spread"))]
    pub(super) jitter: Lasts<0, DAY>,
}

#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct Gate {
    /// Condition on the results; [Gates](../ci.md#gates) describes the grammar.
    #[schemars(with = "String", extend("x-words" = "[condition](../ci.md#gates)", "x-example" = r#""wait.p99 < 50ms""#))]
    #[schemars(extend("x-also" = "check condition expect assert that threshold gate"))]
    pub(super) require: Option<Spanned<String>>,
    /// Name in reports.
    #[schemars(extend("x-absent" = "the condition is the name", "x-example" = r#""short waits""#))]
    #[schemars(extend("x-also" = "title label description"))]
    pub(super) name: Option<String>,
}

/// One value, or a list of distinct values.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "only the schema uses this type")]
enum OneOrMore<T> {
    One(T),
    More(#[schemars(length(min = 1), extend("uniqueItems" = true))] Vec<T>),
}
