//! Reads metrics from the evidence, in the syntax of `claims.toml`:
//!
//! ```text
//! figure   = reading [ "/" reading ]
//! reading  = [ "sum" | "most" | "least" | "median" ] name { scope } | document
//! scope    = "of" strategy { "or" strategy } | "at" number ( "contenders" | "contender" ) | "in" scenario { "or" scenario }
//! strategy = word | '"' label '"'
//! document = "curator" { "." key }
//! ```
//!
//! A name is a trial metric defined below, a fault metric with the kind of fault (`gap.kill`), or a metric that
//! gates support. Without an aggregate, counts are summed, and other metrics use the median over the
//! repetitions. `/` divides the two values of each repetition.

use std::collections::BTreeMap;

use super::Evidence;
use super::claim::{Claim, FigureLine};
use super::figure::{Figure, Of};
use zklockbench_core::catalog::NOT_ZOOKEEPER;
use zklockbench_core::measure::RequestKind::{Create, Delete, ExistsWatch, GetChildren, GetDataWatch};
use zklockbench_core::measure::{self, Outcome, Unit};
use zklockbench_core::worded;
use zklockbench_record::figures::{self, VIOLATIONS};
use zklockbench_record::{Counted, FaultRecord, ServerCounters, Trial};
use zklockbench_scenario::Stop;

/// Reads one of a claim's metrics; `None` if the evidence lacks it.
pub fn read(line: &FigureLine, claim: &Claim, evidence: &Evidence) -> Result<Option<Figure>, String> {
    let readings: Vec<&str> = line.of.split(" / ").collect();
    match readings.as_slice() {
        [one] => {
            if let Some(keys) = one.strip_prefix("curator.") {
                return Ok(seen_of_curator(keys, line, evidence));
            }
            let one = TrialReading::parse(one, claim)?;
            let unit = line.unit.unwrap_or(one.measured.of);
            Ok(one.values(evidence).and_then(|values| one.aggregate.figure(&line.shown, &values, unit)))
        }
        [over, under] => {
            let (over, under) = (TrialReading::parse(over, claim)?, TrialReading::parse(under, claim)?);
            let both = over.values(evidence).zip(under.values(evidence));
            Ok(both.and_then(|(over, under)| Figure::ratio(&line.shown, &over, &under)))
        }
        _ => Err(format!("`{}` has more than one `/`", line.of)),
    }
}

/// Reads a number or boolean from Curator's recorded behaviour.
fn seen_of_curator(keys: &str, line: &FigureLine, evidence: &Evidence) -> Option<Figure> {
    let found = evidence.curator()?.what.pointer(&format!("/{}", keys.replace('.', "/")))?;
    let (value, of) = match found.as_bool() {
        Some(is) => (f64::from(u8::from(is)), Of::YesNo),
        None => (found.as_f64()?, Of::Amount),
    };
    Some(Figure::new(&line.shown, value, line.unit.unwrap_or(of)))
}

struct TrialReading {
    measured: Measured,
    aggregate: Aggregate,
    strategies: Vec<String>,
    contenders: Option<usize>,
    scenarios: Vec<String>,
}

impl TrialReading {
    fn parse(text: &str, claim: &Claim) -> Result<Self, String> {
        let words = words(text);
        let mut words = words.iter().map(String::as_str).peekable();
        let aggregate = words
            .peek()
            .and_then(|word| Aggregate::ALL.into_iter().find(|aggregate| aggregate.word() == *word));
        if aggregate.is_some() {
            words.next();
        }
        let measured = named(words.next().ok_or_else(|| format!("`{text}` does not name a metric"))?)?;
        let mut scopes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        while let Some(scope) = words.next() {
            let mut listed = vec![words.next().unwrap_or_default().to_owned()];
            while words.next_if_eq(&"or").is_some() {
                listed.push(words.next().unwrap_or_default().to_owned());
            }
            words.next_if(|word| ["contenders", "contender"].contains(word));
            if !["of", "at", "in"].contains(&scope) || listed.contains(&String::new()) {
                return Err(format!("`{scope}` in `{text}` is not a scope, or nothing follows it"));
            }
            scopes.insert(scope, listed);
        }
        let contenders = match scopes.remove("at").as_deref() {
            Some([number]) => {
                Some(number.parse().map_err(|_| format!("`{number}` in `{text}` is not a number"))?)
            }
            Some(_) => return Err(format!("`{text}` specifies the number of contenders more than once")),
            None => None,
        };
        let scenarios = scopes.remove("in").unwrap_or_else(|| claim.scenarios());
        let strategies = scopes.remove("of").unwrap_or_default();
        let aggregate = aggregate.unwrap_or(measured.aggregate);
        Ok(Self { measured, aggregate, strategies, contenders, scenarios })
    }

