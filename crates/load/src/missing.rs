//! Data about entries that contenders could not know and the servers' logs supply: the transaction that
//! created a node if the create was answered without it, and the transaction of an event that came without
//! it.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use zklockbench_core::clock::Stamp;
use zklockbench_core::spool::{Sorted, Sorter};
use zklockbench_ensemble::transactions::{Happened, number_of};
use zklockbench_locks::QueueNode;
use zklockbench_record::{EnteredAsOf, Grant};
use zklockbench_zk::{EventKind, Session};

/// Unknown data of an entry. Paths are numbers from [`number_of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPart {
    /// Path of the node, if the transaction that created it was not reported.
    node: Option<u64>,
    /// Event that let the contender in, if it came without its transaction.
    event: Option<UndatedEvent>,
}

/// An event without its transaction; see [`zklockbench_zk::Undated`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UndatedEvent {
    path: u64,
    happened: Happened,
    after: i64,
    seen: i64,
}

pub type Incomplete = (Grant, MissingPart);

/// Changes in the logs, ordered by path and then by transaction.
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

impl MissingPart {
    /// Unknown data of an entry by that node; `None` if everything is known, or cannot be found out.
    pub fn of_entry(session: &Session, node: &QueueNode) -> Option<Self> {
        let event = session.undated_event().and_then(|event| {
            let happened = match event.kind {
                EventKind::NodeDeleted => Happened::Deleted,
                EventKind::DataChanged => Happened::Written,
                // Created nodes and changed directories have not been needed so far.
                EventKind::NodeCreated | EventKind::ChildrenChanged | EventKind::SessionOver => return None,
            };
            Some(UndatedEvent {
                path: number_of(&event.path),
                happened,
                after: event.after,
                seen: event.seen,
            })
        });
        let node = (node.czxid <= 0).then(|| number_of(&node.path));
        (node.is_some() || event.is_some()).then_some(Self { node, event })
    }
}

/// A question about the changes of one path, ordered after the last transaction that cannot be the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PathQuestion {
    path: u64,
    after: i64,
    /// First change of that kind after `after`, with a lower bound for the answer. `None` asks for the only
    /// create, when all transactions are known.
    first: Option<(Happened, i64)>,
    entered: Stamp,
    contender: usize,
}

impl PathQuestion {
    fn answered(&self, zxid: i64) -> EnteredAsOf {
        (self.entered, self.contender, zxid)
    }
}

fn by_entry((entered, contender, _): &EnteredAsOf) -> (Stamp, usize) {
    (*entered, *contender)
}

/// Completes entries with data from the servers' logs and adds them to the grants. Data missing from the logs
/// stay unknown. Returns the transactions of entries that only the logs have.
pub fn fill_in(
    incomplete: &Sorted<Incomplete, (Stamp, usize)>,
    changes: &Changes,
    grants: &mut Sorter<Grant, (usize, i64, Stamp)>,
    scratch: &Path,
) -> io::Result<Sorted<EnteredAsOf, (Stamp, usize)>> {
    let mut questions = Sorter::by(|question: &PathQuestion| (question.path, question.after), scratch);
    for entry in incomplete.iter()? {
        let (Grant { entered, contender, .. }, MissingPart { node, event }) = entry?;
        if let Some(path) = node {
            questions.push(PathQuestion { path, after: i64::MAX, first: None, entered, contender })?;
        }
        if let Some(UndatedEvent { path, happened, after, seen }) = event {
            questions.push(PathQuestion {
                path,
                after,
                first: Some((happened, seen)),
                entered,
                contender,
            })?;
        }
    }
    let (mut nodes, mut events) = (Sorter::by(by_entry, scratch), Sorter::by(by_entry, scratch));
    answer(&questions.finish(), changes, &mut nodes, &mut events)?;
    let (nodes, events) = (nodes.finish(), events.finish());
    let (mut created, mut entered_as_of) = (nodes.iter()?.peekable(), events.iter()?.peekable());
    for entry in incomplete.iter()? {
        let (mut grant, missing) = entry?;
        let of_entry = |answer: &io::Result<EnteredAsOf>| {
            answer.as_ref().map_or(true, |answer| by_entry(answer) == (grant.entered, grant.contender))
        };
        let czxid = created.next_if(of_entry).transpose()?;
        let zxid = entered_as_of.next_if(of_entry).transpose()?;
        grant.czxid = czxid.map_or(grant.czxid, |(.., czxid)| czxid);
        if missing.event.is_some() {
            grant.zxid = zxid.map(|(.., zxid)| zxid);
        }
        grants.push(grant)?;
    }
    drop((created, entered_as_of));
    Ok(events)
}

