//! The table of figures: what there is to compare, gate, tabulate and draw of a trial besides percentiles.
//!
//! One entry is all that a figure takes. Gates, `--figure`, the columns of the main table and of `summary.csv`, `derived` in
//! a trial's file, `figures` in `summary.json`, charts, what is compared and what CI is told follow from it, and so does
//! `docs/reference/metrics.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Counting, Trial};
use zklockbench_core::measure::{Better, Counts, Figure, FigureCard, FigureKind, Measure, PerRequest, Unit};
use zklockbench_scenario::{Load, Stop};

/// A figure, how it is read off a trial, and where it is shown.
#[derive(Debug, Clone, Copy)]
pub struct FigureEntry {
    pub card: FigureCard,
    read: fn(&Trial) -> Option<f64>,
    /// Its name in `derived`, `summary.csv` and `summary.json`; `None` where a trial's file has it elsewhere.
    pub stored_as: Option<&'static str>,
    pub column: Option<FigureColumn>,
    pub chart: Option<FigureChart>,
    /// Whether `compare` looks at it unasked, as at what a lock costs the ensemble.
    pub compared: bool,
    pub tracked: bool,
    /// Whether it is counted on the wire, in a trial of its own, where a driver's lock is concerned: one repetition has it.
    pub on_the_wire: bool,
}

