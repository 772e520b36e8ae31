//! What became of the rounds of `torture`, each by itself and all together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::draw::{Faults, LeftOut};

use zklockbench_record::{RunEnding, Trial};
use zklockbench_report::document::{
    Block, Document, ExplainedTable, Finding, Link, Table, Value, numbers, words,
};
use zklockbench_report::page::section;

use crate::run::series::DoneRun;
use zklockbench_core::clock::micros;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{counted, grouped, listed, whole_seconds};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::fault;

#[derive(Debug, Clone, Serialize)]
pub struct RoundOutcome {
    pub number: u64,
    pub scenario: PathBuf,
    /// The run's directory; `None` where it left none.
    pub results: Option<PathBuf>,
    /// What was run: the lock and its load.
    pub what: String,
    pub verdict: Verdict,
    pub acquired: u64,
    /// Contenders that were not served although all faults were over.
    pub stuck: usize,
    /// Nodes below the lock that had no owner at the end.
    pub orphans: u64,
    /// Why those contenders and nodes are what the lock's description tells of: then they are no violation.
    pub described: Option<String>,
    /// The faults that were to fire: their kind, and whether their effect was seen.
    pub faults: Vec<(String, bool)>,
    pub took_us: u64,
}

impl RoundOutcome {
    /// Of a run that has ended: by its results; without them, it was never begun, or the program failed.
    pub fn of(number: u64, scenario: PathBuf, run: &DoneRun) -> Result<Self, Error> {
        let DoneRun { directory, ended, .. } = run;
        let mut outcome = Self {
            number,
            scenario,
            results: None,
            what: String::new(),
            verdict: Verdict::Held,
            acquired: 0,
            stuck: 0,
            orphans: 0,
            described: None,
            faults: Vec::new(),
            took_us: micros(ended.took),
        };
        let code = ended.code.and_then(|code| u8::try_from(code).ok());
        if !directory.is_dir() {
            if [Exit::Usage, Exit::Environment].iter().any(|exit| code == Some(*exit as u8)) {
                return Err(run.without_results(&format!("round {number}"), None));
            }
            outcome.fails(run);
            return Ok(outcome);
        }
        let known = Exit::ALL.iter().any(|(exit, _)| code == Some(*exit as u8));
        for trial in &zklockbench_results::read(directory)?.trials {
            outcome.add(trial);
        }
        outcome.results = Some(directory.clone());
        if !known {
            outcome.fails(run);
        }
        Ok(outcome)
    }

    fn fails(&mut self, run: &DoneRun) {
        let why = format!("the program failed ({}): {}", run.ended.how(), run.last_words());
        self.and(Verdict::Violated(vec![why]));
    }

    fn add(&mut self, trial: &Trial) {
        let spec = &trial.spec;
        let locks = counted(spec.locks, "lock", "locks");
        let contenders = zklockbench_core::units::contenders(spec.contenders);
        self.what = format!("{}, {} load, {contenders}, {locks}", spec.strategy.label, spec.load.name());
        self.acquired += trial.whole.acquired();
        self.stuck += trial.stuck.len();
        self.orphans += trial.orphans.unwrap_or(0);
        self.faults.extend(trial.faults.iter().map(|fault| (fault.kind.clone(), fault.proved)));
        let judged = &trial.judged;
        self.and(judged.exclusion.clone());
        self.and(judged.order.clone().unwrap_or(Verdict::Held));
        if let Some(accounting) = &judged.accounting {
            self.and(accounting.clone().with_reasons(|row| format!("counts disagree: {row}")));
        }
        let left = trial
            .orphans
            .filter(|orphans| *orphans > 0)
            .map(|orphans| format!("{} left that nobody owns", counted(orphans, "node was", "nodes were")));
        let left = Verdict::violated_if(left.into_iter().collect());
        let stood_still = judged.progress.clone().unwrap_or(Verdict::Held).and(left);
        let described = matches!(stood_still, Verdict::Violated(_))
            .then(|| zklockbench_locks::find(&spec.strategy.name))
            .flatten()
            .and_then(|entry| zklockbench_judge::standing_still(&entry.card, trial));
        match described {
            Some(why) => {
                let told = stood_still.reasons().join("; ");
                self.described = Some(format!("as its description says ({why}): {told}"));
            }
            None => self.and(stood_still),
        }
    }

