//! The claims of five articles on ZooKeeper locks, and what stored runs say about each.
//!
//! A claim is decided by a rule over figures of runs and calibrations that lie on disk; nothing is measured here. Where a run
//! is missing, the claim is not decided, and says which scenario makes the run. [`page`] shows the decisions;
//! `docs/articles.md` is that page of `results/articles/decisions.json`.

mod claim;
mod curator;
mod evidence;
mod facts;
mod faults;
mod network;
mod page;
mod queues;
mod shared;

pub use claim::{
    Answer, Article, BEHAVIOUR, CALIBRATIONS, CURATOR, Claim, Decision, DecisionDraft, Figure, Of,
};
pub use curator::{BACKGROUND, CuratorWatches, FILE as CURATOR_WATCHES, FOREGROUND, WatchStep};
pub use evidence::{Evidence, Named, Trials};
pub use page::{Decisions, page, text};

pub fn claims() -> Vec<&'static Claim> {
    let lists = [queues::CLAIMS, network::CLAIMS, facts::CLAIMS, faults::CLAIMS, shared::CLAIMS];
    let mut all: Vec<&Claim> = lists.into_iter().flatten().collect();
    all.sort_unstable_by_key(|claim| claim.number);
    all
}

pub fn decide(evidence: &Evidence) -> Vec<Decision> {
    claims().into_iter().map(|claim| decided(claim, evidence)).collect()
}

fn decided(claim: &Claim, evidence: &Evidence) -> Decision {
    let (missing, runs) = looked_up(claim, evidence);
    let found = if missing.is_empty() { (claim.decide)(evidence) } else { None };
    let found = found.unwrap_or_else(|| undecided(claim, &missing));
    Decision {
        number: claim.number,
        articles: claim.articles.to_vec(),
        claim: claim.text.to_owned(),
        decided_by: claim.decided_by.to_owned(),
        answer: found.answer,
        sentence: found.sentence,
        figures: found.figures,
        runs: if found.answer == Answer::NotDecided && !missing.is_empty() { Vec::new() } else { runs },
    }
}

/// What of its needs is not there, in the words of who is to make it; and the directories of what is.
fn looked_up(claim: &Claim, evidence: &Evidence) -> (Vec<String>, Vec<String>) {
    let (mut missing, mut runs) = (Vec::new(), Vec::new());
    let mut look = |name: Option<&String>, what: &str| match name {
        Some(name) => runs.push(name.clone()),
        None => missing.push(what.to_owned()),
    };
    for need in claim.needs {
        match *need {
            BEHAVIOUR => {
                look(evidence.behaviour().map(|(one, _)| &one.name), "`zklockbench calibrate --behaviour`")
            }
            CALIBRATIONS => [1, 3, 5].into_iter().for_each(|servers| {
                let found = evidence.calibration(servers).map(|one| &one.name);
                look(found, &format!("`zklockbench calibrate --servers {servers}`"));
            }),
            CURATOR => look(evidence.curator().map(|one| &one.name), "`scripts/articles curator`"),
            scenario => {
                let found = evidence.run(scenario).map(|run| &run.name);
                look(found, &format!("scenarios/articles/{scenario}.toml"));
            }
        }
    }
    runs.dedup();
    (missing, runs)
}

fn undecided(claim: &Claim, missing: &[String]) -> DecisionDraft {
    let why = match (missing.is_empty(), claim.needs.is_empty()) {
        (false, _) => format!("needs {}", missing.join(" and ")),
        (true, true) => "nothing that this suite can run decides it yet".to_owned(),
        (true, false) => {
            "its run does not have the figures: a trial was cut short or is invalid, or a strategy is \
                          missing"
                .to_owned()
        }
    };
    DecisionDraft::new(Answer::NotDecided, why)
}