/// A column of the main table.
#[derive(Debug, Clone, Copy)]
pub struct FigureColumn {
    pub heading: &'static str,
    /// The larger, the sooner it is left out where there is little room; 0 stays.
    pub spare: u8,
    pub in_percent: bool,
    /// What stands in it, for the line below the table; empty where the heading says it.
    pub explained: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct FigureChart {
    /// The name of its files.
    pub id: &'static str,
    pub title: &'static str,
    pub axis: &'static str,
    pub section: &'static str,
    /// The fewest contenders with which the figure says anything.
    pub from: usize,
    /// Why there is none where nothing of it was measured.
    pub missing: &'static str,
}

impl FigureEntry {
    const fn new(kind: FigureKind, name: &'static str, unit: Unit, better: Better) -> Self {
        let stored_as = match kind {
            FigureKind::Ratio => Some(name),
            // Among the counts.
            FigureKind::Count => None,
        };
        Self {
            card: FigureCard { name, what: "", kind, unit, better },
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
        Figure::Plain(&self.card)
    }

    /// What it is of that trial; `None` where nothing of the kind was measured.
    pub fn of(&self, trial: &Trial) -> Option<f64> {
        (self.read)(trial)
    }

    pub(super) fn of_card(card: &FigureCard) -> Option<&'static Self> {
        ALL.iter().copied().find(|entry| entry.card.name == card.name)
    }
}

/// Every figure without samples, as gates and options name them.
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

const fn count(name: &'static str, better: Better) -> FigureEntry {
    FigureEntry::new(FigureKind::Count, name, Unit::Amount, better)
}

/// Makes the entries, each with what it is, and their list.
macro_rules! figures {
    ($($(#[doc = $what:literal])+ $id:ident = $entry:expr;)*) => {
        $($(#[doc = $what])+ pub static $id: FigureEntry = $entry.what(concat!($($what),+));)*

        /// Every figure without samples, in the order in which outputs list them.
        pub static ALL: &[&FigureEntry] = &[$(&$id),*];
    };
}

figures! {
    /// Acquisitions a second; not of a batch, whose pace is the conductor's.
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
        .chart(FigureChart {
            id: "throughput",
            title: "Throughput",
            axis: "acquisitions per second",
            section: "throughput",
            from: 1,
            missing: "no trial measured a throughput",
        })
        .tracked();
    /// Arrivals a second that were due, of an open load: what the throughput would be if all were served in time.
    OFFERED = rate("offered", Better::Neither)
        .read(|trial| trial.arrived.and_then(|arrived| per_second(arrived.offered, trial.measured_us)))
        .stored_as("offered_per_s");
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
            missing: "no trial released a lock that others waited for",
        })
        .tracked();
    /// Of `fan_out`, the notifications whose contender then acquired without waiting again.
    FAN_OUT_USEFUL = amount("fan_out_useful", Better::Neither)
        .read(|trial| per_release(trial, trial.measured.notifications.by_release_useful));
    /// Of `fan_out`, the notifications that woke a contender for nothing.
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
            missing: "no trial acquired a lock, or not all of its requests could be counted",
        })
        .compared()
        .tracked();
    /// Notifications delivered per acquisition, whatever caused them.
    NOTIFICATIONS_PER_ACQUISITION = amount("notifications_per_acquisition", Better::Lower)
        .read(|trial| per_acquisition(trial, |sent| sent.notifications))
        .on_the_wire()
        .column("notifications/acq", 7)
        .compared()
        .tracked();
    /// Names that getChildren returned, per acquisition.
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
    /// Share of the acquisitions that a later arrival was served before; of a semaphore's, as many of them as it lets in together.
    OVERTAKEN_SHARE = share("overtaken_share", Better::Lower)
        .read(|trial| ratio(trial.measured.overtaken, trial.measured.acquired()))
        .column_in_percent("overtaken", 6)
        .explained("share of acquisitions where a later arrival got in first");
    /// Jain's fairness index over the contenders' acquisitions: 1 when all got the same, 1/N when one got all. Not of a
    /// batch and of a phase that acquisitions end, in which each has as many turns as the others, of a single contender, and
    /// where contenders had fewer than five turns on average.
    FAIRNESS = share("fairness", Better::Higher).read(fairness)
        .column("fairness", 9)
        .explained("Jain's index, 1 is fair")
        .tracked();
    /// How many readers were inside at a time, on average over the measured phase and over all locks together; missing
    /// without reads.
    MEAN_READERS = amount("mean_readers", Better::Neither)
        .read(|trial| {
            let (counts, us) = (&trial.measured, trial.measured_us);
            ratio(counts.read_held_us, us).filter(|_| counts.reads_acquired > 0)
        })
        .column("readers", 10);
    /// For which share of the measured phase the busiest lock was held or being handed over.
    UTILISATION_BUSIEST = share("utilisation_busiest", Better::Neither)
        .read(|trial| Some(trial.utilisation?.busiest))
        .stored_elsewhere();
    /// Share of the host's processor time that its hypervisor gave to others.
    STEAL_SHARE = share("steal_share", Better::Lower)
        .read(|trial| trial.health.host_steal_share)
        .stored_elsewhere()
        .column_in_percent("stolen", 11)
        .explained("share of the host's processor time that its hypervisor gave to others");
    /// Locks acquired.
    ACQUIRED = count("acquired", Better::Neither).read(|trial| whole(trial.measured.acquired()));
    /// Acquires that timed out.
    TIMED_OUT = count("timed_out", Better::Lower)
        .read(|trial| whole(trial.timed_out()));
    /// Arrivals of an open load that found no free session and were dropped, as the scenario says.
    DROPPED = count("dropped", Better::Lower).read(|trial| whole(trial.arrived?.dropped));
    /// Waits that ended without the lock, or had not ended when the measured phase did.
    UNSERVED = count("unserved", Better::Neither)
        .read(|trial| whole(trial.unserved()));
    /// Requests sent.
    REQUESTS = count("requests", Better::Lower).read(|trial| seen(trial, |counts| counts.requests.total()));
    /// Notifications delivered.
    NOTIFICATIONS = count("notifications", Better::Lower)
        .read(|trial| seen(trial, |counts| counts.notifications.total()));
    /// Names that getChildren returned.
    NAMES = count("names", Better::Lower).read(|trial| seen(trial, |counts| counts.names_returned));
    /// Bytes in both directions.
    BYTES = FigureEntry::new(FigureKind::Count, "bytes", Unit::Bytes, Better::Lower)
        .read(|trial| seen(trial, |counts| counts.bytes_sent + counts.bytes_received));
    /// Acquisitions that a later arrival was served before; of a semaphore's, as many of them as it lets in together.
    OVERTAKEN = count("overtaken", Better::Lower).read(|trial| whole(trial.measured.overtaken));
    /// Locks that were lost while they were held.
    LOST_WHILE_HELD = count("lost_while_held", Better::Lower).read(|trial| whole(trial.measured.lost_while_held));
    /// Violations in the whole trial.
    VIOLATIONS = count("violations", Better::Lower).read(|trial| whole(trial.violation_count));
    /// Acquisitions that would have shown a violation, at most as many as the measured phase had.
    EVIDENCE = count("evidence", Better::Neither).read(|trial| whole(trial.checked()));
    /// Errors in the whole trial.
    ERRORS = count("errors", Better::Lower).read(|trial| whole(trial.errors.values().sum()));
    /// Sessions that expired.
    SESSIONS_EXPIRED = count("sessions_expired", Better::Lower).read(|trial| whole(trial.sessions.expired));
    /// Watches that were still set when the load had ended and all had released, by the servers' count; missing when
    /// a server could not be asked.
    WATCHES_LEFT = count("watches_left", Better::Lower)
        .read(|trial| whole(watches_left(trial)?))
        .stored_as("watches_left");
}

fn whole(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// A count of what was sent and received. Where not all of that was seen, it would be too small.
fn seen(trial: &Trial, count: fn(&Counts) -> u64) -> Option<f64> {
    is_seen(trial).then(|| count(&trial.measured) as f64)
}

fn per_acquisition(trial: &Trial, amount: fn(&Sent) -> u64) -> Option<f64> {
    trial.sent().and_then(|sent| ratio(amount(&sent), sent.acquired))
}

fn per_release(trial: &Trial, amount: u64) -> Option<f64> {
    ratio(amount, trial.measured.releases).filter(|_| is_seen(trial))
}

/// Whether all was seen that was sent and received in the measured phase. Of a driver's lock nothing is.
fn is_seen(trial: &Trial) -> bool {
    trial.measured.unseen == 0 && !trial.is_counted_apart()
}

fn fairness(trial: &Trial) -> Option<f64> {
    let shares: Vec<f64> = trial.tallies.iter().map(|tally| tally.acquired as f64).collect();
    let turns: u64 = trial.tallies.iter().map(|tally| tally.acquired).sum();
    // Where each ends after as many acquisitions, all get the same whatever the lock does.
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

/// How many more watches the servers had when the load had ended and all had released than before it. The sessions are
/// still open then, so what is left will stay for as long as they are.
fn watches_left(trial: &Trial) -> Option<u64> {
    const KEY: &str = "zk_watch_count";
    let left: Vec<i64> = trial
        .servers
        .iter()
        .map(|server| Some(server.after.get(KEY)? - server.before.get(KEY)?))
        .collect::<Option<_>>()?;
    u64::try_from(left.iter().sum::<i64>()).ok().filter(|_| !left.is_empty())
}

/// With fewer turns for each contender, on average, chance alone makes shares differ: of two turns each, handed out at
/// random, the index is about 0.7.
pub const TURNS_FOR_FAIRNESS: u64 = 5;

pub fn reference() -> String {
    const HEAD: &str = "# Metrics\n\n\
        Generated from the code by `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`; do not edit.\n\
        It lists the metrics that gates, `--figure` and objectives can name.\n";
    const SAMPLES: &str = "\n## Metrics with samples\n\n\
        Write a measure and a statistic: `wait.p99`, `handoff.mean`. Statistics are mean, min, max, median and percentiles \
        such as p50 or p99.9. All are times.\n\n| measure | meaning |\n|---|---|\n";
    const PLAIN: &str = "\n## Metrics without samples\n\n\
        These metrics describe the measured phase, unless their meaning names another one. A metric that was not measured is \
        missing.\n\n| metric | unit | better | meaning |\n|---|---|---|---|\n";
    let measures = Measure::all().into_iter().filter(|measure| !matches!(measure, Measure::Request(_)));
    let measures = measures.map(|measure| format!("| `{}` | {} |\n", measure.name(), measure.what()));
    let requests =
        "| `request_create`, … | From a request's call to its reply, for each kind of request. |\n"
            .to_owned();
    let row = |entry: &&FigureEntry| {
        let FigureCard { name, what, unit, better, .. } = entry.card;
        format!("| `{name}` | {} | {} | {what} |\n", unit.name(), better.name())
    };
    let measures: String = measures.chain([requests]).collect();
    let plain: String = ALL.iter().map(row).collect();
    format!("{HEAD}{SAMPLES}{measures}{PLAIN}{plain}")
}

/// The figures of a trial that are stored with it, by the names that files give them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Derived(BTreeMap<String, Option<f64>>);

fn stored() -> impl Iterator<Item = (&'static str, &'static FigureEntry)> {
    ALL.iter().filter_map(|entry| Some((entry.stored_as?, *entry)))
}

impl Derived {
    /// What a figure is; `None` where it was not measured, or is not stored here.
    pub fn get(&self, entry: &FigureEntry) -> Option<f64> {
        *self.0.get(entry.stored_as?)?
    }

    /// Whether a figure has another value here than there. Other versions know of other figures.
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
            "description": "Figures of the measured phase.",
            "type": "object",
            "properties": properties,
        })
    }
}

