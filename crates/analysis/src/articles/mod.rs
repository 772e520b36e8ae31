//! The claims of five articles on ZooKeeper locks, decided from stored runs.
//!
//! `claims.toml` lists the claims: the runs that each needs, the metrics that decide it, their conditions,
//! and the sentence for each case. Nothing is measured here. If a run is missing, the claim is not
//! decided, and its sentence shows the command for that run. `docs/articles.md` and
//! `docs/reference/articles.md` ([`evidence_page`]) show `results/articles/decisions.json`.

mod claim;
mod figure;
mod page;
mod reading;
mod reckoned;

use reading::Trials;
use zklockbench_core::units::{counted, grouped};
use zklockbench_record::Calibration;
use zklockbench_results::StoredRun;

pub use claim::{Answer, Article, CALIBRATIONS, CURATOR, Claim, Decision, TESTS, claims};
pub use figure::{Bounds, Figure, Of};
pub use page::{DECISIONS_VERSION, Decisions, evidence_page, text};

/// Name of the file with the recorded behaviour of Java's Curator.
pub const CURATOR_FACTS: &str = "curator-facts.json";

pub fn decide(evidence: &Evidence) -> Vec<Decision> {
    claims().iter().map(|claim| decided(claim, evidence)).collect()
}

fn decided(claim: &Claim, evidence: &Evidence) -> Decision {
    let Needed { missing, runs } = Needed::of(claim, evidence);
    let (known, runs) = match missing.is_empty() {
        true => (ClaimFigures::of(claim, evidence), runs),
        false => (Err(format!("needs {}", missing.join(" and "))), Vec::new()),
    };
    let found = known.as_ref().map_err(String::clone).and_then(|known| known.answer(claim));
    let (answer, sentence) = found.unwrap_or_else(|why| (Answer::NotDecided, why));
    Decision {
        number: claim.number,
        articles: claim.articles.clone(),
        claim: claim.claim.clone(),
        decided_by: claim.decided_by.clone(),
        answer,
        sentence,
        figures: known.unwrap_or_default().0.into_iter().map(|(_, figure)| figure).collect(),
        runs,
        tests: claim.tests.clone(),
    }
}

const LACKING: &str =
    "its run lacks the metrics: a trial was cut short or is invalid, or a strategy is missing";

/// Commands for the missing runs of a claim, and the directories of the existing runs.
#[derive(Default)]
struct Needed {
    missing: Vec<String>,
    runs: Vec<String>,
}

impl Needed {
    fn of(claim: &Claim, evidence: &Evidence) -> Self {
        let mut all = Self::default();
        for need in &claim.needs {
            match need.as_str() {
                CALIBRATIONS => [1, 3, 5].into_iter().for_each(|servers| {
                    let found = evidence.calibration(servers).map(|one| &one.name);
                    all.look(found, &format!("`zklockbench calibrate --servers {servers}`"));
                }),
                CURATOR => all.look(evidence.curator().map(|one| &one.name), "`scripts/articles curator`"),
                scenario => {
                    let found = evidence.run(scenario).map(|run| &run.name);
                    all.look(found, &format!("`scripts/articles {}`", word_of(scenario)));
                }
            }
        }
        all.runs.dedup();
        all
    }

    fn look(&mut self, name: Option<&String>, what: &str) {
        match name {
            Some(name) => self.runs.push(name.clone()),
            None => self.missing.push(what.to_owned()),
        }
    }
}

/// Returns the argument with which `scripts/articles` runs a scenario.
fn word_of(scenario: &str) -> &str {
    match scenario {
        "curator-reentrant" => "reentrant",
        "articles-printed" | "articles-no-directory" => "classes",
        "articles-redis-durable" | "articles-retry" | "redis-primary-dies" => "redis",
        other => other.trim_start_matches("articles-"),
    }
}

/// The metrics of a claim by name, in the order shown.
#[derive(Default)]
struct ClaimFigures(Vec<(String, Figure)>);

impl ClaimFigures {
    fn of(claim: &Claim, evidence: &Evidence) -> Result<Self, String> {
        let lacking = || LACKING.to_owned();
        let mut known = Self::default();
        if let Some(name) = &claim.reckoned {
            let reckon = reckoned::named(name).ok_or_else(|| format!("no computation is named `{name}`"))?;
            reckon(evidence, &mut known).ok_or_else(lacking)?;
        }
        for line in &claim.figures {
            known.put(&line.id, reading::read(line, claim, evidence)?.ok_or_else(lacking)?);
        }
        Ok(known)
    }