    fn and(&mut self, verdict: Verdict) {
        let so_far = std::mem::replace(&mut self.verdict, Verdict::Held);
        self.verdict = so_far.and(verdict);
    }

    /// Whether something is wrong with the lock or with the program.
    pub fn is_red(&self) -> bool {
        matches!(self.verdict, Verdict::Violated(_))
    }

    /// One line on it, with the reasons below where it did not simply hold.
    pub fn line(&self) -> String {
        let took = whole_seconds(Duration::from_micros(self.took_us));
        let mut line = format!(
            "round {}: {} ({took}): {}; {}; {}",
            self.number,
            self.verdict.word(),
            self.what,
            counted(self.acquired, "acquisition", "acquisitions"),
            kinds(&self.faults)
        );
        for reason in self.verdict.reasons().iter().chain(&self.described) {
            line += &format!("\n  {reason}");
        }
        line
    }
}

fn kinds(faults: &[(String, bool)]) -> String {
    if faults.is_empty() {
        return "no faults".to_owned();
    }
    let times = grouped(faults.iter().map(|(kind, _)| (kind, ())));
    let shown = |(kind, times): &(&String, Vec<()>)| match times.len() {
        1 => (*kind).clone(),
        many => format!("{many} x {kind}"),
    };
    format!("faults: {}", times.iter().map(shown).collect::<Vec<_>>().join(", "))
}

const ROUNDS: Link = Link { section: "rounds", text: "rounds" };

pub struct Tally<'a> {
    outcomes: &'a [RoundOutcome],
    /// Of each kind of fault, how often it was to fire and how often its effect was seen.
    pub faults: BTreeMap<&'static str, (usize, usize)>,
}

impl<'a> Tally<'a> {
    pub fn of(outcomes: &'a [RoundOutcome]) -> Self {
        let all = || outcomes.iter().flat_map(|outcome| &outcome.faults);
        let times = |name: &str| {
            let fired = all().filter(|(kind, _)| kind == name).count();
            (fired, all().filter(|(kind, seen)| kind == name && *seen).count())
        };
        let kinds = Faults::without(fault::cards(), |_| None).cards;
        let faults = kinds.iter().map(|card| (card.name, times(card.name))).collect();
        Self { outcomes, faults }
    }

    pub fn exit(&self, error: Option<&Error>) -> Exit {
        match (self.verdict(), error) {
            (Verdict::Held | Verdict::Unknown(_), Some(error)) => error.exit(),
            // A violation counts however the rounds ended.
            (verdict, _) => RunEnding::Complete.exit(&verdict),
        }
    }

    fn verdict(&self) -> Verdict {
        self.outcomes.iter().map(|outcome| outcome.verdict.clone()).fold(Verdict::Held, Verdict::and)
    }

    fn headline(&self, seed: u64) -> String {
        let of = |word: &str| self.outcomes.iter().filter(|outcome| outcome.verdict.word() == word).count();
        let [held, unknown, violated] = ["held", "unknown", "violated"].map(of);
        let rounds = counted(self.outcomes.len(), "round", "rounds");
        let fired: usize = self.faults.values().map(|(fired, _)| fired).sum();
        let faults = counted(fired, "fault", "faults");
        let counts = format!("{held} held, {unknown} unknown, {violated} violated");
        let what = match self.verdict() {
            Verdict::Held => "No lock broke a promise",
            Verdict::Violated(_) => "VIOLATED: a lock broke a promise",
            Verdict::Unknown(_) => "UNKNOWN: no violation was seen, but not every round could be judged",
        };
        format!("{what} in {rounds} with {faults}: {counts}. Seed {seed}.")
    }

