//! From a stored trial back to the record that checks judge.
//!
//! A directory keeps what checks need and what people read; what only the run itself needed is not in it.

use std::collections::BTreeMap;

use super::wire::{StoredCounts, TrialFile};
use crate::measure::{Counts, Histogram, Measure, Outcome};
use crate::record::{Completeness, Health, Sessions, Trial};

impl TrialFile {
    /// The trial as far as its exclusion can be judged by it: who and how many, outcomes, violations, histograms,
    /// completeness, health. Phases, timeline, requests, notifications, accounting and servers are left empty.
    ///
    /// # Errors
    /// The part of the evidence that the directory does not have.
    pub fn evidence(&self) -> Result<Trial, String> {
        let broken = self.broken.clone().unwrap_or_default();
        Ok(Trial {
            index: self.index,
            strategy: self.strategy.clone(),
            label: self.label.clone(),
            params: self.params.clone(),
            contenders: self.contenders,
            locks: self.locks,
            repetition: self.repetition,
            load: if self.load == "batch" { "batch" } else { "closed" },
            started_at: self.started_at,
            measured_us: self.measured_us,
            phases: Vec::new(),
            histograms: self.by_measure(),
            measured: counts("measured", &self.measured)?,
            whole: counts("whole", &self.whole)?,
            timeline: Vec::new(),
            tallies: self.tallies.clone(),
            most_inside: self.most_inside.ok_or("`most_inside`")?,
            sessions: Sessions { expired: self.sessions.expired, ..Sessions::default() },
            errors: self.errors.clone(),
            violations: self.violations.clone(),
            violation_count: self.violation_count,
            excused: self.excused,
            facts: None,
            ensemble_order: broken.ensemble_order.or_else(|| self.ensemble_order.clone()),
            evidence: Some(self.evidence.ok_or("`evidence`")?),
            fencing: broken.fencing,
            faults: broken.faults,
            stuck: broken.stuck,
            history: Vec::new(),
            deletions: BTreeMap::new(),
            orphans: broken.orphans,
            accounting: Vec::new(),
            servers: Vec::new(),
            health: Health { invalid: self.health.invalid.clone(), ..Health::default() },
            completeness: self.how_complete(),
            exclusion: (&self.exclusion).into(),
        })
    }

    fn by_measure(&self) -> BTreeMap<Measure, Histogram> {
        let named = |measure: Measure| Some((measure, self.histogram(measure)?.clone()));
        Measure::all().into_iter().filter_map(named).collect()
    }

    fn how_complete(&self) -> Completeness {
        if self.completeness.complete {
            return Completeness::Complete;
        }
        Completeness::Partial(self.completeness.why.clone().unwrap_or_else(|| "why is not stored".to_owned()))
    }
}

fn counts(span: &str, stored: &StoredCounts) -> Result<Counts, String> {
    let StoredCounts { releases, lost_while_held, overtaken, .. } = *stored;
    let mut counts = Counts { releases, lost_while_held, overtaken, ..Counts::default() };
    for outcome in Outcome::ALL {
        let name = outcome.name();
        let count = stored.outcomes.get(name).ok_or_else(|| format!("`{span}.outcomes.{name}`"))?;
        counts.outcomes.add(outcome, *count);
    }
    Ok(counts)
}
