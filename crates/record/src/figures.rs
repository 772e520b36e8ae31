//! The table of metrics: everything that can be compared, gated, tabulated and drawn.
//!
//! A metric needs only one entry. Gates, `--figure`, the columns of the main table and of `summary.csv`,
//! `derived` in a trial's file and `figures` in `summary.json` follow from it. So do charts, comparisons, CI
//! output and `docs/reference/metrics.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Counting, Trial};
use zklockbench_core::measure::{
    Better, Counts, Figure, FigureCard, FigureKind, Measure, PerRequest, Statistic, Unit,
};
use zklockbench_scenario::{Load, Stop};

/// A metric, how it is read from a trial, and where it is shown.
#[derive(Debug, Clone, Copy)]
pub struct FigureEntry {
    pub card: FigureCard,
    /// Measure and statistic of a metric computed from samples; `None` for other metrics. Gates and options
    /// name the metric by this pair.
    pub latency: Option<(Measure, Statistic)>,
    read: fn(&Trial) -> Option<f64>,
    /// Name in `derived`, `summary.csv` and `summary.json`; `None` if a trial's file stores it elsewhere.
    pub stored_as: Option<&'static str>,
    pub column: Option<FigureColumn>,
    pub chart: Option<FigureChart>,
    /// Whether `compare` includes the metric by default, as part of the load on the ensemble.
    pub compared: bool,
    pub tracked: bool,
    /// Whether only the counting trial measures the metric for a driver's lock.
    pub on_the_wire: bool,
}

/// A column of the main table.
#[derive(Debug, Clone, Copy)]
pub struct FigureColumn {
    pub heading: &'static str,
    /// Priority for omission in narrow tables: columns with the largest value are omitted first, columns with
    /// 0 never.
    pub spare: u8,
    pub in_percent: bool,
    /// Explanation below the table; empty if the heading suffices.
    pub explained: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct FigureChart {
    /// Base name of the chart's files.
    pub id: &'static str,
    pub title: &'static str,
    pub axis: &'static str,
    pub section: &'static str,
    /// Minimum number of contenders for a meaningful value.
    pub from: usize,
    /// Text to print if no trial measured the metric; `None` to leave the chart out silently.
    pub missing: Option<&'static str>,
}

impl FigureEntry {
    const fn new(kind: FigureKind, name: &'static str, unit: Unit, better: Better) -> Self {
        let stored_as = match kind {
            FigureKind::Ratio => Some(name),
            // A trial's file already contains its counts.
            FigureKind::Count => None,
        };
        Self {
            card: FigureCard { name, what: "", kind, unit, better },
            latency: None,
            read: |_| None,
            stored_as,
            column: None,
            chart: None,
            compared: false,
            tracked: false,
            on_the_wire: false,
        }
    }

    const fn what(mut self, what: &'static str) -> Self {
        self.card.what = what.trim_ascii();
        self
    }

    const fn read(self, read: fn(&Trial) -> Option<f64>) -> Self {
        Self { read, ..self }
    }

    const fn stored_as(self, name: &'static str) -> Self {
        Self { stored_as: Some(name), ..self }
    }

    const fn stored_elsewhere(self) -> Self {
        Self { stored_as: None, ..self }
    }

    const fn column(self, heading: &'static str, spare: u8) -> Self {
        Self { column: Some(FigureColumn { heading, spare, in_percent: false, explained: "" }), ..self }
    }

    const fn column_in_percent(self, heading: &'static str, spare: u8) -> Self {
        Self { column: Some(FigureColumn { heading, spare, in_percent: true, explained: "" }), ..self }
    }

    const fn explained(mut self, explained: &'static str) -> Self {
        if let Some(column) = &mut self.column {
            column.explained = explained;
        }
        self
    }

    const fn chart(self, chart: FigureChart) -> Self {
        Self { chart: Some(chart), ..self }
    }

    const fn compared(self) -> Self {
        Self { compared: true, ..self }
    }

    const fn on_the_wire(self) -> Self {
        Self { on_the_wire: true, ..self }
    }

    const fn tracked(self) -> Self {
        Self { tracked: true, ..self }
    }

    pub const fn figure(&'static self) -> Figure {
        match self.latency {
            Some((measure, statistic)) => Figure::Latency(measure, statistic),
            None => Figure::Plain(&self.card),
        }
    }

