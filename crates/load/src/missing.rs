//! Facts about acquisitions that only the servers' logs contain: the zxid of a create whose reply did not include it,
//! and the zxid of a change whose notification did not include it.

use std::io;

use serde::{Deserialize, Serialize};

use zklockbench_core::clock::Stamp;
use zklockbench_core::spool::{Sorted, Sorter};
use zklockbench_ensemble::transactions::{Happened, number_of};
use zklockbench_locks::QueueNode;
use zklockbench_record::EnteredAsOf;
use zklockbench_zk::{EventKind, Session};

/// Changes in the logs, sorted by path and transaction.
pub type Changes = Sorted<LoggedChange, (u64, i64)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedChange {
    pub path: u64,
    pub zxid: i64,
    pub happened: Happened,
}

impl LoggedChange {
    pub fn order(&self) -> (u64, i64) {
        (self.path, self.zxid)
    }
}

/// A question about one path. Questions are sorted by path and `after`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathQuestion {
    /// Number of the path, from [`number_of`].
    path: u64,
    /// Transaction after which the change must be found; `i64::MAX` to find the path's only create.
    after: i64,
    /// Kind of change to find (the first one after `after`), and the zxid that the session had already seen, which is
    /// the lowest possible answer. `None` to find the path's only create.
    first: Option<(Happened, i64)>,
    entered: Stamp,
    contender: usize,
}

impl PathQuestion {
    /// Returns the questions about an acquisition with this node: the transactions of its create and of the
    /// event that admitted the contender, if unknown.
    pub fn of_entry(
        session: &Session,
        node: &QueueNode,
        entered: Stamp,
        contender: usize,
    ) -> impl Iterator<Item = Self> {
        let about =
            |path: &str, after, first| Self { path: number_of(path), after, first, entered, contender };
        let node = (node.czxid <= 0).then(|| about(&node.path, i64::MAX, None));
        let event = session.undated_event().and_then(|event| {
            let happened = match event.kind {
                EventKind::NodeDeleted => Happened::Deleted,
                EventKind::DataChanged => Happened::Written,
                // No lock needs the transactions of these events yet.
                EventKind::NodeCreated | EventKind::ChildrenChanged | EventKind::SessionOver => return None,
            };
            Some(about(&event.path, event.after, Some((happened, event.seen))))
        });
        node.into_iter().chain(event)
    }

    pub fn order(&self) -> (u64, i64) {
        (self.path, self.after)
    }

    fn answered(&self, zxid: i64) -> EnteredAsOf {
        (self.entered, self.contender, zxid)
    }
}

/// Answers questions from the changes in the servers' logs, as far as the logs contain the answers. Adds the
/// transactions of creates to `nodes`, and the transactions of events to `events`.
pub fn answer(
    questions: &Sorted<PathQuestion, (u64, i64)>,
    changes: &Changes,
    nodes: &mut Sorter<EnteredAsOf, (Stamp, usize)>,
    events: &mut Sorter<EnteredAsOf, (Stamp, usize)>,
) -> io::Result<()> {
    let mut changes = changes.iter()?.peekable();
    let mut of = OfPath::default();
    for question in questions.iter()? {
        let question = question?;
        if question.path != of.path {
            let is_before = |change: &io::Result<LoggedChange>| {
                change.as_ref().map_or(true, |change| change.path < question.path)
            };
            while let Some(change) = changes.next_if(is_before) {
                of.happens(&change?, events)?;
            }
            of = OfPath { path: question.path, ..OfPath::default() };
        }
        let is_known = |change: &io::Result<LoggedChange>| {
            change.as_ref().map_or(true, |change| change.order() <= question.order())
        };
        while let Some(change) = changes.next_if(is_known) {
            of.happens(&change?, events)?;
        }
        match (question.first, of.created) {
            (Some(_), _) => of.waiting.push(question),
            // If several nodes were created at the path, the right one is unknown.
            (None, Some(zxid)) if of.creates == 1 => nodes.push(question.answered(zxid))?,
            (None, _) => {}
        }
    }
    changes.try_for_each(|change| of.happens(&change?, events))
}

