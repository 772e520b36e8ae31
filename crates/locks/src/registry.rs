//! Registry of all strategies. `docs/reference/locks.md` is generated from their cards.
//!
//! Drivers register their locks at run time. `a+b` is a mix: each contender uses one of these locks.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use super::driven::{self, DrivenLock, Program};
use super::{Entry, articles, clients, curator, explored, kazoo, ours};
use zklockbench_core::catalog::after::Event;
use zklockbench_core::catalog::{LockCard, MIXED_WITH, Params, Protection, members};
use zklockbench_core::locked::locked;
use zklockbench_core::units::capitalised;

/// All strategies, in display order.
pub const STRATEGIES: &[Entry] = &[
    articles::ephemeral_node::ENTRY,
    articles::ephemeral_child::ENTRY,
    articles::polling::ENTRY,
    articles::parent_watch::ENTRY,
    articles::predecessor_watch::ENTRY,
    articles::predecessor_watch_wait_limited::ENTRY,
    clients::go_zookeeper::ENTRY,
    clients::apache_write_lock::ENTRY,
    curator::mutex::ENTRY,
    curator::semaphore_mutex::ENTRY,
    curator::semaphore::ENTRY,
    curator::read_write::ENTRY,
    curator::multi::ENTRY,
    articles::shared_parent_watch::ENTRY,
    articles::shared_predecessor_watch::ENTRY,
    articles::local_then_remote::ENTRY,
    ours::cohort::ENTRY,
    kazoo::lock::ENTRY,
    kazoo::read_write::ENTRY,
    clients::crate_lock::ENTRY,
    ours::ahead::ENTRY,
    ours::baton::ENTRY,
    ours::count::ENTRY,
    ours::count_semaphore::ENTRY,
    ours::ticket::ENTRY,
    ours::atomic_multi::ENTRY,
    ours::no_lock::ENTRY,
];

/// Locks of drivers.
#[derive(Debug, Clone, Default)]
pub struct DrivenLocks(Vec<(Entry, DrivenLock)>);

static DRIVEN: OnceLock<DrivenLocks> = OnceLock::new();
static NONE: DrivenLocks = DrivenLocks(Vec::new());

impl DrivenLocks {
    pub fn of(programs: Vec<Program>) -> Result<Self, String> {
        let mut all = Vec::new();
        for program in programs {
            all.extend(driven::locks_of(program)?);
        }
        Ok(Self(all))
    }

    /// Returns the driver locks registered in this process.
    pub fn registered() -> &'static Self {
        DRIVEN.get().unwrap_or(&NONE)
    }

    /// Adds the locks of `others`, except locks of drivers whose name is already present.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        let is_here = |driver: &str| self.0.iter().any(|(_, lock)| lock.program.command.name == driver);
        let more: Vec<_> =
            others.0.iter().filter(|(_, lock)| !is_here(&lock.program.command.name)).copied().collect();
        Self(self.0.into_iter().chain(more).collect())
    }

    /// Returns the cards of the suite's own strategies, followed by the cards of these locks.
    pub fn cards(&self) -> Vec<LockCard> {
        STRATEGIES.iter().chain(self.0.iter().map(|(entry, _)| entry)).map(|entry| entry.card).collect()
    }

    pub fn find(&self, name: &str) -> Option<&DrivenLock> {
        self.find_with_entry(name).map(|(_, lock)| lock)
    }

    pub fn find_with_entry(&self, name: &str) -> Option<&(Entry, DrivenLock)> {
        self.0.iter().find(|(entry, _)| entry.card.name == name)
    }
}

/// Registers the locks of these drivers as strategies. Fails if called twice.
pub fn register(programs: Vec<Program>) -> Result<(), String> {
    DRIVEN.set(DrivenLocks::of(programs)?).map_err(|_| "the drivers are already registered".to_owned())
}

/// Returns the cards of all strategies; driver locks come last.
pub fn cards() -> Vec<LockCard> {
    DrivenLocks::registered().cards()
}

/// Finds the strategy with this name, or a mix of several names joined by `+`.
pub fn find(name: &str) -> Option<&'static Entry> {
    if name.contains(MIXED_WITH) { mixed(name) } else { find_one(name) }
}

fn find_one(name: &str) -> Option<&'static Entry> {
    let mut all = STRATEGIES.iter().chain(DrivenLocks::registered().0.iter().map(|(entry, _)| entry));
    all.find(|entry| entry.card.is_called(name))
}

/// Replaces article aliases in a strategy's label with the suite's own names.
pub fn own_label(label: &str) -> String {
    zklockbench_core::catalog::own_label(label, &cards())
}

/// Returns the strategy and parameters of one contender: the entry itself, or a member of a mix.
pub fn member_of(entry: &Entry, params: &Params, contender: usize) -> (Entry, Params) {
    let names: Vec<&str> = members(entry.card.name).collect();
    let name = names[contender % names.len()];
    match find_one(name) {
        Some(member) if names.len() > 1 => (*member, params_of(name, params)),
        _ => (*entry, params.clone()),
    }
}

pub fn driven(name: &str) -> Option<&'static DrivenLock> {
    DrivenLocks::registered().find(name)
}