    /// Returns the values by repetition; `None` if there are no trials, or one of them lacks the metric.
    fn values(&self, evidence: &Evidence) -> Option<Vec<f64>> {
        let runs =
            self.scenarios.iter().map(|scenario| evidence.run(scenario)).collect::<Option<Vec<_>>>()?;
        let trials = Trials(runs.iter().flat_map(|run| &run.what.trials).collect());
        let trials = trials.of(&self.strategies).at(self.contenders).fit_for(self.measured.needs);
        trials.values(&self.measured)
    }
}

/// Splits at spaces outside quotes and drops the quotes.
fn words(text: &str) -> Vec<String> {
    let parts = text.split('"').enumerate().map(|(part, text)| match part % 2 {
        0 => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    });
    parts.flat_map(|words: Vec<String>| words).collect()
}

/// Condition under which a trial's metric is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No condition: every recorded value is correct.
    Nothing,
    /// The trial ran to its end, so its counts are correct, even if the generator was slow.
    ItsEnd,
    /// The trial's times are also correct.
    ItsTimes,
}

worded! {
    /// Aggregation of the values of several trials.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Aggregate by word {
        Sum = "sum",
        Most = "most",
        Least = "least",
        Median = "median",
    }
}

impl Aggregate {
    fn figure(self, what: &str, values: &[f64], of: Of) -> Option<Figure> {
        let exact = |value: Option<f64>| value.map(|value| Figure::new(what, value, of));
        match self {
            Self::Sum => exact((!values.is_empty()).then(|| values.iter().sum())),
            Self::Most => exact(values.iter().copied().reduce(f64::max)),
            Self::Least => exact(values.iter().copied().reduce(f64::min)),
            Self::Median => Figure::median(what, values, of),
        }
    }
}

/// How to read a metric of trials.
#[derive(Clone, Copy)]
pub struct Measured {
    of: Of,
    needs: Needs,
    aggregate: Aggregate,
    read: Read,
}

