//! Creates, writes and deletes, read from the servers' transaction logs.
//!
//! The log contains the ensemble's own order of events, independent of what clients observe. Unlike
//! notifications, it also shows which nodes were deleted with their session.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher as _};

use zklockbench_core::txn;

pub use zklockbench_core::txn::Happened;

/// Session ID of the servers' own transactions, which remove empty containers and expired TTL nodes.
pub const SERVERS_OWN: i64 = 0;

/// One transaction, reduced to the fields that the suite uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Session that requested the transaction; [`SERVERS_OWN`] for the servers' own.
    pub session: i64,
    pub zxid: i64,
    /// Time of the proposal, in ms since 1970 by the leader's wall clock.
    pub at_ms: i64,
    pub changes: Vec<NodeChange>,
    /// Whether the transaction ended its session and thus deleted the session's ephemeral nodes, even those that
    /// `changes` omits.
    pub ends_session: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChange {
    pub path: String,
    pub happened: Happened,
    pub with_its_session: bool,
    /// Whether the transaction created an ephemeral node.
    pub ephemeral: bool,
}

/// Returns a hash that represents a path. Among 10⁸ paths, the probability of a collision is below 1/1000.
pub fn number_of(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(path.as_bytes());
    hasher.finish()
}

/// Lifetime of a node according to the ensemble's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeLife {
    pub created: i64,
    /// Zxid of the deletion; `None` while the node exists.
    pub deleted: Option<i64>,
    /// Time of the deletion's proposal, in ms since 1970 by the leader's wall clock.
    pub deleted_at_ms: Option<i64>,
    pub with_its_session: bool,
}

/// Nodes that exist after the transactions so far. Nodes created by the same transaction count as one node,
/// which ends when the first of them is deleted.
#[derive(Debug, Default)]
pub struct Living {
    created: HashMap<String, i64>,
    /// Ephemeral nodes of `created`, by session.
    ephemerals: HashMap<i64, BTreeSet<String>>,
    owners: HashMap<String, i64>,
    /// Transactions in `created` that created several nodes.
    several: HashSet<i64>,
}

impl Living {
    /// If the transaction ended a session, adds the deletions of its ephemeral nodes, which the log may omit.
    pub fn complete<'a>(&self, transaction: &'a Transaction) -> Cow<'a, Transaction> {
        let owned = self.ephemerals.get(&transaction.session).filter(|_| transaction.ends_session);
        let Some(owned) = owned else { return Cow::Borrowed(transaction) };
        let listed: HashSet<&str> = transaction.changes.iter().map(|change| change.path.as_str()).collect();
        let unlisted: Vec<NodeChange> = owned
            .iter()
            .filter(|path| !listed.contains(path.as_str()))
            .map(|path| NodeChange {
                path: path.clone(),
                happened: Happened::Deleted,
                with_its_session: true,
                ephemeral: false,
            })
            .collect();
        if unlisted.is_empty() {
            return Cow::Borrowed(transaction);
        }
        let changes = [transaction.changes.clone(), unlisted].concat();
        Cow::Owned(Transaction { changes, ..transaction.clone() })
    }

    fn forget_owner(&mut self, path: &str) {
        let Some(owner) = self.owners.remove(path) else { return };
        if let Some(owned) = self.ephemerals.get_mut(&owner) {
            owned.remove(path);
            if owned.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
    }

    /// Applies a [complete](Self::complete) transaction. Returns the node lifetimes that it ends.
    pub fn go_on(&mut self, transaction: &Transaction) -> Vec<NodeLife> {
        let (zxid, at_ms) = (transaction.zxid, transaction.at_ms);
        let mut ended = Vec::new();
        let creates = transaction.changes.iter().filter(|change| change.happened == Happened::Created);
        if creates.count() > 1 {
            self.several.insert(zxid);
        }
        for change in &transaction.changes {
            match change.happened {
                Happened::Written => {}
                Happened::Created => {
                    self.forget_owner(&change.path);
                    if change.ephemeral {
                        self.owners.insert(change.path.clone(), transaction.session);
                        self.ephemerals.entry(transaction.session).or_default().insert(change.path.clone());
                    }
                    // An earlier node with this path existed, but its deletion is not in the log.
                    let forgotten =
                        self.created.insert(change.path.clone(), zxid).filter(|created| *created != zxid);
                    ended.extend(forgotten.map(|created| NodeLife { created, ..NodeLife::default() }));
                }
                Happened::Deleted => {
                    self.forget_owner(&change.path);
                    let Some(created) = self.created.remove(&change.path) else { continue };
                    if self.several.remove(&created) {
                        self.created.retain(|_, other| *other != created);
                    }
                    let (deleted, deleted_at_ms) = (Some(zxid), Some(at_ms));
                    let with_its_session = change.with_its_session;
                    ended.push(NodeLife { created, deleted, deleted_at_ms, with_its_session });
                }
            }
        }
        ended
    }

    pub fn end(self) -> impl Iterator<Item = NodeLife> {
        let left: BTreeSet<i64> = self.created.into_values().collect();
        left.into_iter().map(|created| NodeLife { created, ..NodeLife::default() })
    }
}

