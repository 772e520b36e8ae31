//! Every lock, with each of its ways to join a queue, and the outcomes on its card.

use std::time::Duration;

use zklockbench_core::catalog::after::{After, Set};
use zklockbench_core::catalog::{ParamKind, ParamValue, Params};
use zklockbench_locks::{Entry, STRATEGIES};

/// Interval at which the articles' classes poll their flag.
const FLAG: Duration = Duration::from_millis(300);
/// The parameter that makes a lock join by count.
const BY_COUNT: Set = Set { param: "join", word: "count" };

/// A lock with its defaults or with one parameter set.
#[derive(Clone, Copy)]
pub struct Way {
    pub entry: &'static Entry,
    pub after: &'static After,
    set: Option<Set>,
}

/// Each lock with its defaults, with each parameter for which the card lists different outcomes, and with joins by
/// count if possible. Omits locks without outcomes on their card.
pub fn all() -> impl Iterator<Item = Way> {
    STRATEGIES.iter().flat_map(|entry| {
        let said = entry.card.after;
        let joins =
            entry.card.params.iter().any(|param| param.name == BY_COUNT.param && param.default == "create");
        let is_said = said.iter().any(|after| after.with == Some(BY_COUNT));
        let by_count = said.first().filter(|_| joins && !is_said);
        let by_count = by_count.map(|after| Way { entry, after, set: Some(BY_COUNT) });
        said.iter().map(move |after| Way { entry, after, set: after.with }).chain(by_count)
    })
}

impl Way {
    pub fn name(&self) -> &'static str {
        self.entry.card.name
    }

    pub fn label(&self) -> String {
        let set = self.set.map(|set| format!(" with {set}")).unwrap_or_default();
        format!("{}{set}", self.name())
    }

    /// Returns whether the lock has its defaults, except that it may join by count.
    pub fn is_recipe(&self) -> bool {
        self.set.is_none_or(|set| set == BY_COUNT)
    }

    /// Parameters for tests: short intervals, and one contender per process to make every contender queue on the
    /// server.
    pub fn params(&self, poll: Duration) -> Params {
        let values = self.entry.card.params.iter().filter_map(|param| {
            let value = match (param.name, param.kind) {
                ("poll_interval", _) => ParamValue::Duration(poll),
                ("flag_interval", _) => ParamValue::Duration(FLAG),
                ("tasks_per_process" | "contenders_per_process", ParamKind::Count(..)) => {
                    ParamValue::Count(1)
                }
                _ => return None,
            };
            Some((param.name.to_owned(), value))
        });
        let set = self.set.map(|set| (set.param.to_owned(), ParamValue::Word(set.word.to_owned())));
        values.chain(set).collect()
    }
}
