//! Results of `explore --all`, stored by `scripts/conformance --explore`: the table in
//! `docs/reference/conformance.md`, and the broken promises listed on the locks' cards.

use std::collections::BTreeMap;

use serde::Deserialize;
use zklockbench_explore::class_names;

use super::{assert_fresh, file, with_part};

const RUN: &str = "results/validation/explored.json";
const PAGE: &str = "docs/reference/conformance.md";

#[derive(Deserialize)]
struct Run {
    zookeeper: String,
    servers: u64,
    budget: String,
    locks: Vec<Explored>,
}

#[derive(Deserialize)]
struct Explored {
    lock: String,
    classes: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Broken promises: the key of each count, and the promise's name.
const BROKEN: [(&str, &str); 5] = [
    ("violated", "violated"),
    ("stuck", "stuck"),
    ("refused", "refused"),
    ("out_of_order", "out of order"),
    ("node_left", "node left"),
];

fn run() -> Run {
    serde_json::from_str(&std::fs::read_to_string(file(RUN)).unwrap()).unwrap()
}

/// A label's name, without its parameters.
fn name(label: &str) -> &str {
    label.split(' ').next().unwrap_or(label)
}

impl Explored {
    fn count(&self, class: &str, what: &str) -> u64 {
        self.classes.get(class).and_then(|tally| tally.get(what)).copied().unwrap_or(0)
    }

    fn broken(&self, class: &str) -> Vec<&'static str> {
        BROKEN.iter().filter(|(key, _)| self.count(class, key) > 0).map(|(_, name)| *name).collect()
    }

    fn cell(&self, class: &str) -> String {
        let broken = self.broken(class);
        let left = self.count(class, "unexplored") + self.count(class, "flaky");
        match (broken.is_empty(), self.count(class, "held"), left) {
            (false, ..) => broken.join(", "),
            (true, 0, 0) => "-".to_owned(),
            (true, 0, _) => "not explored".to_owned(),
            (true, _, 0) => "held".to_owned(),
            (true, _, left) => format!("held, {left} not explored"),
        }
    }
}

fn table(run: &Run) -> String {
    let classes: Vec<&str> = class_names()
        .into_iter()
        .filter(|class| run.locks.iter().any(|one| one.cell(class) != "-"))
        .collect();
    let mut text = format!("| lock | {} |\n|{}\n", classes.join(" | "), "---|".repeat(classes.len() + 1));
    for one in &run.locks {
        let cells: Vec<String> = classes.iter().map(|class| one.cell(class)).collect();
        text += &format!("| {} | {} |\n", one.lock, cells.join(" | "));
    }
    text
}

#[test]
fn conformance_page_shows_the_stored_exploration() {
    let run = run();
    let part = format!(
        "`zklockbench explore --all` with {} servers of ZooKeeper {} and a budget of {}. `scripts/conformance --explore` \
         repeats it.\nA cell lists each broken promise, or the number of schedules that were not explored; `-`: no \
         schedule of that class.\n\n{}",
        run.servers,
        run.zookeeper,
        run.budget,
        table(&run)
    );
    assert_fresh(PAGE, &with_part(PAGE, "explored", &part));
}

#[test]
fn each_card_lists_the_promises_broken_in_the_stored_exploration() {
    let run = run();
    let found: Vec<(String, &str, Vec<&str>)> = run
        .locks
        .iter()
        .flat_map(|one| {
            class_names().into_iter().map(move |class| (name(&one.lock).to_owned(), class, one.broken(class)))
        })
        .filter(|(.., broken)| !broken.is_empty())
        .collect();
    let named: Vec<(String, &str, Vec<&str>)> = run
        .locks
        .iter()
        .flat_map(|one| zklockbench_locks::broken_promises(name(&one.lock)))
        .map(|broken| (broken.lock.to_owned(), broken.after, broken.promises.to_vec()))
        .collect();
    assert_eq!(found, named, "left: the stored exploration; right: crates/locks/src/explored.rs");
}

#[test]
fn every_exclusive_lock_is_in_the_stored_exploration() {
    let run = run();
    let explored: Vec<&str> = run.locks.iter().map(|one| name(&one.lock)).collect();
    let exclusive: Vec<&str> = zklockbench_locks::STRATEGIES
        .iter()
        .map(|entry| entry.card)
        .filter(|card| card.guarantees.exclusive)
        .map(|card| card.name)
        .collect();
    assert_eq!(explored, exclusive);
}