impl Trial {
    /// Whether its load is over when each contender has acquired as often as it was to: then the total time is a result.
    pub fn is_one_shot(&self) -> bool {
        self.is_batch() || matches!(self.spec.stop, Stop::Acquisitions(_))
    }

    /// Whether each contender acquires once: the first to do so has finished, so there is no time in which all were there.
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

/// What was sent and received on behalf of a lock, and over how many acquisitions.
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
    /// Whether its requests are known from a trial of their own only.
    pub fn is_counted_apart(&self) -> bool {
        self.driver.is_some()
    }

    pub fn on_the_wire(&self) -> Option<&Counting> {
        self.counting.as_ref().filter(|counting| counting.is_there())
    }

    /// What was sent and received: by the session's own count, in the measured phase; of a driver's lock, by that on the wire.
    /// `None` where not all of it was seen.
    pub(super) fn sent(&self) -> Option<Sent> {
        if self.is_counted_apart() {
            let counting = self.on_the_wire()?;
            let counts = &counting.counted;
            return Some(Sent {
                acquired: counts.acquired,
                // Nothing is broken in such a trial: who has acquired releases.
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
    fn every_figure_is_found_by_its_name_and_no_two_share_one() {
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
    fn a_name_that_is_almost_one_is_corrected_and_the_name_in_a_table_will_do() {
        assert!(named("thruput").unwrap_err().contains("there is no figure `thruput`"));
        assert!(named("throughptu").unwrap_err().contains("did you mean `throughput`?"));
        assert_eq!(named("throughput_per_s"), Ok(THROUGHPUT.figure()));
        assert!(named("fan_out_per_s").is_err());
    }
}
