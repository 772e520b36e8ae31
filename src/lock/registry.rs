//! The list of strategies, one line each, and `docs/locks.md`, made from their descriptions.

use std::sync::OnceLock;

use super::driven::{self, DrivenLock, Program};
use super::{
    Entry, ahead, apache_write_lock, atomic_multi, baton, crate_lock, curator_multi, curator_mutex,
    curator_read_write, curator_semaphore, curator_semaphore_mutex, ephemeral_child, ephemeral_node,
    go_zookeeper, kazoo, kazoo_read_write, local_then_remote, no_lock, parent_watch, polling,
    predecessor_watch, predecessor_watch_wait_limited, shared_parent_watch, shared_predecessor_watch, ticket,
};
use crate::words::catalog::{LockCard, Protection};
use crate::words::units::capitalised;

/// Every strategy, in the order in which lists show them.
pub const STRATEGIES: &[Entry] = &[
    ephemeral_node::ENTRY,
    ephemeral_child::ENTRY,
    polling::ENTRY,
    parent_watch::ENTRY,
    predecessor_watch::ENTRY,
    predecessor_watch_wait_limited::ENTRY,
    go_zookeeper::ENTRY,
    apache_write_lock::ENTRY,
    curator_mutex::ENTRY,
    curator_semaphore_mutex::ENTRY,
    curator_semaphore::ENTRY,
    curator_read_write::ENTRY,
    curator_multi::ENTRY,
    shared_parent_watch::ENTRY,
    shared_predecessor_watch::ENTRY,
    local_then_remote::ENTRY,
    kazoo::ENTRY,
    kazoo_read_write::ENTRY,
    crate_lock::ENTRY,
    ahead::ENTRY,
    baton::ENTRY,
    ticket::ENTRY,
    atomic_multi::ENTRY,
    no_lock::ENTRY,
];

/// Locks of drivers, which are known from the program's start on.
static DRIVEN: OnceLock<Vec<(Entry, DrivenLock)>> = OnceLock::new();

/// From now on the locks of these drivers are strategies, too. Once in a process.
///
/// # Errors
/// What can't be a strategy.
pub fn register(programs: Vec<Program>) -> Result<(), String> {
    let mut all = Vec::new();
    for program in programs {
        all.extend(driven::locks_of(program)?);
    }
    DRIVEN.set(all).map_err(|_| "the drivers have been named before".to_owned())
}

fn of_drivers() -> &'static [(Entry, DrivenLock)] {
    DRIVEN.get().map_or(&[], Vec::as_slice)
}

/// Every strategy's card, those of drivers last.
pub fn cards() -> Vec<LockCard> {
    STRATEGIES.iter().chain(of_drivers().iter().map(|(entry, _)| entry)).map(|entry| entry.card).collect()
}

pub fn find(name: &str) -> Option<&'static Entry> {
    let mut all = STRATEGIES.iter().chain(of_drivers().iter().map(|(entry, _)| entry));
    all.find(|entry| entry.card.name == name)
}

/// The driver's lock of that name, if it is one.
pub fn driven(name: &str) -> Option<&'static DrivenLock> {
    of_drivers().iter().find(|(entry, _)| entry.card.name == name).map(|(_, lock)| lock)
}

pub fn reference() -> String {
    let mut text = String::from(
        "# Locks\n\n\
         Generated from the code; `zklockbench strategies NAME` prints the same.\n\n\
         | strategy | how | exclusive | read side | order of arrival | reentrant | protected | waits by |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    text.extend(STRATEGIES.iter().map(|entry| row(&entry.card)));
    text.extend(STRATEGIES.iter().map(|entry| section(&entry.card)));
    text
}

fn row(card: &LockCard) -> String {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let given = card.guarantees;
    format!(
        "| [`{0}`](#{0}) | {1} | {2} | {3} | {4} | {5} | {6} | {7} |\n",
        card.name,
        card.summary,
        yes(given.exclusive),
        yes(given.has_read_side()),
        yes(given.fifo),
        yes(given.reentrant),
        match given.protection {
            Protection::None => "no",
            Protection::Unsynced => "without sync",
            Protection::Complete => "yes",
        },
        if given.watches { "watches" } else { "looking again" },
    )
}

fn section(card: &LockCard) -> String {
    let mut text = format!(
        "\n## {}\n\n{}.\n\nSource: {}.\n\n```text\n{}\n```\n",
        card.name,
        capitalised(card.summary),
        card.source,
        card.described()
    );
    if !card.params.is_empty() {
        text += "\n| parameter | values | default | meaning |\n|---|---|---|---|\n";
    }
    for param in card.params {
        let meaning = format!("{}{}", param.doc, card.only_with(param));
        let values = param.kind.in_words("`");
        text += &format!("| `{}` | {values} | `{}` | {meaning} |\n", param.name, param.default);
    }
    text
}