    pub fn document(&self, seed: u64, left_out: &[LeftOut], again: &str) -> Document {
        let row = |outcome: &RoundOutcome| {
            let reasons = outcome.verdict.reasons().iter().chain(&outcome.described);
            vec![
                Value::Count(outcome.number),
                outcome.what.as_str().into(),
                Value::Count(outcome.acquired),
                kinds(&outcome.faults).trim_start_matches("faults: ").into(),
                Value::from(&outcome.verdict),
                reasons.cloned().collect::<Vec<_>>().join("; ").as_str().into(),
            ]
        };
        let rounds = Table {
            columns: vec![
                words("round"),
                words("lock and load"),
                numbers("acquired", 1),
                words("faults"),
                words("verdict"),
                words("why"),
            ],
            labels: 1,
            rows: self.outcomes.iter().map(row).collect(),
        };
        let fault = |(kind, (fired, seen)): (&&str, &(usize, usize))| {
            vec![(*kind).into(), Value::Count(*fired as u64), Value::Count(*seen as u64)]
        };
        let faults = Table {
            columns: vec![words("fault"), numbers("fired", 0), numbers("seen to take effect", 0)],
            labels: 1,
            rows: self.faults.iter().map(fault).collect(),
        };
        let table = |caption: &str, table| Block::Table(ExplainedTable::new(caption, table, ""));
        let left_out = left_out.iter().map(|LeftOut { what, why }| format!("{what}: {why}")).collect();
        let again = Block::Code { caption: "The same rounds again:".to_owned(), text: again.to_owned() };
        let finding = |outcome: &RoundOutcome| {
            let sentence = format!("{}: {}.", outcome.what, outcome.verdict.reasons().join("; "));
            let tone = Value::from(&outcome.verdict).tone();
            Finding::new(format!("Round {}", outcome.number), tone, sentence, Some(ROUNDS))
        };
        let verdict = Value::from(&self.verdict());
        let others = self.outcomes.iter().filter(|one| one.verdict != Verdict::Held).map(finding);
        Document {
            title: "Rounds of random faults".to_owned(),
            headline: Finding::new("All rounds", verdict.tone(), self.headline(seed), Some(ROUNDS)),
            verdict,
            about: "Random locks under random load and random faults.".to_owned(),
            comes_to: "Findings",
            findings: others.collect(),
            strategies: Vec::new(),
            sections: vec![
                section(ROUNDS.section, "Rounds", vec![table("Each round", rounds)]),
                section("faults", "Faults", vec![table("Each kind of fault", faults)]),
                section("left-out", "Never drawn", vec![Block::Notes(left_out)]),
                section("reproduce", "How to reproduce this", vec![again]),
            ],
        }
    }