    /// Value in a trial; `None` if it was not measured.
    pub fn of(&self, trial: &Trial) -> Option<f64> {
        (self.read)(trial)
    }

    pub(super) fn of_card(card: &FigureCard) -> Option<&'static Self> {
        ALL.iter().copied().find(|entry| entry.card.name == card.name)
    }
}

/// All metrics except statistics of latency samples.
pub fn cards() -> Vec<&'static FigureCard> {
    ALL.iter().map(|entry| &entry.card).collect()
}

pub fn named(text: &str) -> Result<Figure, String> {
    Figure::named(text, &cards())
}

const fn rate(name: &'static str, better: Better) -> FigureEntry {
    FigureEntry::new(FigureKind::Ratio, name, Unit::PerSecond, better)
}

const fn amount(name: &'static str, better: Better) -> FigureEntry {
    FigureEntry::new(FigureKind::Ratio, name, Unit::Amount, better)
}

const fn bytes(name: &'static str) -> FigureEntry {
    FigureEntry::new(FigureKind::Ratio, name, Unit::Bytes, Better::Lower)
}

const fn share(name: &'static str, better: Better) -> FigureEntry {
    FigureEntry::new(FigureKind::Ratio, name, Unit::Share, better)
}

/// A statistic of a measure, with a column in tables.
const fn latency(name: &'static str, measure: Measure, statistic: Statistic, spare: u8) -> FigureEntry {
    let entry = FigureEntry::new(FigureKind::Ratio, name, Unit::Micros, Better::Lower).stored_elsewhere();
    FigureEntry { latency: Some((measure, statistic)), ..entry.column(name, spare) }
}

const fn count(name: &'static str, better: Better) -> FigureEntry {
    FigureEntry::new(FigureKind::Count, name, Unit::Amount, better)
}

/// Median time of a try that does not get the lock.
pub static FAILED_TRY_P50: FigureEntry =
    latency("failed try p50", Measure::FailedTry, Statistic::percent(50), 4)
        .explained("from the call to the return of a failed try");

