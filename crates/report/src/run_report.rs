//! Report of a run, shared by its terminal text, Markdown, page and summary, which all start with the same
//! line.

use std::path::Path;

use serde::Deserialize;

use super::View;
use super::conclusions::{Conclusion, Topic, conclusions};
use super::document::{Tone, Value, violated_word};
use super::table::{gates_not_passed, worth_showing};
use super::view::Cell;
use zklockbench_analysis::gate::{Outcome, overall};
use zklockbench_core::disk::{self, MIB, Unreadable};
use zklockbench_core::error::Error;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{contenders, joined, listed, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::THROUGHPUT;

#[derive(Debug)]
pub struct RunReport<'a> {
    pub view: &'a View<'a>,
    pub gated: &'a Gated,
    /// Conclusions, most important first.
    pub conclusions: Vec<Conclusion>,
    pub headline: Headline,
}

impl<'a> RunReport<'a> {
    pub fn of(view: &'a View<'a>, gated: &'a Gated) -> Self {
        let conclusions = conclusions(view);
        let headline = Headline::of(view, gated, &conclusions);
        Self { view, gated, conclusions, headline }
    }

    pub fn other_conclusions(&self) -> &[Conclusion] {
        let told = if let Says::Conclusions(told) = self.headline.says { told } else { 0 };
        &self.conclusions[told..]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Verdict that decides a build: the worse of the verdicts on the gates and on the locks.
    pub verdict: Value,
    /// Word before the sentence if the outcome is a failure or unknown, e.g. `FAILED`.
    pub alarm: Option<&'static str>,
    pub sentence: String,
    /// Contents of the sentence, which the rest of the output does not repeat.
    pub says: Says,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// The first conclusions, up to this number.
    Conclusions(usize),
    Gate,
    Run,
}

impl Headline {
    fn of(view: &View<'_>, gated: &Gated, conclusions: &[Conclusion]) -> Self {
        let judged = &view.judged.verdict;
        let why = || judged.why().unwrap_or_default();
        let is_only_stuck = view.judged.is_only_stuck();
        let violated = Some(violated_word(is_only_stuck));
        // Unless `--strict` is set, the implicit gate only repeats the verdict.
        let gates = match judged {
            Verdict::Held => gated.gates.as_slice(),
            _ => worth_showing(&gated.gates).unwrap_or_default(),
        };
        let mut not_passed = gates_not_passed(gates);
        let (alarm, says, sentence) = match (judged, conclusions.first(), not_passed.next()) {
            (Verdict::Violated(_), Some(first), _) if first.topic == Topic::MustNotBeUsed => {
                let (told, sentence) = must_not_be_used(conclusions);
                (violated, Says::Conclusions(told), sentence)
            }
            (Verdict::Violated(_), ..) => (violated, Says::Run, format!("{}.", why())),
            (_, _, Some(gate)) => {
                let alarm = if gate.tone == Tone::Bad { "FAILED" } else { "UNKNOWN" };
                let all = 1 + not_passed.count();
                let more = format!(" ({all} of {} gates did not pass.)", gates.len());
                (Some(alarm), Says::Gate, gate.sentence + if all > 1 { more.as_str() } else { "" })
            }
            (Verdict::Unknown(_), ..) => (Some("UNKNOWN"), Says::Run, format!("{}.", why())),
            (Verdict::Held, Some(first), None) => (None, Says::Conclusions(1), first.sentence.clone()),
            (Verdict::Held, None, None) => (None, Says::Run, in_figures(view)),
        };
        let part = view.unfinished.as_ref().map_or_else(String::new, |part| format!("{part}. "));
        let verdict = match (judged, overall(&gated.gates)) {
            (Verdict::Held | Verdict::Unknown(_), Verdict::Violated(_)) => {
                Value::verdict("gate FAILED", Tone::Bad)
            }
            (Verdict::Held, Verdict::Unknown(_)) => Value::verdict("gate unknown", Tone::Doubtful),
            _ => Value::judged(judged, is_only_stuck),
        };
        Self { verdict, alarm, sentence: part + &sentence, says }
    }

    pub fn text(&self) -> String {
        let alarm = self.alarm.map_or_else(String::new, |word| format!("{word}: "));
        format!("{alarm}{}", self.sentence)
    }
}

/// Maximum number of violated locks with a full sentence; other locks are only listed by name.
const LOCKS_TOLD: usize = 3;

/// Returns the number of locks with a full sentence, and the text on all locks that broke a promise.
fn must_not_be_used(conclusions: &[Conclusion]) -> (usize, String) {
    let broken: Vec<&Conclusion> =
        conclusions.iter().take_while(|one| one.topic == Topic::MustNotBeUsed).collect();
    let (told, others) = broken.split_at(broken.len().min(LOCKS_TOLD));
    let names: Vec<&String> = others.iter().flat_map(|one| &one.strategies).collect();
    let others = (!names.is_empty()).then(|| format!("{} must not be used either.", listed(&names)));
    (told.len(), joined(told.iter().map(|one| one.sentence.clone()).chain(others), " "))
}

/// Describes the main metrics of a run without comparisons.
fn in_figures(view: &View<'_>) -> String {
    let has = |cell: &Cell<'_>| cell.sum(|one| one.measured.acquired()) > 0;
    let most = view.best_common_count(has);
    let Some(cell) = most.and_then(|count| view.cells_at(count).find(|cell| has(cell))) else {
        return "No trial ran.".to_owned();
    };
    let wait = |quantile| cell.percentile(Measure::Wait, quantile).map(|wait| wait.shown());
    let pace = cell.figure(&THROUGHPUT).map(|pace| format!("{} acquisitions a second", number(pace)));
    let median = wait(0.5).map(|wait| format!("a median wait of {wait}"));
    let tail = wait(0.99).map(|wait| format!("a 99th percentile of {wait}"));
    let held = (cell.verdict() == Some(Verdict::Held)).then(|| "exclusion held".to_owned());
    let said = joined([pace, median, tail, held].into_iter().flatten(), ", ");
    format!("{} with {}: {said}.", view.label(cell), contenders(cell.contenders))
}

pub const SUMMARY: &str = "summary.json";

/// Gates and baseline of a run, which are stored only in its summary.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Gated {
    #[serde(default)]
    pub gates: Vec<Outcome>,
    #[serde(default)]
    pub baseline: Option<String>,
}

impl Gated {
    /// Returns the gates of a stored run, read from its summary; empty if an older version wrote no summary.
    ///
    /// # Errors
    /// If the file exists but cannot be read or is not a summary.
    pub fn of_stored(run: &Path) -> Result<Self, Error> {
        let path = run.join(SUMMARY);
        let bytes = match disk::read(run, SUMMARY, 64 * MIB) {
            Ok(bytes) => bytes,
            Err(Unreadable::Missing) => return Ok(Self::default()),
            Err(why) => return Err(why.of(&path)),
        };
        disk::from_json(&bytes)
            .map_err(|error| Error::usage(format!("{}: not a run's summary: {error}", path.display())))
    }
}