/// Returns the next transaction of a log, with its changes below `below`, and its length in bytes. Returns
/// `None` at the end and for an incomplete or damaged transaction.
pub(super) fn next(log: &[u8], below: &str) -> Option<(Transaction, usize)> {
    let (record, length) = txn::next(log)?;
    let mut changes = Vec::new();
    record.changes(&mut |change| {
        if change.path.starts_with(below.as_bytes()) {
            let txn::Change { path, happened, with_its_session, ephemeral, .. } = change;
            let path = String::from_utf8_lossy(path).into_owned();
            changes.push(NodeChange { path, happened, with_its_session, ephemeral });
        }
    });
    let txn::Record { session, zxid, at_ms, .. } = record;
    Some((Transaction { session, zxid, at_ms, changes, ends_session: record.ends_session() }, length))
}

/// Writers of logs in the servers' format.
#[cfg(test)]
pub(super) mod written {
    use zklockbench_core::txn;

    pub(in super::super) const BEGIN: &[u8] = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";

    pub(in super::super) fn text(text: &str) -> Vec<u8> {
        txn::buffer(text.as_bytes())
    }

    pub(in super::super) fn record(zxid: i64, kind: i32, body: &[u8]) -> Vec<u8> {
        txn::written(txn::header(7, 1, zxid, 1_000 + zxid, kind), body)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use zklockbench_core::txn::{
        CLOSE_SESSION, CREATE, CREATE_2, DELETE, ERROR, HEADER, MULTI, SET_DATA, begins,
    };

    use super::written::{BEGIN, record, text};
    use super::*;

    fn log(records: &[Vec<u8>]) -> Vec<u8> {
        let mut log = BEGIN.to_vec();
        records.iter().for_each(|record| log.extend(record));
        log.extend([0; 64]);
        log
    }

    fn read(log: &[u8]) -> Vec<Transaction> {
        let mut rest = &log[HEADER..];
        let each = || {
            let (transaction, taken) = next(rest, "/l/")?;
            rest = &rest[taken..];
            Some(transaction)
        };
        std::iter::from_fn(each).collect()
    }

    fn read_lives(log: &[u8]) -> BTreeMap<i64, NodeLife> {
        let mut living = Living::default();
        let mut lives: Vec<NodeLife> = Vec::new();
        for transaction in &read(log) {
            let whole = living.complete(transaction);
            lives.extend(living.go_on(&whole));
        }
        lives.extend(living.end());
        lives.into_iter().map(|life| (life.created, life)).collect()
    }

    fn multi(parts: &[(i32, Vec<u8>)]) -> Vec<u8> {
        let part = |(kind, body): &(i32, Vec<u8>)| {
            [kind.to_be_bytes().to_vec(), (body.len() as i32).to_be_bytes().to_vec(), body.clone()].concat()
        };
        let count = (parts.len() as i32).to_be_bytes().to_vec();
        [count, parts.iter().flat_map(part).collect()].concat()
    }

    #[test]
    fn node_lives_until_it_is_deleted_or_its_session_ends() {
        let ends = [2_i32.to_be_bytes().to_vec(), text("/l/b"), text("/other")].concat();
        let [a, b, elsewhere] = ["/l/a", "/l/b", "/elsewhere"].map(text);
        let made = [record(1, CREATE, &a), record(2, CREATE_2, &b), record(3, CREATE, &elsewhere)];
        let ended = [record(4, DELETE, &a), record(5, CLOSE_SESSION, &ends), record(6, CREATE, &a)];
        let lives = read_lives(&log(&[made, ended].concat()));
        let deleted =
            NodeLife { created: 1, deleted: Some(4), deleted_at_ms: Some(1_004), with_its_session: false };
        assert_eq!(lives[&1], deleted);
        assert_eq!((lives[&2].deleted, lives[&6].deleted), (Some(5), None));
        assert!(lives[&2].with_its_session);
        assert_eq!(lives.len(), 3);
    }

    #[test]
    fn every_operation_of_a_multi_is_applied() {
        let body = multi(&[(CREATE, text("/l/x")), (DELETE, text("/l/a"))]);
        let lives = read_lives(&log(&[record(1, CREATE, &text("/l/a")), record(2, MULTI, &body)]));
        assert_eq!((lives[&1].deleted, lives[&2].created), (Some(2), 2));
    }

    #[test]
    fn failed_multi_changes_nothing() {
        let part = |code: i32| code.to_be_bytes().to_vec();
        for parts in [
            vec![(CREATE, text("/l/x")), (ERROR, part(-101))],
            vec![(CREATE, text("/l/x")), (DELETE, text("/l/a")), (ERROR, part(-110)), (ERROR, part(-2))],
            vec![(ERROR, part(-101)), (ERROR, part(-2))],
        ] {
            let lives =
                read_lives(&log(&[record(1, CREATE, &text("/l/a")), record(2, MULTI, &multi(&parts))]));
            assert_eq!((lives.len(), lives[&1].deleted), (1, None), "{parts:?}");
        }
    }

    /// Returns a create in the servers' format.
    fn create(path: &str, ephemeral: bool) -> Vec<u8> {
        let acl = [&31_i32.to_be_bytes()[..], &text("world"), &text("anyone")].concat();
        let lists = [&(-1_i32).to_be_bytes()[..], &1_i32.to_be_bytes(), &acl].concat();
        [&text(path)[..], &lists, &[u8::from(ephemeral)], &9_i32.to_be_bytes()].concat()
    }

    #[test]
    fn ephemeral_nodes_end_with_their_session_even_if_the_log_omits_them() {
        let digest = [&2_i32.to_be_bytes()[..], &[0; 8]].concat();
        let listed = |paths: &[&str]| {
            let count = i32::try_from(paths.len()).unwrap().to_be_bytes().to_vec();
            [count, paths.iter().flat_map(|path| text(path)).collect()].concat()
        };
        for end in [
            Vec::new(),
            digest.clone(),
            listed(&[]),
            [listed(&[]), digest.clone()].concat(),
            [listed(&["/l/b"]), digest.clone()].concat(),
            [listed(&["/l/b", "/l/m"]), digest].concat(),
        ] {
            let (a, b, c) = (create("/l/a", false), create("/l/b", true), create("/l/c", true));
            let multi = multi(&[(CREATE, create("/l/m", true))]);
            let made = [record(1, CREATE, &a), record(2, CREATE_2, &b), record(3, MULTI, &multi)];
            let ended = [record(5, DELETE, &text("/l/c")), record(6, CLOSE_SESSION, &end)];
            let lives = read_lives(&log(&[&made[..], &[record(4, CREATE, &c)], &ended].concat()));
            let ended = |zxid: i64| (lives[&zxid].deleted, lives[&zxid].with_its_session);
            let all = [1, 2, 3, 4].map(ended);
            assert_eq!(all, [(None, false), (Some(6), true), (Some(6), true), (Some(5), false)], "{end:?}");
        }
    }

    #[test]
    fn nodes_of_one_transaction_end_with_the_first_deletion() {
        let body = multi(&[(CREATE, text("/l/x")), (CREATE, text("/l/y"))]);
        let gone = [record(2, DELETE, &text("/l/y")), record(3, DELETE, &text("/l/x"))];
        let lives = read_lives(&log(&[vec![record(1, MULTI, &body)], gone.to_vec()].concat()));
        assert_eq!((lives.len(), lives[&1].deleted), (1, Some(2)));
    }

    #[test]
    fn changes_outside_the_followed_path_are_omitted() {
        let hand_over =
            multi(&[(SET_DATA, text("/l/b")), (DELETE, text("/l/a")), (SET_DATA, text("/other"))]);
        let transactions =
            read(&log(&[record(4, MULTI, &hand_over), record(5, SET_DATA, &text("/elsewhere"))]));
        let (with_its_session, ephemeral, ends_session) = (false, false, false);
        let changes = [("/l/b", Happened::Written), ("/l/a", Happened::Deleted)].map(|(path, happened)| {
            NodeChange { path: path.to_owned(), happened, with_its_session, ephemeral }
        });
        let at = |zxid, changes| Transaction { session: 7, zxid, at_ms: 1_000 + zxid, changes, ends_session };
        assert_eq!(transactions, [at(4, changes.into()), at(5, Vec::new())]);
    }

    #[test]
    fn recreating_a_node_ends_its_previous_lifetime_if_no_deletion_was_logged() {
        let lives = read_lives(&log(&[1, 5].map(|zxid| record(zxid, CREATE, &text("/l/a")))));
        assert_eq!((lives[&1].deleted, lives[&5].deleted, lives.len()), (None, None, 2));
    }

    #[test]
    fn incomplete_last_transaction_is_ignored() {
        let mut cut = log(&[record(1, CREATE, &text("/l/a"))]);
        let (checksum, length) = (8, 4);
        cut.truncate(HEADER + checksum + length + 20);
        assert!(read_lives(&cut).is_empty());
        // The file had already been extended, so the missing part of the record is zeros
        let mut torn = log(&[record(1, CREATE, &text("/l/a")), record(2, DELETE, &text("/l/a"))]);
        let deletion = torn.len() - 64 - 10;
        torn[deletion..].fill(0);
        assert_eq!(read_lives(&torn)[&1].deleted, None);
        assert!(begins(b"no log").is_err() && begins(b"").unwrap().is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_logs_cause_no_panic(garbage in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&log(&[garbage.clone(), record(1, MULTI, &garbage)]));
        }
    }
}