#[derive(Clone, Copy)]
enum Read {
    Trial(fn(&Trial) -> Option<f64>),
    /// One value for each proved fault of this kind.
    Fault(fn(&Trial, &FaultRecord) -> Option<f64>, &'static str),
    Gate(measure::Figure),
}

/// Kinds of faults with metrics in claims.
const KINDS: [&str; 5] = ["kill", "lose-majority", "crash", "freeze", "reset"];

pub fn named(name: &str) -> Result<Measured, String> {
    if let Some((_, measured)) = of_trials().into_iter().find(|(one, _)| *one == name) {
        return Ok(measured);
    }
    if let Some((figure, kind)) = name.split_once('.')
        && let Some(kind) = KINDS.into_iter().find(|one| *one == kind)
        && let Some((_, measured)) = of_faults(kind).into_iter().find(|(one, _)| *one == figure)
    {
        return Ok(measured);
    }
    let figure = figures::named(name)?;
    let of = match figure.unit() {
        Unit::Amount => Of::Amount,
        Unit::Micros => Of::Us,
        Unit::Bytes => Of::Bytes,
        Unit::PerSecond => Of::PerS,
        Unit::Share => Of::Share,
    };
    let (needs, aggregate) = match figure.is_count() {
        true if figure == VIOLATIONS.figure() => (Needs::Nothing, Aggregate::Sum),
        true => (Needs::ItsEnd, Aggregate::Sum),
        false => (Needs::ItsTimes, Aggregate::Median),
    };
    Ok(Measured { of, needs, aggregate, read: Read::Gate(figure) })
}

type Entry = (&'static str, Measured);

fn count(name: &'static str, needs: Needs, read: fn(&Trial) -> Option<f64>) -> Entry {
    (name, Measured { of: Of::Amount, needs, aggregate: Aggregate::Sum, read: Read::Trial(read) })
}

fn median(name: &'static str, of: Of, needs: Needs, read: fn(&Trial) -> Option<f64>) -> Entry {
    (name, Measured { of, needs, aggregate: Aggregate::Median, read: Read::Trial(read) })
}

fn whole(amount: u64) -> Option<f64> {
    Some(amount as f64)
}

/// Returns the trial metrics that gates do not support.
fn of_trials() -> Vec<Entry> {
    use Needs::{ItsEnd, ItsTimes, Nothing};
    vec![
        count("got", Nothing, |trial| whole(trial.whole.acquired())),
        count("wanted", Nothing, |trial| match &trial.spec.stop {
            Stop::Acquisitions(each) => whole(each * trial.spec.contenders as u64),
            Stop::After(_) => None,
        }),
        count("contenders", Nothing, |trial| whole(trial.spec.contenders as u64)),
        count("waits_in_vain", ItsEnd, |trial| whole(trial.tallies.iter().map(|tally| tally.unserved).sum())),
        count("faults_proved", Nothing, |trial| whole(trial.faults_proved() as u64)),
        count("sessions_lost", Nothing, |trial| whole(trial.sessions.expired + trial.sessions.rejoined)),
        count("stuck", Nothing, |trial| whole(trial.stuck.len() as u64)),
        count("most_inside", Nothing, |trial| whole(trial.most_inside)),
        count("entries_beside_lost", Nothing, |trial| whole(trial.excused.zombies)),
        count("stale_writes", Nothing, |trial| whole(trial.fencing.stale)),
        count("stale_writes_passed", Nothing, |trial| {
            whole(trial.fencing.stale.saturating_sub(trial.fencing.stale_rejected))
        }),
        count("gave_up_waiting", Nothing, |trial| whole(trial.whole.outcomes.get(Outcome::TimedOut))),
        count("gave_up", Nothing, |trial| whole(gave_up(trial))),
        median("longest_beside", Of::Us, Nothing, |trial| whole(trial.excused.longest_unsafe_us)),
        median("lost_share", Of::Share, Nothing, lost_share),
        median("took", Of::Us, ItsEnd, |trial| whole(trial.measured_us)),
        median("longest_wait", Of::Us, ItsTimes, |trial| {
            trial.tallies.iter().map(|tally| tally.longest_wait_us as f64).reduce(f64::max)
        }),
        median("requests_each", Of::Amount, ItsEnd, |trial| each(trial, trial.whole.requests.total())),
        median("bytes_each", Of::Bytes, ItsEnd, |trial| {
            each(trial, trial.whole.bytes_sent + trial.whole.bytes_received)
        }),
        median("notifications_each", Of::Amount, ItsEnd, |trial| {
            each(trial, trial.whole.notifications.total())
        }),
        count("told", ItsEnd, |trial| whole(told(trial))),
        count("not_told_of_all", ItsEnd, |trial| whole(pairs(trial).abs_diff(told(trial)))),
        count("told_beyond_the_next", ItsEnd, |trial| {
            whole(told(trial).abs_diff(trial.spec.contenders as u64 - 1))
        }),
        count("largest_fan_out", ItsEnd, |trial| {
            Some(trial.herd.as_ref()?.iter().map(|woken| woken.from_rank).max()?.into())
        }),
        count("requests_sent", ItsEnd, |trial| whole(requests(trial)?.0)),
        count("requests_modelled", ItsEnd, |trial| whole(requests(trial)?.1)),
        count("requests_beyond_model", ItsEnd, |trial| {
            requests(trial).and_then(|(sent, modelled)| whole(sent.abs_diff(modelled)))
        }),
        count("creates", ItsEnd, |trial| whole(trial.whole.requests.get(Create))),
        count("creates_succeeded", ItsEnd, |trial| whole(creates_of_locks(trial))),
        count("creates_amiss", ItsEnd, |trial| {
            whole(creates_of_locks(trial).abs_diff(trial.whole.acquired()))
        }),
        count("creates_short_of_all", ItsEnd, |trial| {
            let all = pairs(trial) + trial.spec.contenders as u64;
            whole(all.saturating_sub(trial.whole.requests.get(Create)))
        }),
        count("watched_absent", ItsEnd, |trial| {
            let absent = |kind| trial.whole.requests.get(kind) - trial.whole.succeeded.get(kind);
            whole(absent(ExistsWatch) + absent(GetDataWatch))
        }),
        count("useful_by_release", ItsEnd, |trial| whole(trial.measured.notifications.by_release_useful)),
        count("spurious_by_release", ItsEnd, |trial| whole(trial.measured.notifications.by_release_spurious)),
        count("spurious_to_readers", ItsEnd, |trial| whole(trial.measured.notifications.spurious_to_readers)),
        count("wire_turns", ItsEnd, |trial| whole(trial.on_the_wire()?.counted.acquired)),
        median("served_each", Of::Amount, ItsEnd, |trial| {
            per_acquisition(served(trial)?, trial.whole.acquired())
        }),
        count("wire_creates", ItsEnd, |trial| whole(trial.on_the_wire()?.counted.requests.get(Create))),
        count("wire_lists", ItsEnd, |trial| whole(trial.on_the_wire()?.counted.requests.get(GetChildren))),
        count("wire_deletes", ItsEnd, |trial| whole(trial.on_the_wire()?.counted.requests.get(Delete))),
        count("wire_requests", ItsEnd, |trial| whole(trial.on_the_wire()?.counted.all_requests())),
    ]
}

fn of_faults(kind: &'static str) -> Vec<Entry> {
    let entry = |name, of, aggregate, read| {
        let read = Read::Fault(read, kind);
        (name, Measured { of, needs: Needs::Nothing, aggregate, read })
    };
    let us = |name, read| entry(name, Of::Us, Aggregate::Median, read);
    vec![
        entry("proved", Of::Amount, Aggregate::Sum, |_, _| Some(1.0)),
        us("gap", |_, fault| Some(fault.longest_gap_us? as f64)),
        us("recovered", |_, fault| Some(fault.recovered_us? as f64)),
        us("lasted", |trial, fault| {
            let asked = trial.spec.faults.iter().find(|asked| asked.kind == fault.kind)?;
            Some(asked.duration?.as_micros() as f64)
        }),
        us("timeout", |trial, _| whole(trial.sessions.negotiated_timeout_us)),
    ]
}

fn gave_up(trial: &Trial) -> u64 {
    [Outcome::ConnectionLost, Outcome::SessionExpired, Outcome::Failed]
        .map(|outcome| trial.whole.outcomes.get(outcome))
        .iter()
        .sum()
}

/// Returns the share of acquires that failed or were stuck, ignoring timeouts and cancellations.
fn lost_share(trial: &Trial) -> Option<f64> {
    let lost = gave_up(trial) + trial.stuck.len() as u64;
    per_acquisition(lost, trial.whole.acquired() + lost)
}

fn per_acquisition(amount: u64, acquired: u64) -> Option<f64> {
    (acquired > 0).then(|| amount as f64 / acquired as f64)
}

fn each(trial: &Trial, amount: u64) -> Option<f64> {
    per_acquisition(amount, trial.whole.acquired()).filter(|_| trial.whole.unseen == 0)
}

/// Returns the number of successful requests according to the servers' counters: the reads of all servers, plus
/// the writes, which every server counts.
fn served(trial: &Trial) -> Option<u64> {
    let counts = |key: &str| -> Option<Vec<i64>> {
        let count =
            |server: &ServerCounters| Some(server.after.get(key)? - server.before.get(key).unwrap_or(&0));
        trial.servers.iter().map(count).collect()
    };
    let reads: i64 = counts("zk_cnt_ns_read_per_namespace")?.iter().sum();
    let writes = counts("zk_cnt_ns_write_per_namespace")?.into_iter().max()?;
    u64::try_from(reads + writes).ok()
}

/// Returns the number of notifications that releases sent to waiters.
fn told(trial: &Trial) -> u64 {
    trial.whole.notifications.by_release().saturating_sub(trial.whole.notifications.to_releaser)
}

/// Returns the number of successful creates, excluding one create for each lock's directory.
fn creates_of_locks(trial: &Trial) -> u64 {
    trial.whole.succeeded.get(Create).saturating_sub(trial.spec.locks as u64)
}

/// Returns the number of notifications if each of N releases notifies all remaining waiters.
fn pairs(trial: &Trial) -> u64 {
    let contenders = trial.spec.contenders as u64;
    contenders * (contenders - 1) / 2
}

/// Returns the number of requests that were sent, and the number that the cost model predicts.
fn requests(trial: &Trial) -> Option<(u64, u64)> {
    let line = trial.accounting.iter().find(|line| line.what == Counted::Requests)?;
    Some((line.client?, line.expected?))
}

#[derive(Debug, Clone, Default)]
pub struct Trials<'a>(pub Vec<&'a Trial>);

impl Trials<'_> {
    /// Returns the trials of strategies with these labels; all trials if there are no labels.
    pub fn of(mut self, labels: &[String]) -> Self {
        let is_it = |label: &str| labels.iter().any(|one| one == label);
        self.0.retain(|trial| {
            let label = trial.spec.strategy.label.as_str();
            labels.is_empty() || is_it(label) || label.strip_suffix(NOT_ZOOKEEPER).is_some_and(is_it)
        });
        self
    }

