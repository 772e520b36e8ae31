//! Whether the newest runs of a store are worse than those before a change: what `baseline check` concludes.

use schemars::JsonSchema;
use serde::Serialize;

use super::trend::{Trend, TrendChange};
use crate::words::error::Error;
use crate::words::measure::Better;
use crate::words::units::counted;
use crate::words::verdict::Verdict;

/// A change that `baseline check` found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheckedChange {
    /// The figure's name.
    pub figure: String,
    /// Whether the figure is worse by more than the margin since then, still is, and the change is not accepted.
    pub fails: bool,
    /// What changed.
    #[serde(flatten)]
    pub change: TrendChange,
}

/// What the trends of some figures over the same runs come to.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedTrends {
    pub changes: Vec<CheckedChange>,
    /// What makes the runs hard to compare, and of what there are too few values, each in one sentence without a full stop.
    pub notes: Vec<String>,
    /// Held where nothing is worse and a change could have been told in every line of the newest run. What has no value is no
    /// evidence that nothing changed.
    pub verdict: Verdict,
    /// The same in one sentence without a full stop.
    pub sentence: String,
}

impl CheckedTrends {
    /// Of trends that are not concluded, over the same runs; the changes up to the run of that place are accepted.
    ///
    /// # Errors
    /// [`Error::Usage`] of a figure of which neither way is worse.
    pub fn of(trends: Vec<Trend>, accepted: usize, margin: f64) -> Result<Self, Error> {
        if let Some(of_load) = trends.iter().find(|trend| trend.better() == Better::Neither) {
            return Err(Error::usage(format!(
                "`{}` belongs to the load: neither more nor less of it is worse; name a figure of the lock, e.g. wait.p99",
                of_load.figure
            )));
        }
        let each = Trend::ALPHA / trends.len().max(1) as f64;
        let trends: Vec<Trend> = trends.into_iter().map(|trend| trend.concluded(each)).collect();
        let runs = trends.iter().map(|trend| trend.runs.len()).max().unwrap_or(0);
        let runs_at_least = trends.iter().map(|trend| trend.runs_at_least).max().unwrap_or(0);
        let checked = |trend: &Trend, change: &TrendChange| CheckedChange {
            figure: trend.figure.clone(),
            fails: change.run >= accepted && change.is_worse(trend.better(), margin),
            change: change.clone(),
        };
        let of_trend =
            |trend: &Trend| trend.changes.iter().map(|change| checked(trend, change)).collect::<Vec<_>>();
        let changes: Vec<CheckedChange> = trends.iter().flat_map(of_trend).collect();
        let has = counted(runs, "run", "runs");
        let is_long_enough = runs >= runs_at_least;
        let too_short = |trend: &Trend| if is_long_enough { trend.too_short() } else { Vec::new() };
        let too_short: Vec<String> = trends.iter().flat_map(too_short).collect();
        let has_lines = trends.iter().any(|trend| trend.lines.iter().any(|line| line.is_current));
        let unknown = if !is_long_enough {
            Some(format!("{has}, and it takes {runs_at_least} to tell a change"))
        } else if !has_lines {
            Some("the newest run has none of these figures".to_owned())
        } else {
            let lines = counted(too_short.len(), "line has", "lines have");
            (!too_short.is_empty()).then(|| format!("{lines} too few values over {has} to tell a change"))
        };
        let (verdict, sentence) = match (changes.iter().filter(|one| one.fails).count(), unknown) {
            (0, None) => (Verdict::Held, format!("No change for the worse over {has}")),
            (0, Some(why)) => (Verdict::Unknown(vec![why.clone()]), format!("Unknown: {why}")),
            (fails, _) => {
                let worse = format!("Worse than before {}", counted(fails, "change", "changes"));
                (Verdict::Violated(vec![worse.clone()]), worse)
            }
        };
        let of_runs = trends.first().map_or_else(Vec::new, |trend| trend.notes.clone());
        Ok(Self { changes, notes: [of_runs, too_short].concat(), verdict, sentence })
    }

    /// Line by line.
    pub fn told(&self) -> String {
        let changes = self.changes.iter().map(|one| {
            let mark = if one.fails { "! " } else { "" };
            format!("{mark}{}.", one.change.sentence(&one.figure))
        });
        let notes = self.notes.iter().map(|note| format!("! {note}"));
        let first = std::iter::once(format!("{}.", self.sentence));
        first.chain(changes).chain(notes).collect::<Vec<_>>().join("\n")
    }
}