    pub fn text(&self, seed: u64) -> String {
        let mut text = self.headline(seed) + "\n";
        let those = |what: &str, is_one: &dyn Fn(&RoundOutcome) -> bool| {
            let those = self.outcomes.iter().filter(|outcome| is_one(outcome));
            let numbers: Vec<_> = those.map(|outcome| outcome.number.to_string()).collect();
            if numbers.is_empty() { String::new() } else { format!("{what}: round {}\n", listed(&numbers)) }
        };
        for word in ["violated", "unknown"] {
            text += &those(word, &|outcome| outcome.verdict.word() == word);
        }
        let stuck: usize = self.outcomes.iter().map(|outcome| outcome.stuck).sum();
        let orphans: u64 = self.outcomes.iter().map(|outcome| outcome.orphans).sum();
        text += &format!("Stuck contenders: {stuck}. Nodes that nobody owns: {orphans}.\n");
        let what = "stuck or left as the lock's description says";
        text += &those(what, &|outcome| outcome.described.is_some());
        let shown = |(kind, (fired, seen)): (&&str, &(usize, usize))| {
            if fired == seen {
                format!("{kind} {fired}")
            } else {
                format!("{kind} {fired} (seen to take effect: {seen})")
            }
        };
        let (drawn, not_drawn): (Vec<_>, Vec<_>) = self.faults.iter().partition(|(_, (fired, _))| *fired > 0);
        text += &format!("Faults: {}.", drawn.into_iter().map(shown).collect::<Vec<_>>().join(", "));
        if !not_drawn.is_empty() {
            let names: Vec<&str> = not_drawn.into_iter().map(|(kind, _)| *kind).collect();
            text += &format!("\nNot drawn in these rounds: {}.", names.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(number: u64, verdict: Verdict, faults: &[(&str, bool)]) -> RoundOutcome {
        RoundOutcome {
            number,
            scenario: format!("rounds/{number:03}.toml").into(),
            results: None,
            what: "baton, closed load, 5 contenders, 1 lock".into(),
            verdict,
            acquired: 120,
            stuck: 0,
            orphans: 0,
            described: None,
            faults: faults.iter().map(|(kind, seen)| ((*kind).to_owned(), *seen)).collect(),
            took_us: 31_000_000,
        }
    }

    fn because(why: &str) -> Vec<String> {
        vec![why.to_owned()]
    }

    #[test]
    fn a_round_is_told_in_a_line_with_the_reasons_why_it_did_not_hold() {
        let faults = [("kill", true), ("delay", true), ("kill", false)];
        let line =
            outcome(3, Verdict::Unknown(because("fault 3 (kill leader): it was still there")), &faults)
                .line();
        assert_eq!(
            line,
            "round 3: unknown (31 s): baton, closed load, 5 contenders, 1 lock; 120 acquisitions; faults: 2 x kill, \
             delay\n  fault 3 (kill leader): it was still there"
        );
    }

    #[test]
    fn one_red_round_makes_all_red_and_one_unknown_leaves_them_unknown() {
        let exit = |verdicts: &[Verdict], error: Option<&Error>| {
            let outcomes: Vec<_> = verdicts.iter().map(|verdict| outcome(1, verdict.clone(), &[])).collect();
            Tally::of(&outcomes).exit(error)
        };
        let (unknown, violated) = (Verdict::Unknown(because("why")), Verdict::Violated(because("why")));
        assert_eq!(exit(&[Verdict::Held], None), Exit::Held);
        assert_eq!(exit(&[unknown.clone(), Verdict::Held], None), Exit::Unknown);
        assert_eq!(exit(&[unknown, violated.clone()], None), Exit::Violated);
        assert_eq!(exit(&[Verdict::Held], Some(&Error::Interrupted)), Exit::Interrupted);
        assert_eq!(exit(&[violated], Some(&Error::Interrupted)), Exit::Violated);
    }

    #[test]
    fn at_the_end_every_kind_of_fault_is_listed_and_rounds_that_did_not_hold_are_named() {
        let violated = Verdict::Violated(because("two inside"));
        let outcomes = [
            outcome(1, Verdict::Held, &[("kill", true), ("delay", true)]),
            outcome(2, violated, &[("kill", true), ("delay", false)]),
        ];
        let text = Tally::of(&outcomes).text(7);
        assert!(
            text.starts_with(
                "VIOLATED: a lock broke a promise in 2 rounds with 4 faults: 1 held, 0 unknown, 1 violated. Seed 7.\n\
                 violated: round 2\n"
            ),
            "{text}"
        );
        assert!(text.contains("delay 2 (seen to take effect: 1)") && text.contains("kill 2"), "{text}");
        let (_, not_drawn) = text.split_once("Not drawn in these rounds: ").unwrap();
        let others = Faults::without(fault::cards(), |_| None).cards.len() - 2;
        assert_eq!(not_drawn.split(", ").count(), others, "{text}");
    }
}
