//! What differs between the sides apart from what was measured, and what of it makes a comparison meaningless.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::cell::CellUnderLoad;
use super::side::{Loaded, Side};
use crate::results::record::{Floor, Run, Timing, Trial};
use crate::words::units::{counted, format_micros, shown};

/// Something that is not the same on both sides, or not in all runs of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// As the base has it; several values where its runs do not agree.
    pub base: String,
    /// As the new has it.
    pub new: String,
    /// Whether it makes the comparison meaningless: another load, or another machine.
    pub meaningless: bool,
}

impl Difference {
    pub fn describe(&self) -> String {
        format!("{}: {} against {}", self.what, self.base, self.new)
    }
}

/// A fact of a run or of a cell: what it is, how it is there, and whether it must be the same.
struct Fact {
    what: String,
    value: String,
    must_agree: bool,
}

impl Fact {
    fn stated(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), must_agree: false }
    }

    fn needed(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { must_agree: true, ..Self::stated(what, value) }
    }
}

/// All differences, those that make the comparison meaningless first.
pub fn differences(base: &Side, new: &Side) -> Vec<Difference> {
    let mut found: Vec<Difference> = same_run(base, new).into_iter().collect();
    found.extend(apart(facts(base), facts(new)));
    found.extend(of_cells(base, new));
    found.extend(floors(base, new));
    found.sort_by_key(|difference| !difference.meaningless);
    found
}

/// A run that is compared with itself is the same in everything, which shows nothing.
fn same_run(base: &Side, new: &Side) -> Option<Difference> {
    let both = base.runs.iter().find_map(|one| {
        let is_same = |other: &&Loaded| other.stored.run.digest == one.stored.run.digest;
        Some((one, new.runs.iter().find(is_same)?))
    });
    both.map(|(one, other)| Difference {
        what: "the same run is on both sides".into(),
        base: one.path.display().to_string(),
        new: other.path.display().to_string(),
        meaningless: true,
    })
}

/// The values of each fact, in the order of the facts.
type Values = Vec<(String, bool, Vec<String>)>;

fn collected(facts: impl IntoIterator<Item = Fact>) -> Values {
    let mut all: Values = Vec::new();
    for Fact { what, value, must_agree } in facts {
        match all.iter_mut().find(|(other, ..)| *other == what) {
            Some((.., values)) if values.contains(&value) => {}
            Some((.., values)) => values.push(value),
            None => all.push((what, must_agree, vec![value])),
        }
    }
    all
}

/// The facts that are not the same everywhere.
fn apart(base: Vec<Fact>, new: Vec<Fact>) -> Vec<Difference> {
    const MOST: usize = 120;
    let (base, new) = (collected(base), collected(new));
    let missing = |what: &String, all: &Values| all.iter().all(|(other, ..)| other != what);
    let only_new = new.iter().filter(|(what, ..)| missing(what, &base));
    // What one side cannot know, such as where the data of other people's servers lies, need not agree.
    let needed = |what: &String| {
        let of =
            |all: &Values| all.iter().find(|(other, ..)| other == what).is_none_or(|(_, needed, _)| *needed);
        of(&base) && of(&new)
    };
    let names: Vec<(&String, bool)> =
        base.iter().chain(only_new).map(|(what, ..)| (what, needed(what))).collect();
    let values = |what: &String, all: &Values| -> Vec<String> {
        let found = all.iter().find(|(other, ..)| other == what);
        let mut values = found.map(|(.., values)| values.clone()).unwrap_or_default();
        values.sort();
        values
    };
    let difference = |(what, must_agree): (&String, bool)| {
        let (was, is) = (values(what, &base), values(what, &new));
        let text = |values: &[String]| match values {
            [] => "none".to_owned(),
            some => shown(&some.join(" and "), MOST),
        };
        let differs = was != is || must_agree && was.len() > 1;
        differs.then(|| Difference {
            what: shown(what, MOST),
            base: text(&was),
            new: text(&is),
            meaningless: must_agree,
        })
    };
    names.into_iter().filter_map(difference).collect()
}

fn facts(side: &Side) -> Vec<Fact> {
    side.runs.iter().flat_map(|run| of_run(&run.stored.run.run)).collect()
}

/// What differs between two parts of one run: where they were measured and by which program, what was asked apart.
pub fn between_parts(earlier: &Run, later: &Run) -> Vec<Difference> {
    apart(of_run(earlier), of_run(later))
}