fn answer(
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
            change.as_ref().map_or(true, |change| change.order() <= (question.path, question.after))
        };
        while let Some(change) = changes.next_if(is_known) {
            of.happens(&change?, events)?;
        }
        match (question.first, of.created) {
            (Some(_), _) => of.waiting.push(question),
            // If several nodes were created in succession, it is unknown which was meant.
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
    use zklockbench_record::LockClaim;

    fn grant(entered: Stamp, czxid: i64) -> Grant {
        let claim = LockClaim::WRITE;
        Grant { lock: 0, contender: 0, claim, czxid, zxid: None, called: 0, entered, left: None }
    }

    /// The completed entries, and their transactions.
    fn filled_in(entries: Vec<Incomplete>) -> (Vec<Grant>, Vec<EnteredAsOf>) {
        let directory = std::env::temp_dir();
        let mut grants = Sorter::by(Grant::by_node, &directory);
        let incomplete = Sorted::of(|(grant, _): &Incomplete| (grant.entered, grant.contender), entries);
        let entered_as_of = fill_in(&incomplete, &logged_changes(), &mut grants, &directory).unwrap();
        let entered_as_of = entered_as_of.iter().unwrap().map(Result::unwrap).collect();
        let mut grants: Vec<Grant> = grants.finish().iter().unwrap().map(Result::unwrap).collect();
        grants.sort_by_key(|grant| grant.entered);
        (grants, entered_as_of)
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

    fn by_node(path: &str) -> MissingPart {
        MissingPart { node: Some(number_of(path)), event: None }
    }

    fn by_event(path: &str, happened: Happened, after: i64, seen: i64) -> MissingPart {
        MissingPart { node: None, event: Some(UndatedEvent { path: number_of(path), happened, after, seen }) }
    }

    #[test]
    fn czxid_of_an_unreported_create_is_found_by_path() {
        let entries = vec![(grant(5, 0), by_node("/l/own")), (grant(6, 0), by_node("/l/twice"))];
        let (grants, entered_as_of) = filled_in(entries);
        let czxids: Vec<i64> = grants.iter().map(|grant| grant.czxid).collect();
        assert_eq!((czxids, entered_as_of), (vec![12, 0], vec![]), "nobody can say which of two was meant");
    }

    #[test]
    fn event_is_dated_by_the_first_such_change_after_its_watch() {
        let asked = [
            by_event("/l/own", Happened::Written, 12, 12),
            by_event("/l/own", Happened::Written, 30, 30),
            by_event("/l/other", Happened::Deleted, 3, 3),
            // The session had seen a later transaction by then
            by_event("/l/other", Happened::Deleted, 3, 60),
            // No log has that change
            by_event("/l/own", Happened::Deleted, 12, 12),
        ];
        let answers = [Some(30), Some(40), Some(50), Some(60), None];
        let (grants, entered_as_of) = filled_in((0..).map(|entered| grant(entered, 7)).zip(asked).collect());
        assert_eq!(grants.iter().map(|grant| grant.zxid).collect::<Vec<_>>(), answers);
        assert_eq!(
            entered_as_of,
            [(0, 0, 30), (1, 0, 40), (2, 0, 50), (3, 0, 60)],
            "a history says the same"
        );
    }
}