/// Defines the entries with their descriptions, and the list of all entries.
macro_rules! figures {
    ($($(#[doc = $what:literal])+ $id:ident = $entry:expr;)*) => {
        $($(#[doc = $what])+ pub static $id: FigureEntry = $entry.what(concat!($($what),+));)*

        /// All metrics except statistics of latency samples, in output order.
        pub static ALL: &[&FigureEntry] = &[$(&$id),*];
    };
}

/// Median wait, from the intended start of an acquire to its return.
pub static WAIT_P50: FigureEntry = latency("wait p50", Measure::Wait, Statistic::percent(50), 0)
    .explained("from the intended start of an acquire to its return");
/// 99th percentile of the wait.
pub static WAIT_P99: FigureEntry = latency("wait p99", Measure::Wait, Statistic::percent(99), 0);
/// Longest wait.
pub static WAIT_MAX: FigureEntry = latency("wait max", Measure::Wait, Statistic::Max, 5);
/// Median handoff, from the call to release to the next return from acquire.
pub static HANDOFF_P50: FigureEntry = latency("handoff p50", Measure::Handoff, Statistic::percent(50), 3)
    .explained("from a holder's call to release to the next holder's return from acquire");

figures! {
    /// Time until every contender had completed all its acquisitions; only for loads with a fixed number of
    /// acquisitions.
    TOTAL_TIME = FigureEntry::new(FigureKind::Ratio, "total_time", Unit::Micros, Better::Lower)
        .read(|trial| trial.total_us().map(|us| us as f64))
        .stored_as("total_time_us")
        .column("total", 0)
        .explained("until every contender had completed all its acquisitions")
        .chart(FigureChart {
            id: "total-time",
            title: "Time until every contender had completed all its acquisitions",
            axis: "seconds",
            section: "total-time",
            from: 1,
            missing: None,
        });
    /// Acquisitions per second; not measured for a batch, because the conductor sets its pace.
    THROUGHPUT = rate("throughput", Better::Higher)
        .read(|trial| {
            let (acquired, us) = match trial.full_crew {
                Some(_) if trial.acquires_once() => return None,
                Some(all) => (all.acquired, all.lasted_us),
                None => (trial.measured.acquired(), trial.measured_us),
            };
            per_second(acquired, us).filter(|_| !trial.is_batch())
        })
        .stored_as("throughput_per_s")
        .column("acq/s", 0)
        .explained("acquisitions per second of all contenders")
        .chart(FigureChart {
            id: "throughput",
            title: "Throughput",
            axis: "acquisitions per second",
            section: "throughput",
            from: 1,
            missing: None,
        })
        .tracked();
    /// Share of tries that acquired the lock; only for acquires that never wait.
    WON_SHARE = share("won_share", Better::Higher)
        .read(|trial| {
            let (won, failed) = (trial.measured.acquired(), trial.failed_tries());
            ratio(won, won + failed).filter(|_| trial.spec.only_tries())
        })
        .column_in_percent("won", 1)
        .explained("share of tries that acquired the lock");
    /// Requests per failed try.
    REQUESTS_PER_FAILED_TRY = amount("requests_per_failed_try", Better::Lower)
        .read(|trial| ratio(trial.measured.failed_try_requests, trial.failed_tries()).filter(|_| is_seen(trial)))
        .column("requests/failed try", 4);
    /// Acquisitions per second if tries kept the locks busy all the time: locks divided by the mean time of
    /// acquire, hold and release. Only for acquires that never wait.
    SATURATION = rate("saturation", Better::Higher)
        .read(saturation)
        .stored_as("saturation_per_s")
        .column("saturation/s", 5)
        .explained("acquisitions per second if tries kept the locks busy all the time");
    /// Arrivals due per second in an open load: the throughput if all were served in time.
    OFFERED = rate("offered", Better::Neither)
        .read(|trial| trial.arrived.and_then(|arrived| per_second(arrived.offered, trial.measured_us)))
        .stored_as("offered_per_s")
        .column("offered/s", 1)
        .explained("arrivals per second of the open load");
    /// Notifications caused by a release, per release.
    FAN_OUT = amount("fan_out", Better::Lower)
        .read(|trial| trial.sent().and_then(|sent| ratio(sent.by_release?, sent.releases)))
        .on_the_wire()
        .column("fan-out", 0)
        .explained("notifications that one release causes")
        .chart(FigureChart {
            id: "fan-out",
            title: "Fan-out",
            axis: "fan-out: notifications caused by a release, per release",
            section: "requests",
            from: 2,
            missing: Some("no trial released a lock while other contenders waited"),
        })
        .tracked();
    /// Part of `fan_out`: notifications after which the contender acquired the lock without waiting again.
    FAN_OUT_USEFUL = amount("fan_out_useful", Better::Neither)
        .read(|trial| per_release(trial, trial.measured.notifications.by_release_useful));
    /// Rest of `fan_out`: notifications that did not lead to an acquisition.
    FAN_OUT_SPURIOUS = amount("fan_out_spurious", Better::Lower)
        .read(|trial| per_release(trial, trial.measured.notifications.by_release_spurious));
    /// Requests sent per acquisition.
    REQUESTS_PER_ACQUISITION = amount("requests_per_acquisition", Better::Lower)
        .read(|trial| per_acquisition(trial, |sent| sent.requests))
        .on_the_wire()
        .column("requests/acq", 2)
        .chart(FigureChart {
            id: "requests",
            title: "Requests per acquisition",
            axis: "requests per acquisition",
            section: "requests",
            from: 1,
            missing: Some("no lock was acquired, or not all requests could be counted"),
        })
        .compared()
        .tracked();
    /// Notifications delivered per acquisition, regardless of their cause.
    NOTIFICATIONS_PER_ACQUISITION = amount("notifications_per_acquisition", Better::Lower)
        .read(|trial| per_acquisition(trial, |sent| sent.notifications))
        .on_the_wire()
        .column("notifications/acq", 7)
        .compared()
        .tracked();
    /// Names returned by `getChildren`, per acquisition.
    NAMES_PER_ACQUISITION = amount("names_per_acquisition", Better::Lower)
        .read(|trial| per_acquisition(trial, |sent| sent.names))
        .on_the_wire()
        .compared()
        .tracked();
    /// Bytes sent and received per acquisition.
    BYTES_PER_ACQUISITION = bytes("bytes_per_acquisition")
        .read(|trial| per_acquisition(trial, |sent| sent.bytes_sent + sent.bytes_received))
        .on_the_wire()
        .tracked();
    /// Bytes sent per acquisition.
    BYTES_SENT_PER_ACQUISITION = bytes("bytes_sent_per_acquisition")
        .read(|trial| per_acquisition(trial, |sent| sent.bytes_sent))
        .on_the_wire();
    /// Bytes received per acquisition.
    BYTES_RECEIVED_PER_ACQUISITION = bytes("bytes_received_per_acquisition")
        .read(|trial| per_acquisition(trial, |sent| sent.bytes_received))
        .on_the_wire();
    /// Persistent nodes (including containers) that fresh locks leave behind, per acquisition of the whole trial.
    NODES_LEFT = amount("nodes_left", Better::Lower)
        .read(|trial| ratio(trial.nodes_left?, trial.whole.acquired()))
        .column("nodes left/acq", 4)
        .explained("nodes that remain on the ensemble, per acquisition");
    /// Share of acquisitions overtaken by a later arrival; for a semaphore with n leases, by at least n later
    /// arrivals. Readers do not overtake readers.
    OVERTAKEN_SHARE = share("overtaken_share", Better::Lower)
        .read(|trial| ratio(trial.measured.overtaken, trial.measured.acquired()))
        .column_in_percent("overtaken", 6)
        .explained("share of acquisitions overtaken by a later arrival");
    /// Jain's fairness index over the contenders' acquisitions: 1 if all contenders got the same number, 1/N if
    /// one got all. Absent for a single contender, a batch, a phase that ends after a number of acquisitions
    /// (equal by design), or an average of fewer than five cycles per contender.
    FAIRNESS = share("fairness", Better::Higher).read(fairness)
        .column("fairness", 9)
        .explained("Jain's index, 1 is fair")
        .tracked();
    /// Average number of simultaneous readers over the measured phase, summed over all locks; absent if the
    /// trial has no reads.
    MEAN_READERS = amount("mean_readers", Better::Neither)
        .read(|trial| {
            let (counts, us) = (&trial.measured, trial.measured_us);
            ratio(counts.read_held_us, us).filter(|_| counts.reads_acquired > 0)
        })
        .column("readers", 10);
    /// Share of the measured phase during which the busiest lock was held or being handed over.
    UTILISATION_BUSIEST = share("utilisation_busiest", Better::Neither)
        .read(|trial| Some(trial.utilisation?.busiest))
        .stored_elsewhere();
    /// Share of the host's processor time that its hypervisor gave to other guests.
    STEAL_SHARE = share("steal_share", Better::Lower)
        .read(|trial| trial.health.host_steal_share)
        .stored_elsewhere()
        .column_in_percent("stolen", 11)
        .explained("share of the host's processor time that its hypervisor gave to other guests");
    /// Locks acquired.
    ACQUIRED = count("acquired", Better::Neither).read(|trial| whole(trial.measured.acquired()));
    /// Acquires that timed out.
    TIMED_OUT = count("timed_out", Better::Lower)
        .read(|trial| whole(trial.timed_out()));
    /// Arrivals of an open load that found no free session and were dropped, as the scenario specifies.
    DROPPED = count("dropped", Better::Lower).read(|trial| whole(trial.arrived?.dropped));
    /// Waits that ended without the lock, or had not ended by the end of the measured phase.
    UNSERVED = count("unserved", Better::Neither)
        .read(|trial| whole(trial.unserved()));
    /// Requests sent.
    REQUESTS = count("requests", Better::Lower).read(|trial| seen(trial, |counts| counts.requests.total()));
    /// Notifications delivered.
    NOTIFICATIONS = count("notifications", Better::Lower)
        .read(|trial| seen(trial, |counts| counts.notifications.total()));
    /// Names returned by `getChildren`.
    NAMES = count("names", Better::Lower).read(|trial| seen(trial, |counts| counts.names_returned));
    /// Bytes in both directions.
    BYTES = FigureEntry::new(FigureKind::Count, "bytes", Unit::Bytes, Better::Lower)
        .read(|trial| seen(trial, |counts| counts.bytes_sent + counts.bytes_received));
    /// Acquisitions overtaken by a later arrival; for a semaphore with n leases, by at least n later
    /// arrivals. Readers do not overtake readers.
    OVERTAKEN = count("overtaken", Better::Lower).read(|trial| whole(trial.measured.overtaken));
    /// Locks lost while held.
    LOST_WHILE_HELD = count("lost_while_held", Better::Lower).read(|trial| whole(trial.measured.lost_while_held));
    /// Violations in the whole trial.
    VIOLATIONS = count("violations", Better::Lower).read(|trial| whole(trial.violation_count));
    /// Acquisitions checked for violations, capped at the number in the measured phase.
    EVIDENCE = count("evidence", Better::Neither).read(|trial| whole(trial.checked()));
    /// Errors in the whole trial.
    ERRORS = count("errors", Better::Lower).read(|trial| whole(trial.errors.values().sum()));
    /// Sessions that expired.
    SESSIONS_EXPIRED = count("sessions_expired", Better::Lower).read(|trial| whole(trial.sessions.expired));
    /// Longest time until a holder was notified that its session had ended. Absent if the servers' logs are not
    /// available, or if no session ended during a hold.
    TOLD_MAX = FigureEntry::new(FigureKind::Ratio, "told_max", Unit::Micros, Better::Lower)
        .read(|trial| Some(trial.lost_holds.as_ref()?.told_max_us()? as f64))
        .stored_as("told_max_us");
    /// Longest time for which a holder stayed in its critical section after its session had ended. Absent if
    /// the servers' logs are not available, or if no session ended during a hold.
    ZOMBIE_MAX = FigureEntry::new(FigureKind::Ratio, "zombie_max", Unit::Micros, Better::Lower)
        .read(|trial| Some(trial.lost_holds.as_ref()?.inside_max_us()? as f64))
        .stored_as("zombie_max_us");
    /// Longest time beyond `hold_limit` for which a stuck holder blocked another contender; absent if there is
    /// no limit.
    BLOCKED_BEYOND_LIMIT = FigureEntry::new(FigureKind::Ratio, "blocked_beyond_limit", Unit::Micros, Better::Lower)
        .read(|trial| Some(trial.limited_holds?.longest_blocked_us as f64))
        .stored_as("blocked_beyond_limit_us");
    /// Acquires that exceeded their timeout by more than a tenth of it (at least 100 ms; 1 s for tries).
    OVERRAN = count("overran", Better::Lower).read(|trial| overran(trial, Measure::Overrun));
    /// Releases that exceeded the acquire timeout by more than a tenth of it (at least 100 ms).
    RELEASES_OVERRAN = count("releases_overran", Better::Lower).read(|trial| overran(trial, Measure::ReleaseOverrun));
    /// Nodes left after all contenders released: ephemeral and numbered nodes in the locks' directories, and
    /// unexpected nodes elsewhere in the run's directory. Covers the whole trial.
    ORPHANS = count("orphans", Better::Lower).read(|trial| whole(trial.orphans?));
    /// `orphans` per acquisition of the whole trial.
    ORPHANS_PER_ACQUISITION = amount("orphans_per_acquisition", Better::Lower)
        .read(|trial| ratio(trial.orphans?, trial.whole.acquired()));
    /// Watches still set on the servers after all contenders released; absent if a server did not answer.
    WATCHES_LEFT = count("watches_left", Better::Lower)
        .read(|trial| whole(watches_left(trial)?))
        .stored_as("watches_left");
}

fn whole(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// A traffic count; `None` if some traffic was hidden.
fn seen(trial: &Trial, count: fn(&Counts) -> u64) -> Option<f64> {
    is_seen(trial).then(|| count(&trial.measured) as f64)
}

/// Number of calls that exceeded the acquire timeout; `None` if there is no timeout.
fn overran(trial: &Trial, measure: Measure) -> Option<f64> {
    trial.spec.acquire_timeout?;
    whole(trial.histograms.get(&measure).map_or(0, |samples| samples.len()))
}

fn saturation(trial: &Trial) -> Option<f64> {
    trial.utilisation.filter(|_| trial.spec.only_tries())?;
    let parts = [Measure::Uncontended, Measure::Hold, Measure::Release];
    let busy_us: f64 = parts.iter().map(|part| Some(trial.latency(*part)?.mean_us)).sum::<Option<f64>>()?;
    (busy_us > 0.0).then(|| trial.spec.locks as f64 * 1e6 / busy_us)
}

fn per_acquisition(trial: &Trial, amount: fn(&Sent) -> u64) -> Option<f64> {
    trial.sent().and_then(|sent| ratio(amount(&sent), sent.acquired))
}

fn per_release(trial: &Trial, amount: u64) -> Option<f64> {
    ratio(amount, trial.measured.releases).filter(|_| is_seen(trial))
}

/// Whether all traffic of the measured phase was visible; never true for a driver's lock.
fn is_seen(trial: &Trial) -> bool {
    trial.measured.unseen == 0 && !trial.is_counted_apart()
}

fn fairness(trial: &Trial) -> Option<f64> {
    let shares: Vec<f64> = trial.tallies.iter().map(|tally| tally.acquired as f64).collect();
    let turns: u64 = trial.tallies.iter().map(|tally| tally.acquired).sum();
    // If every contender makes the same number of acquisitions, the shares are equal whatever the lock does.
    if trial.is_one_shot() || shares.len() < 2 || turns < TURNS_FOR_FAIRNESS * (shares.len() as u64).max(1) {
        return None;
    }
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    Some(sum * sum / (shares.len() as f64 * squares))
}

fn per_second(count: u64, us: u64) -> Option<f64> {
    (us > 0).then(|| count as f64 / (us as f64 / 1e6))
}

fn ratio(amount: u64, per: u64) -> Option<f64> {
    (per > 0).then(|| amount as f64 / per as f64)
}

/// Returns how many more watches the servers have after all contenders released than before the load. The
/// sessions are still open then, so no watch has ended with its session.
fn watches_left(trial: &Trial) -> Option<u64> {
    let left = trial.servers.iter().map(|server| server.growth("zk_watch_count"));
    let left: i128 = left.sum::<Option<_>>()?;
    u64::try_from(left).ok().filter(|_| !trial.servers.is_empty())
}

/// Minimum average number of cycles per contender for a meaningful fairness index. With fewer, shares differ
/// by chance: with two cycles each, assigned at random, the index is about 0.7.
pub const TURNS_FOR_FAIRNESS: u64 = 5;

pub fn reference() -> String {
    const HEAD: &str = "# Metrics\n\n\
        Generated from the code by `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`; do not edit.\n\
        Metrics for gates, `--figure` and objectives.\n";
    const SAMPLES: &str = "\n## Metrics with samples\n\n\
        Combine a measure and a statistic: `wait.p99`, `handoff.mean`. Statistics are mean, min, max, median and percentiles \
        such as p50 or p99.9. All values are times.\n\n| measure | meaning |\n|---|---|\n";
    const PLAIN: &str = "\n## Metrics without samples\n\n\
        These metrics describe the measured phase unless stated otherwise. A metric that was not measured is missing.\n\n| metric | unit | better | meaning |\n|---|---|---|---|\n";
    let measures = Measure::all().into_iter().filter(|measure| !matches!(measure, Measure::Request(_)));
    let measures = measures.map(|measure| format!("| `{}` | {} |\n", measure.name(), measure.what()));
    let requests =
        "| `request_create`, … | From sending a request to its reply, for each kind of request. |\n"
            .to_owned();
    let row = |entry: &&FigureEntry| {
        let FigureCard { name, what, unit, better, .. } = entry.card;
        format!("| `{name}` | {} | {} | {what} |\n", unit.name(), better.name())
    };
    let measures: String = measures.chain([requests]).collect();
    let plain: String = ALL.iter().map(row).collect();
    format!("{HEAD}{SAMPLES}{measures}{PLAIN}{plain}")
}

/// Metrics stored with a trial, by their names in files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Derived(BTreeMap<String, Option<f64>>);

fn stored() -> impl Iterator<Item = (&'static str, &'static FigureEntry)> {
    ALL.iter().filter_map(|entry| Some((entry.stored_as?, *entry)))
}

impl Derived {
    /// Value of a metric; `None` if it was not measured or is not stored here.
    pub fn get(&self, entry: &FigureEntry) -> Option<f64> {
        *self.0.get(entry.stored_as?)?
    }

    /// Whether a metric has different values here and in `other`. Ignores metrics that only one of the two has.
    pub fn contradicts(&self, other: &Self) -> bool {
        self.0.iter().any(|(name, value)| other.0.get(name).is_some_and(|its| its != value))
    }

    pub fn measured(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(name, value)| Some((name.as_str(), (*value)?)))
    }
}

impl JsonSchema for Derived {
    fn schema_name() -> Cow<'static, str> {
        "Derived".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let property = |(name, entry): (&str, &FigureEntry)| {
            let property = serde_json::json!({
                "description": entry.card.what,
                "type": ["number", "null"],
                "format": "double",
            });
            (name.to_owned(), property)
        };
        let properties: serde_json::Map<String, serde_json::Value> = stored().map(property).collect();
        json_schema!({
            "description": "Metrics of the measured phase.",
            "type": "object",
            "properties": properties,
        })
    }
}

impl Trial {
    /// Whether the load ends after a given number of acquisitions per contender; if so, the total time is a
    /// result.
    pub fn is_one_shot(&self) -> bool {
        self.is_batch() || matches!(self.spec.stop, Stop::Acquisitions(_))
    }

    /// Whether each contender acquires only once. Contenders then finish one by one, so there is no period
    /// during which all take part.
    pub(super) fn acquires_once(&self) -> bool {
        self.spec.stop == Stop::Acquisitions(1)
    }

    pub(super) fn is_batch(&self) -> bool {
        self.spec.load == Load::Batch
    }

    pub fn derived(&self) -> Derived {
        Derived(stored().map(|(name, entry)| (name.to_owned(), entry.of(self))).collect())
    }
}

/// Traffic of locks, and the number of acquisitions that it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub acquired: u64,
    pub releases: u64,
    pub requests: u64,
    pub notifications: u64,
    pub by_release: Option<u64>,
    pub names: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

impl Trial {
    /// Whether requests are known only from the separate counting trial.
    pub fn is_counted_apart(&self) -> bool {
        self.driver.is_some()
    }

    pub fn on_the_wire(&self) -> Option<&Counting> {
        self.counting.as_ref().filter(|counting| counting.is_there())
    }

    /// Traffic of the measured phase as counted by the client, or on the wire for a driver's lock. `None` if
    /// some traffic was hidden.
    pub(super) fn sent(&self) -> Option<Sent> {
        if self.is_counted_apart() {
            let counting = self.on_the_wire()?;
            let counts = &counting.counted;
            return Some(Sent {
                acquired: counts.acquired,
                // Counting trials have no faults, so every acquisition is released.
                releases: counts.acquired,
                requests: counts.all_requests(),
                notifications: counts.notifications.total(),
                by_release: counting.by_release,
                names: counts.names_returned,
                bytes_sent: counts.bytes_sent,
                bytes_received: counts.bytes_received,
            });
        }
        let counts = &self.measured;
        (counts.unseen == 0).then(|| Sent {
            acquired: counts.acquired(),
            releases: counts.releases,
            requests: counts.requests.total(),
            notifications: counts.notifications.total(),
            by_release: Some(counts.notifications.by_release()),
            names: counts.names_returned,
            bytes_sent: counts.bytes_sent,
            bytes_received: counts.bytes_received,
        })
    }

    pub fn requests_by_kind(&self) -> Option<(PerRequest, u64)> {
        let acquired = self.sent()?.acquired;
        let requests = match self.on_the_wire().filter(|_| self.is_counted_apart()) {
            Some(counting) => counting.counted.requests,
            None => self.measured.requests,
        };
        Some((requests, acquired))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use zklockbench_core::measure::Statistic;

    #[test]
    fn every_metric_has_a_unique_name_and_can_be_looked_up_by_it() {
        use Statistic::{Max, Mean, Min, Percentile};
        let each =
            [Mean, Min, Percentile(50_000), Percentile(90_000), Percentile(99_000), Percentile(99_900), Max];
        let of_samples =
            Measure::all().into_iter().flat_map(|measure| each.map(|of| Figure::Latency(measure, of)));
        let all: Vec<Figure> = ALL.iter().map(|entry| entry.figure()).chain(of_samples).collect();
        for figure in &all {
            assert_eq!(named(&figure.to_string()), Ok(*figure));
        }
        assert_eq!(all.iter().map(Figure::to_string).collect::<BTreeSet<_>>().len(), all.len());
        let stored: Vec<&str> = ALL.iter().filter_map(|entry| entry.stored_as).collect();
        assert_eq!(stored.iter().collect::<BTreeSet<_>>().len(), stored.len());
    }

    #[test]
    fn metric_lookup_suggests_the_nearest_name_and_accepts_unit_suffixes() {
        assert!(named("thruput").unwrap_err().contains("there is no metric `thruput`"));
        assert!(named("throughptu").unwrap_err().contains("did you mean `throughput`?"));
        assert_eq!(named("throughput_per_s"), Ok(THROUGHPUT.figure()));
        assert!(named("fan_out_per_s").is_err());
    }
}
