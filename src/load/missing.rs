//! What contenders could not know of their own entries and the servers' logs tell: which transaction created a node whose
//! create was answered without it, and which one an event was about that came without it.

use std::collections::BTreeSet;

use crate::ensemble::transactions::{Happened, Told};
use crate::lock::QueueNode;
use crate::record::{Deed, Grant, Moment};
use crate::zk::{EventKind, Session};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The place of its grant in the log.
    grant: usize,
    /// The place of its moment, where a history is kept.
    moment: Option<usize>,
    /// The path of its node, where the transaction that created it was not told.
    node: Option<String>,
    /// The event by which it was let in, where that came without its transaction.
    event: Option<Event>,
}

/// An event without its transaction, as [`crate::zk::Undated`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    path: String,
    happened: Happened,
    after: i64,
    seen: i64,
}

impl Missing {
    /// Of somebody who has just entered by that node; `None` where all is known, or cannot be found out.
    pub fn of_entry(
        session: &Session,
        node: &QueueNode,
        grant: usize,
        moment: Option<usize>,
    ) -> Option<Self> {
        let event = session.undated_event().and_then(|event| {
            let happened = match event.kind {
                EventKind::NodeDeleted => Happened::Deleted,
                EventKind::DataChanged => Happened::Written,
                // Of changes of a directory and of nodes that appear nothing was asked for so far.
                EventKind::NodeCreated | EventKind::ChildrenChanged | EventKind::SessionOver => return None,
            };
            Some(Event { path: event.path.to_string(), happened, after: event.after, seen: event.seen })
        });
        let node = (node.czxid <= 0).then(|| node.path.clone());
        (node.is_some() || event.is_some()).then_some(Self { grant, moment, node, event })
    }

    /// The same, in a log that has so many grants and moments before it.
    pub fn behind(self, (grants, moments): (usize, usize)) -> Self {
        let moment = self.moment.map(|moment| moment + moments);
        Self { grant: self.grant + grants, moment, ..self }
    }
}

/// The paths of all nodes that something is to be told of.
pub fn asked_for(missing: &[Missing]) -> BTreeSet<String> {
    let paths = |missing: &Missing| {
        let event = missing.event.as_ref().map(|event| event.path.clone());
        [missing.node.clone(), event].into_iter().flatten()
    };
    missing.iter().flat_map(paths).collect()
}

/// Adds what the servers' logs tell to the grants, and to the moments of a history. What they do not tell either stays
/// unknown.
pub fn fill_in(missing: &[Missing], grants: &mut [Grant], history: &mut [Moment], told: &Told) {
    for missing in missing {
        let Some(grant) = grants.get_mut(missing.grant) else { continue };
        if let Some(path) = &missing.node {
            grant.czxid = told.created(path).unwrap_or(grant.czxid);
        }
        let Some(event) = &missing.event else { continue };
        grant.zxid =
            told.first_after(event.after, &event.path, event.happened).map(|zxid| zxid.max(event.seen));
        let moment = missing.moment.and_then(|moment| history.get_mut(moment));
        if let Some(Deed::Enters { zxid, .. }) = moment.map(|moment| &mut moment.deed) {
            *zxid = grant.zxid;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::Claim;

    /// Two grants, of which the second came without its node's number, and the moment of the first.
    fn filled_in(missing: Missing) -> (Vec<Grant>, Moment) {
        let claim = Claim::WRITE;
        let grant = |czxid| Grant {
            lock: 0,
            contender: 0,
            claim,
            czxid,
            zxid: None,
            called: 0,
            entered: 9,
            left: None,
        };
        let deed = Deed::Enters { claim, token: None, zxid: None };
        let mut moments = [Moment { at: 9, contender: 0, lock: 0, session: None, deed }];
        let mut grants = vec![grant(7), grant(0)];
        fill_in(&[missing], &mut grants, &mut moments, &told());
        let [moment] = moments;
        (grants, moment)
    }

    fn told() -> Told {
        let of_own = vec![(12, Happened::Created), (30, Happened::Written), (40, Happened::Written)];
        let of_other = vec![(3, Happened::Created), (50, Happened::Deleted)];
        Told {
            named: BTreeMap::from([("/l/own".to_owned(), of_own), ("/l/other".to_owned(), of_other)]),
            ..Told::default()
        }
    }

    fn event(path: &str, happened: Happened, after: i64, seen: i64) -> Option<Event> {
        Some(Event { path: path.to_owned(), happened, after, seen })
    }

    #[test]
    fn a_node_whose_create_did_not_tell_its_transaction_is_found_by_its_path() {
        let missing = Missing { grant: 1, moment: None, node: Some("/l/own".to_owned()), event: None };
        assert_eq!(asked_for(std::slice::from_ref(&missing)), BTreeSet::from(["/l/own".to_owned()]));
        let (grants, _) = filled_in(missing);
        assert_eq!((grants[0].czxid, grants[1].czxid, grants[1].zxid), (7, 12, None));
    }

    #[test]
    fn an_event_was_about_the_first_such_change_after_its_watch_was_set() {
        let entered = |event| {
            let (grants, moment) = filled_in(Missing { grant: 0, moment: Some(0), node: None, event });
            let Deed::Enters { zxid, .. } = moment.deed else { panic!("it enters") };
            assert_eq!(zxid, grants[0].zxid, "a history says the same");
            zxid
        };
        assert_eq!(entered(event("/l/own", Happened::Written, 12, 12)), Some(30));
        assert_eq!(entered(event("/l/own", Happened::Written, 30, 30)), Some(40));
        assert_eq!(entered(event("/l/other", Happened::Deleted, 3, 3)), Some(50));
        assert_eq!(
            entered(event("/l/other", Happened::Deleted, 3, 60)),
            Some(60),
            "it had seen more by then"
        );
        assert_eq!(entered(event("/l/own", Happened::Deleted, 12, 12)), None, "no log tells of that");
    }

    #[test]
    fn logs_that_are_put_together_keep_what_is_missing_at_its_place() {
        let missing = Missing { grant: 1, moment: Some(0), node: None, event: None };
        let behind = missing.behind((5, 3));
        assert_eq!((behind.grant, behind.moment), (6, Some(3)));
    }
}