fn of_run(run: &Run) -> Vec<Fact> {
    let (host, ensemble) = (&run.host, &run.ensemble);
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    let versions = ensemble.servers.iter().map(|server| server.version.as_str());
    let mut versions: Vec<&str> = versions.collect();
    versions.sort_unstable();
    versions.dedup();
    let mut facts = vec![
        Fact::needed("processors", format!("{} x {}", host.cores, host.cpu)),
        Fact { must_agree: ensemble.shares_host, ..Fact::stated("data", without_path(&ensemble.placement)) },
        Fact::stated("ensemble", ensemble.kind.as_str()),
        Fact::needed("ensemble on the generator's host", yes_or_no(ensemble.shares_host)),
        Fact::stated("servers", ensemble.servers.len().to_string()),
        Fact::stated("ZooKeeper", versions.join(" and ")),
        Fact::stated("servers started cold", yes_or_no(ensemble.starts_cold)),
        Fact::stated("host", host.hostname.as_str()),
        Fact::stated("operating system", format!("{}, kernel {}", host.os, host.kernel)),
        Fact::stated("scenario", run.scenario.as_str()),
        Fact::stated("overrides", run.overrides.join(", ")),
        Fact::stated("generator threads", run.generator_threads.to_string()),
        Fact::stated("seed", run.seed.to_string()),
        Fact::stated(
            "version of the program",
            format!("{} {}", run.tool_version, run.tool_commit.as_deref().unwrap_or("of no commit")),
        ),
    ];
    // A run that did not note what it replayed may have replayed the same.
    facts
        .extend(run.replayed.as_ref().map(|file| Fact::needed("replayed arrivals (SHA-256)", &*file.sha256)));
    // The text says more than a line can; what it means for each trial is compared cell by cell.
    let configured = ensemble.config.iter();
    facts.extend(
        configured.map(|(key, value)| Fact::stated(format!("server configuration, {key}"), value.as_str())),
    );
    facts
}

/// Where data lies, without the path: `ext4 on /dev/sda1: every write waits for an fsync`.
fn without_path(placement: &str) -> String {
    match (placement.split_once(" ("), placement.rsplit_once("): ")) {
        (Some((kind, _)), Some((_, meaning))) => format!("{kind}: {meaning}"),
        _ => placement.to_owned(),
    }
}

/// Of what a trial was asked, in the names of its file: what says which trial it is.
const IDENTITY: [&str; 7] =
    ["index", "repetition", "seed", "label", "contenders", "settling", "makes_up_for"];
/// What asks something else of the lock, so that figures cannot be compared. A longer hold or a fault asks the same under worse
/// conditions: what that costs is a result, and the output names it as a difference.
const QUESTION: [&str; 5] = ["locks", "read_ratio", "depth", "load", "acquire_timeout_us"];

/// What the trials of the cells on both sides were asked to do, where that differs.
fn of_cells(base: &Side, new: &Side) -> Vec<Difference> {
    let (base, new) = (asked(base), asked(new));
    let both = base.into_iter().filter_map(|(key, was)| Some((was, new.get(&key)?)));
    let mut found: Vec<Difference> = Vec::new();
    for (was, is) in both {
        let facts = |specs: &[Value]| specs.iter().flat_map(of_spec).collect::<Vec<_>>();
        for difference in apart(facts(&was), facts(is)) {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
    }
    found
}

fn asked(side: &Side) -> BTreeMap<CellUnderLoad, Vec<Value>> {
    let mut asked: BTreeMap<CellUnderLoad, Vec<Value>> = BTreeMap::new();
    for trial in side.trials() {
        let Ok(spec) = serde_json::to_value(&trial.spec) else { continue };
        asked.entry(CellUnderLoad::of(trial)).or_default().push(spec);
    }
    asked
}

fn of_spec(spec: &Value) -> Vec<Fact> {
    let fields = spec.as_object().into_iter().flatten();
    let telling = fields.filter(|(name, _)| !IDENTITY.contains(&name.as_str()));
    telling
        .map(|(name, value)| {
            let fact = Fact::stated(name.strip_suffix("_us").unwrap_or(name), readable(name, value));
            Fact { must_agree: QUESTION.contains(&name.as_str()), ..fact }
        })
        .collect()
}

/// A value as people write it: `10 ms` for `{"fixed_us":10000}`. What is more than one number stays JSON.
fn readable(name: &str, value: &Value) -> String {
    let inner = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.iter().next());
    match (inner, value.as_u64()) {
        (Some((key, inner)), _) if key == "fixed_us" => readable(key, inner),
        (None, Some(us)) if name.ends_with("_us") => format_micros(us),
        _ => value.to_string(),
    }
}

/// Floors are measured, so they never agree; by so much they may differ without being mentioned.
const FLOORS_APART: f64 = 1.1;

fn floors(base: &Side, new: &Side) -> Option<Difference> {
    let of = |side: &Side| -> Vec<f64> {
        let handoff = |run: &Loaded| run.stored.run.floor.as_ref().and_then(|floor: &Floor| floor.handoff);
        side.runs.iter().filter_map(handoff).map(|timing: Timing| timing.p50_us as f64).collect()
    };
    let (was, is) = (crate::answer::stats::median(&of(base))?, crate::answer::stats::median(&of(new))?);
    let apart = (was / is).max(is / was) > FLOORS_APART;
    apart.then(|| Difference {
        what: "floor of a handoff (median)".into(),
        base: format_micros(was.round() as u64),
        new: format_micros(is.round() as u64),
        meaningless: false,
    })
}

/// The trials of a side that do not count, each with its reason.
pub(super) fn unsound(side: &Side) -> Vec<String> {
    let of_run = |run: &Loaded| {
        let path = run.path.display().to_string();
        let told = |trial: &Trial| {
            let why = super::cell::unsound_because(trial)?;
            Some(shown(&format!("{path}: {}: {why}", trial.name()), 500))
        };
        let mut told: Vec<String> = run.stored.trials.iter().filter_map(told).collect();
        let (ran, planned) = (run.stored.trials.len(), run.stored.run.planned_trials);
        if ran < planned {
            told.push(format!("{path}: {ran} of {} ran", counted(planned, "trial", "trials")));
        }
        told
    };
    side.runs.iter().flat_map(of_run).collect()
}
