//! How a figure is read off the evidence, as `claims.toml` writes it:
//!
//! ```text
//! figure   = reading [ "/" reading ]
//! reading  = [ "sum" | "most" | "least" | "median" ] name { scope } | document
//! scope    = "of" strategy { "or" strategy } | "at" number ( "contenders" | "contender" ) | "in" scenario { "or" scenario }
//! strategy = word | '"' label '"'
//! document = ( "behaviour" | "curator" ) { "." key }
//! ```
//!
//! A name is one that [`super::counted`] has of trials, one that it has of faults with their kind behind a full stop
//! (`gap.kill`), or one that gates take. Without a word before it, counts are added up, and of anything else the median
//! over the repetitions is taken. Of `/` there is the ratio, repetition by repetition.

use std::collections::BTreeMap;

use super::claim::{Claim, FigureLine};
use super::counted::{self, Aggregate, Measured, Trials};
use super::evidence::Evidence;
use super::figure::{Figure, Of};

/// Reads one of a claim's figures; `None` where the evidence has no such thing.
///
/// # Errors
/// What of its text means nothing.
pub fn read(line: &FigureLine, claim: &Claim, evidence: &Evidence) -> Result<Option<Figure>, String> {
    let readings: Vec<&str> = line.of.split(" / ").collect();
    match readings.as_slice() {
        [document] if is_document(document) => Ok(of_document(document, line, evidence)),
        [one] => {
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

fn is_document(text: &str) -> bool {
    ["behaviour.", "curator."].iter().any(|name| text.starts_with(name))
}

/// A number, or yes or no, in what a calibration tried or what was seen of Curator.
fn of_document(path: &str, line: &FigureLine, evidence: &Evidence) -> Option<Figure> {
    let (document, keys) = path.split_once('.')?;
    let document = if document == "curator" {
        evidence.curator()?.what.clone()
    } else {
        serde_json::to_value(evidence.behaviour()?.1).ok()?
    };
    let found = document.pointer(&format!("/{}", keys.replace('.', "/")))?;
    let (value, of) = match found.as_bool() {
        Some(is) => (f64::from(u8::from(is)), Of::YesNo),
        None => (found.as_f64()?, Of::Amount),
    };
    Some(Figure::new(&line.shown, value, line.unit.unwrap_or(of)))
}

/// What of which trials.
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
        let aggregate = words.peek().and_then(|word| Aggregate::named(word));
        if aggregate.is_some() {
            words.next();
        }
        let measured = counted::named(words.next().ok_or_else(|| format!("`{text}` names no figure"))?)?;
        let mut scopes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        while let Some(scope) = words.next() {
            let mut listed = vec![words.next().unwrap_or_default().to_owned()];
            while words.next_if_eq(&"or").is_some() {
                listed.push(words.next().unwrap_or_default().to_owned());
            }
            words.next_if(|word| ["contenders", "contender"].contains(word));
            if !["of", "at", "in"].contains(&scope) || listed.contains(&String::new()) {
                return Err(format!("`{scope}` in `{text}` is no scope, or has nothing behind it"));
            }
            scopes.insert(scope, listed);
        }
        let contenders = match scopes.remove("at").as_deref() {
            Some([number]) => {
                Some(number.parse().map_err(|_| format!("`{number}` in `{text}` is no number"))?)
            }
            Some(_) => return Err(format!("`{text}` has several numbers of contenders")),
            None => None,
        };
        let scenarios = scopes.remove("in").unwrap_or_else(|| claim.scenarios());
        let strategies = scopes.remove("of").unwrap_or_default();
        let aggregate = aggregate.unwrap_or(measured.aggregate);
        Ok(Self { measured, aggregate, strategies, contenders, scenarios })
    }

    /// Its values in the order of the repetitions; `None` where there is no trial, or one lacks it.
    fn values(&self, evidence: &Evidence) -> Option<Vec<f64>> {
        let runs =
            self.scenarios.iter().map(|scenario| evidence.run(scenario)).collect::<Option<Vec<_>>>()?;
        let trials = Trials(runs.iter().flat_map(|run| &run.what.trials).collect());
        let trials = trials.of(&self.strategies).at(self.contenders).fit_for(self.measured.needs);
        trials.values(&self.measured)
    }
}

/// Splits at spaces, but not within quotes, which are dropped.
fn words(text: &str) -> Vec<String> {
    let parts = text.split('"').enumerate().map(|(part, text)| match part % 2 {
        0 => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    });
    parts.flat_map(|words: Vec<String>| words).collect()
}
