//! The decisions as a page and as text for a terminal.

use serde::{Deserialize, Serialize};

use super::Evidence;
use super::claim::{Answer, Decision, Source, TESTS, sources};

pub const DECISIONS_VERSION: u32 = 1;

/// What is kept of a look at all claims: `results/articles/decisions.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decisions {
    pub schema_version: u32,
    /// Where and how it was measured, run by run where runs differ.
    pub measured_on: Vec<String>,
    /// What has to be said of the measurement.
    pub note: Option<String>,
    pub claims: Vec<Decision>,
}

impl Decisions {
    pub fn by(evidence: &Evidence, note: Option<String>) -> Self {
        let claims = super::decide(evidence);
        Self { schema_version: DECISIONS_VERSION, measured_on: evidence.measured_on(), note, claims }
    }

    /// The same with what was kept of the claims for which these runs are missing.
    pub fn or_kept(mut self, kept: Self) -> Self {
        let mut has_kept = false;
        for claim in self.claims.iter_mut().filter(|claim| claim.lacks_runs()) {
            let mut all_kept = kept.claims.iter().filter(|before| !before.lacks_runs());
            if let Some(before) = all_kept.find(|before| before.number == claim.number) {
                let Decision { answer, sentence, figures, runs, .. } = before.clone();
                *claim = Decision { answer, sentence, figures, runs, ..claim.clone() };
                has_kept = true;
            }
        }
        self.note = self.note.or(kept.note);
        if has_kept {
            self.measured_on.retain(|place| !kept.measured_on.contains(place));
            self.measured_on = [kept.measured_on, self.measured_on].concat();
        }
        self
    }

    pub fn counts(&self) -> [(Answer, usize); 4] {
        [Answer::Confirmed, Answer::Refuted, Answer::HoldsWhen, Answer::NotDecided]
            .map(|answer| (answer, self.claims.iter().filter(|claim| claim.answer == answer).count()))
    }

    fn summary(&self) -> String {
        let counts = self.counts().map(|(answer, count)| format!("{count} {}", answer.name()));
        counts.join(", ")
    }
}

/// `docs/articles.md`.
pub fn page(decisions: &Decisions) -> String {
    let mut text = String::from(
        "# The articles' claims\n\n\
         Made by `zklockbench articles results/articles`, which decides each claim again from the runs that are kept there; \
         `scripts/articles` repeats all measurements. The figures come from the runs named under each claim. Behind a figure \
         that was measured several times stands between which two it lies, and how sure that is by ranks; without the latter \
         these are the lowest and the highest.\n\nFive articles make the claims:\n\n",
    );
    for source in sources() {
        text += &article(source);
    }
    for line in decisions.measured_on.iter().chain(&decisions.note) {
        text += &format!("\n{line}\n");
    }
    text += &format!("\n**{} claims: {}.**\n\n", decisions.claims.len(), decisions.summary());
    text += "| # | article | claim | |\n|---:|---|---|---|\n";
    for claim in &decisions.claims {
        let answer = claim.answer.name();
        text += &format!(
            "| [{0}](#claim-{0}) | {1} | {2} | **{answer}** |\n",
            claim.number,
            makers(claim),
            claim.claim
        );
    }
    for claim in &decisions.claims {
        text += &section(claim);
    }
    text
}

fn article(source: &Source) -> String {
    let Source { article, about, title, author, date, link, figures } = source;
    let title = title.as_ref().map_or_else(String::new, |title| format!("*{title}*, "));
    let by = author.as_ref().map_or_else(|| "author unknown".to_owned(), |author| format!("by {author}"));
    let rest: String = [date, link].into_iter().flatten().map(|known| format!(", {known}")).collect();
    format!("- **{article:?}**: {title}{by}{rest}: {about}. Published figures: {figures}.\n")
}

fn makers(claim: &Decision) -> String {
    claim.articles.iter().map(|article| format!("{article:?}")).collect::<Vec<_>>().join(", ")
}

fn section(claim: &Decision) -> String {
    let mut text = format!(
        "\n## Claim {}\n\n> {}\n\n({}) **{}**: {}.\n\nDecided by: {}.\n",
        claim.number,
        claim.claim,
        makers(claim),
        zklockbench_core::units::capitalised(claim.answer.name()),
        claim.sentence,
        claim.decided_by.trim_end_matches('.')
    );
    if !claim.figures.is_empty() {
        text += "\n| figure | |\n|---|---:|\n";
        for figure in &claim.figures {
            text += &format!("| {} | {} |\n", figure.what, figure.in_full());
        }
    }
    let runs = claim.runs.iter().map(|run| format!("`{run}`"));
    let all: Vec<String> = runs.chain(claim.tests.iter().map(|test| test_link(test))).collect();
    if !all.is_empty() {
        text += &format!("\nFrom {}.\n", all.join(", "));
    }
    text
}

/// Link to a test, which is written as `file::name`.
fn test_link(test: &str) -> String {
    let (file, name) = test.split_once("::").unwrap_or((test, test));
    format!("the test [`{name}`](../{TESTS}/{file}.rs)")
}

/// The same for a terminal, without the figures' tables where there are many.
pub fn text(decisions: &Decisions) -> String {
    const FIGURES_SHOWN: usize = 6;
    let mut text = format!("{} claims: {}.\n\n", decisions.claims.len(), decisions.summary());
    for claim in &decisions.claims {
        text += &format!(
            "{:>2}  {:<12} {} ({})\n    {}\n",
            claim.number,
            claim.answer.name(),
            claim.claim,
            makers(claim),
            claim.sentence
        );
        for figure in claim.figures.iter().take(FIGURES_SHOWN) {
            text += &format!("      {}: {}\n", figure.what, figure.in_full());
        }
        if claim.figures.len() > FIGURES_SHOWN {
            text +=
                &format!("      and {} figures more: --json has them\n", claim.figures.len() - FIGURES_SHOWN);
        }
        let tests = claim.tests.iter().map(|test| format!("{TESTS}, {test}"));
        let all: Vec<String> = claim.runs.iter().cloned().chain(tests).collect();
        if !all.is_empty() {
            text += &format!("      from {}\n", all.join(", "));
        }
    }
    text
}