    pub fn at(mut self, contenders: Option<usize>) -> Self {
        self.0.retain(|trial| contenders.is_none_or(|contenders| trial.spec.contenders == contenders));
        self
    }

    /// Returns the trials that meet these needs, in repetition order.
    pub fn fit_for(mut self, needs: Needs) -> Self {
        self.0.retain(|trial| match needs {
            Needs::Nothing => true,
            Needs::ItsEnd => trial.cut_short.is_none(),
            Needs::ItsTimes => trial.is_sound(),
        });
        self.0.sort_by_key(|trial| trial.spec.repetition);
        self
    }

    /// Returns the values of a metric; `None` if there are no trials, or one of them lacks the metric.
    pub fn values(&self, measured: &Measured) -> Option<Vec<f64>> {
        let values: Vec<Vec<f64>> = self.0.iter().map(|trial| measured.of(trial)).collect::<Option<_>>()?;
        (!values.is_empty()).then(|| values.concat())
    }
}

impl Measured {
    fn of(&self, trial: &Trial) -> Option<Vec<f64>> {
        match self.read {
            Read::Trial(read) => Some(vec![read(trial)?]),
            Read::Fault(read, kind) => {
                let proved = trial.faults.iter().filter(|fault| fault.proved && fault.kind == kind);
                proved.map(|fault| read(trial, fault)).collect()
            }
            Read::Gate(figure)
                if zklockbench_record::is_counted_on_the_wire(figure) && trial.is_counted_apart() =>
            {
                // Earlier builds counted a driver's requests in only one repetition, so the others have no value.
                Some(trial.reading(figure).map_or(Vec::new(), |reading| vec![reading.value]))
            }
            Read::Gate(figure) => Some(vec![trial.reading(figure).ok()?.value]),
        }
    }
}