pub fn reference() -> String {
    let mut text = String::from(
        "# Locks\n\n\
         Generated from the code by `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`; do not edit. It lists all \
         locks;\n`zklockbench strategies NAME` prints the same for one lock.\n\n\
         | strategy | how | exclusive | read side | order of arrival | reentrant | protected | waits by |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    text.extend(STRATEGIES.iter().map(|entry| row(&entry.card)));
    text += &events();
    text.extend(STRATEGIES.iter().map(|entry| section(&entry.card)));
    text
}

fn events() -> String {
    let rows = Event::ALL.iter().map(|event| format!("| {} | {} |\n", event.name(), event.meaning()));
    format!(
        "\nThe table under each card lists what the lock does after each event that can affect it, and the error if an \
         acquire\nfails. `tests/locks/matrix/cards.rs` triggers each event on a real server and checks the outcome. A contender whose \
         acquire or release\nfails on a lost connection ends its session.\n\n\
         | event | what happens |\n|---|---|\n{}",
        rows.collect::<String>()
    )
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
        if given.watches { "watches" } else { "polling" },
    )
}

fn section(card: &LockCard) -> String {
    let mut text = format!(
        "\n## {}\n\n{}.{}\n\nSource: {}.\n\n```text\n{}\n```\n",
        card.name,
        capitalised(card.summary),
        card.also_called(),
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
    for after in card.after {
        let with = after.with.map(|with| format!(" with `{with}`")).unwrap_or_default();
        text += &format!("\n| after{with} | outcome |\n|---|---|\n");
        text.extend(after.rows(&card.after[0]).iter().map(|row| format!("| {} | {} |\n", row.after, row.it)));
    }
    text + &explored::table(card.name)
}

/// Mixes built so far, by name.
static MIXED: Mutex<BTreeMap<String, &'static Entry>> = Mutex::new(BTreeMap::new());

fn mixed(name: &str) -> Option<&'static Entry> {
    let mut all = locked(&MIXED);
    if let Some(entry) = all.get(name) {
        return Some(entry);
    }
    let entries: Vec<&Entry> = members(name).map(find_one).collect::<Option<_>>()?;
    let cards: Vec<&LockCard> = entries.iter().map(|entry| &entry.card).collect();
    let card = *LockCard::mixed(&cards).ok()?;
    // `build` is never called, because each contender builds the lock of its own member (`member_of`).
    let entry: &'static Entry = Box::leak(Box::new(Entry { card, build: entries.first()?.build }));
    all.insert(name.to_owned(), entry);
    Some(entry)
}

fn params_of(member: &str, params: &Params) -> Params {
    let own = params.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix(member)?.strip_prefix('.')?;
        Some((key.to_owned(), value.clone()))
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::after::Outcome;
    use zklockbench_core::catalog::{Holders, Param, ParamValue};

    #[test]
    fn locks_are_found_by_alias_and_reported_under_their_own_names() {
        let names: Vec<_> = STRATEGIES.iter().flat_map(|entry| entry.card.names()).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert_eq!(find("child-watch").unwrap().card.name, "predecessor-watch");
        assert_eq!(find("baton+parent-node-watch").unwrap().card.name, "baton+parent-watch");
        assert_eq!(own_label("child-watch watch=exists"), "predecessor-watch watch=exists");
        assert_eq!(own_label("baton+child-watch"), "baton+predecessor-watch");
        assert_eq!(own_label("my:child-watch wait=1s"), "my:child-watch wait=1s");
    }

    #[test]
    fn locks_recover_from_a_lost_create_if_and_only_if_protected() {
        for LockCard { name, guarantees, after, .. } in STRATEGIES.iter().map(|entry| entry.card) {
            let outcome = after.first().map(|after| after.outcome(Event::CreateReplyLost));
            assert_eq!(outcome == Some(Outcome::GoesOn), guarantees.protection != Protection::None, "{name}");
        }
    }

    #[test]
    fn cards_list_default_outcomes_before_parameter_specific_outcomes() {
        for LockCard { name, params, after, .. } in STRATEGIES.iter().map(|entry| entry.card) {
            let Some((by_default, others)) = after.split_first() else { continue };
            assert_eq!(by_default.with, None, "{name}");
            for other in others {
                let set = other.with.unwrap();
                let takes = |param: &Param| param.name == set.param && param.kind.words().contains(&set.word);
                assert!(params.iter().any(takes) && !other.rows(by_default).is_empty(), "{name}: {set}");
            }
        }
    }

    #[test]
    fn contenders_of_a_mix_alternate_between_its_locks() {
        let entry = find("baton+curator-mutex").unwrap();
        assert!(entry.card.guarantees.fifo && entry.card.batch_cost.is_none());
        assert!(entry.card.params.iter().any(|param| param.name == "curator-mutex.retry_times"));
        let params = Params::from([("curator-mutex.retry_times".into(), ParamValue::Count(7))]);
        let used = |contender| {
            let (entry, params) = member_of(entry, &params, contender);
            (entry.card.name, params)
        };
        assert_eq!(used(0), ("baton", Params::new()));
        assert_eq!(used(1), ("curator-mutex", Params::from([("retry_times".into(), ParamValue::Count(7))])));
        assert_eq!(used(2).0, "baton");
        let semaphores = find("curator-semaphore+count-semaphore").unwrap();
        assert_eq!(semaphores.card.guarantees.holders, Holders::Leases("curator-semaphore.leases"));
        let alone = find("baton").unwrap();
        assert_eq!(member_of(alone, &Params::new(), 5).0.card.name, "baton");
    }

    #[test]
    fn locks_with_different_kinds_of_holders_are_not_mixed() {
        assert!(find("baton+curator-semaphore").is_none() && find("baton+none-such").is_none());
    }
}