    fn put(&mut self, name: &str, figure: Figure) {
        self.0.push((name.to_owned(), figure));
    }

    fn answer(&self, claim: &Claim) -> Result<(Answer, String), String> {
        let find = |name: &str| self.0.iter().find(|(one, _)| one == name).map(|(_, figure)| figure);
        for case in &claim.cases {
            let holds = case.when.as_ref().map_or(Ok(Some(true)), |when| figure::holds(when, &find))?;
            if holds == Some(true) {
                return Ok((case.answer, figure::filled(&case.says, &find)?));
            }
        }
        Ok((Answer::NotDecided, figure::filled(&claim.otherwise, &find)?))
    }
}

/// A stored item and the name of its directory.
#[derive(Debug, Clone)]
pub struct Named<T> {
    pub name: String,
    pub what: T,
}

/// All evidence for the decisions. If a scenario has several runs, the latest counts.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub runs: Vec<Named<StoredRun>>,
    pub calibrations: Vec<Named<Calibration>>,
    /// Recorded behaviour of Java's Curator, as written by `benches/java/CuratorFacts.java`.
    pub curators: Vec<Named<serde_json::Value>>,
    /// Source text of the articles' classes (polling, parent watch, predecessor watch), as rebuilt here.
    pub sources: Option<[&'static str; 3]>,
}

impl Evidence {
    pub fn run(&self, scenario: &str) -> Option<&Named<StoredRun>> {
        let of_it = self.runs.iter().filter(|run| run.what.run.scenario == scenario);
        of_it.max_by_key(|run| run.what.run.started_at)
    }

    fn trials(&self, scenario: &str) -> Trials<'_> {
        Trials(self.run(scenario).into_iter().flat_map(|run| &run.what.trials).collect())
    }

    /// Describes the hosts and ensembles of the runs, and how idle the hosts were, without duplicates.
    pub fn measured_on(&self) -> Vec<String> {
        let places = grouped(self.runs.iter().map(|run| {
            let (host, ensemble) = (&run.what.run.host, &run.what.run.ensemble);
            let version = ensemble.servers.first().map_or("unknown", |server| server.version.as_str());
            let place = format!(
                "Measured with {} processors ({}), {}; {} of ZooKeeper {version}, {}; data: {}.",
                host.cores,
                host.cpu,
                host.os,
                counted(ensemble.servers.len(), "server", "servers"),
                if ensemble.shares_host { "on the generator's host" } else { "on other hosts" },
                ensemble.placement,
            );
            (place, run.what.trials.iter().filter_map(|trial| trial.health.host_idle_share))
        }));
        let told = places.into_iter().map(|(place, shares)| {
            let mut shares: Vec<f64> = shares.into_iter().flatten().collect();
            shares.sort_by(f64::total_cmp);
            let idle = shares.get(shares.len() / 2).map_or_else(String::new, |share| {
                format!(" In the median trial, the host was idle {:.0} % of the time.", 100.0 * share)
            });
            place + &idle
        });
        told.collect()
    }

    /// Returns the last record of Curator's behaviour in the evidence.
    pub fn curator(&self) -> Option<&Named<serde_json::Value>> {
        self.curators.last()
    }

    pub fn calibration(&self, servers: usize) -> Option<&Named<Calibration>> {
        let of_it = self.calibrations.iter().filter(|one| one.what.servers.len() == servers);
        of_it.max_by_key(|one| one.what.started_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_and_sentence_uses_existing_metrics() {
        let stand_in = Figure::new("", 1.0, Of::Amount);
        for claim in claims() {
            let find = |name: &str| {
                let is_listed = claim.figures.iter().any(|line| line.id == name);
                (is_listed || claim.reckoned.is_some()).then_some(&stand_in)
            };
            for line in &claim.figures {
                assert_eq!(reading::read(line, claim, &Evidence::default()), Ok(None), "{}", claim.number);
            }
            for case in &claim.cases {
                let holds = case.when.as_ref().map_or(Ok(None), |when| figure::holds(when, &find));
                let read = holds.and(figure::filled(&case.says, &find));
                assert!(read.is_ok(), "claim {}: {read:?}", claim.number);
            }
            let otherwise = figure::filled(&claim.otherwise, &find);
            assert!(otherwise.is_ok(), "claim {}: {otherwise:?}", claim.number);
        }
    }
}