#[derive(Default)]
struct OfPath {
    path: u64,
    created: Option<i64>,
    creates: u64,
    waiting: Vec<PathQuestion>,
}

impl OfPath {
    fn happens(
        &mut self,
        change: &LoggedChange,
        events: &mut Sorter<EnteredAsOf, (Stamp, usize)>,
    ) -> io::Result<()> {
        if change.path != self.path {
            return Ok(());
        }
        if change.happened == Happened::Created {
            self.created.get_or_insert(change.zxid);
            self.creates += 1;
        }
        let is_it = |question: &mut PathQuestion| {
            question.first.is_some_and(|(happened, _)| happened == change.happened)
        };
        for question in self.waiting.extract_if(.., is_it) {
            let seen = question.first.map_or(0, |(_, seen)| seen);
            events.push(question.answered(change.zxid.max(seen)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::Facts;

    /// Returns the answers about acquisitions at 0, 1, ...: transactions of creates, and transactions of events.
    fn answers(asked: Vec<PathQuestion>) -> [Vec<EnteredAsOf>; 2] {
        let questions = (0..).zip(asked).map(|(entered, question)| PathQuestion { entered, ..question });
        let questions = Sorted::of(PathQuestion::order, questions.collect());
        let [mut nodes, mut events] = [(); 2].map(|()| Sorter::by(Facts::by_entry, &std::env::temp_dir()));
        answer(&questions, &logged_changes(), &mut nodes, &mut events).unwrap();
        [nodes, events].map(|found| found.finish().iter().unwrap().map(Result::unwrap).collect())
    }

    fn logged_changes() -> Changes {
        let change = |(path, zxid, happened)| LoggedChange { path: number_of(path), zxid, happened };
        let changes = [
            ("/l/own", 12, Happened::Created),
            ("/l/own", 30, Happened::Written),
            ("/l/own", 40, Happened::Written),
            ("/l/other", 3, Happened::Created),
            ("/l/other", 50, Happened::Deleted),
            ("/l/twice", 60, Happened::Created),
            ("/l/twice", 61, Happened::Deleted),
            ("/l/twice", 62, Happened::Created),
            ("/l/unasked", 63, Happened::Created),
        ];
        Sorted::of(LoggedChange::order, changes.map(change).into())
    }

    fn by_node(path: &str) -> PathQuestion {
        PathQuestion { path: number_of(path), after: i64::MAX, first: None, entered: 0, contender: 0 }
    }

    fn by_event(path: &str, happened: Happened, after: i64, seen: i64) -> PathQuestion {
        PathQuestion { after, first: Some((happened, seen)), ..by_node(path) }
    }

    #[test]
    fn create_zxid_missing_from_the_reply_is_found_by_path() {
        let [nodes, events] = answers(vec![by_node("/l/own"), by_node("/l/twice")]);
        assert_eq!((nodes, events), (vec![(0, 0, 12)], vec![]), "with two creates, the right one is unknown");
    }

    #[test]
    fn event_gets_the_zxid_of_the_first_matching_change_after_its_watch() {
        let asked = [
            by_event("/l/own", Happened::Written, 12, 12),
            by_event("/l/own", Happened::Written, 30, 30),
            by_event("/l/other", Happened::Deleted, 3, 3),
            // The session had already received a later transaction
            by_event("/l/other", Happened::Deleted, 3, 60),
            // No log contains this change
            by_event("/l/own", Happened::Deleted, 12, 12),
        ];
        let [nodes, events] = answers(asked.into());
        assert_eq!((nodes, events), (vec![], vec![(0, 0, 30), (1, 0, 40), (2, 0, 50), (3, 0, 60)]));
    }
}
