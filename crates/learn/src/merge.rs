//! Merges several servers' logs, and finds uncommitted and missing transactions.
//!
//! The log of a deposed leader may contain transactions that the other servers never accepted. They remain even
//! if the leader rejoins, because it may catch up from a snapshot. A server that caught up from a snapshot has
//! no records of the earlier transactions. A transaction that no majority logged therefore counts as uncommitted
//! in two cases: a majority continued without it in a later epoch, or some servers did, and no server that logged
//! it continued.

use crate::files::ServerFiles;
use crate::log::{Damages, LogStream};
use zklockbench_core::error::Error;
use zklockbench_core::txn::Record;

/// The logs of an ensemble's servers.
pub struct Merge {
    servers: Vec<LogStream>,
    /// Zxids of all snapshots, ascending.
    snapshots: Vec<i64>,
    pub damages: Damages,
    /// Transactions of deposed leaders.
    pub uncommitted: u64,
    /// Transactions after the last one that a majority of the servers logged.
    pub unconfirmed: u64,
    /// Transactions missing from all logs, although later ones of the same leader exist.
    pub missing: u64,
    last: Option<i64>,
}

pub enum Step<'a> {
    Record(Record<'a>),
    /// Transactions before the next record are missing; `snapshot` is the newest snapshot in the gap.
    Gap {
        snapshot: Option<i64>,
        /// Zxid of the next record.
        next: i64,
    },
}

impl Step<'_> {
    /// Returns the zxid of the record, or of the record after the gap.
    pub fn zxid(&self) -> i64 {
        match self {
            Self::Record(record) => record.zxid,
            Self::Gap { next, .. } => *next,
        }
    }
}

impl Merge {
    pub fn of(servers: &[ServerFiles], are_refused: bool) -> Self {
        let mut snapshots: Vec<i64> =
            servers.iter().flat_map(|server| &server.snapshots).map(|(zxid, _)| *zxid).collect();
        snapshots.sort_unstable();
        let with_logs = servers.iter().filter(|server| !server.logs.is_empty());
        Self {
            servers: with_logs.map(|server| LogStream::of(&server.logs)).collect(),
            snapshots,
            damages: Damages { are_refused, ..Damages::default() },
            uncommitted: 0,
            unconfirmed: 0,
            missing: 0,
            last: None,
        }
    }

    /// Calls `pass` with every committed record and every gap, in order of zxid.
    pub fn read(&mut self, pass: &mut dyn FnMut(Step<'_>) -> Result<(), Error>) -> Result<(), Error> {
        for server in &mut self.servers {
            server.advance(&mut self.damages)?;
        }
        while let Some(zxid) = self.servers.iter().filter_map(|server| server.zxid).min() {
            let has_majority = self.has_majority(zxid);
            if has_majority || self.may_be_committed(zxid) {
                // There may be a gap between the newest earlier snapshot and the first record.
                let before = || self.snapshots.iter().rfind(|snapshot| **snapshot < zxid).copied();
                self.last = self.last.or_else(before);
                if self.notice_gap(zxid) {
                    pass(Step::Gap { snapshot: self.snapshot_between(zxid), next: zxid })?;
                }
                self.last = Some(zxid);
                self.unconfirmed = if has_majority { 0 } else { self.unconfirmed + 1 };
                let server = self.servers.iter().find(|server| server.zxid == Some(zxid));
                if let Some(record) = server.and_then(LogStream::record) {
                    pass(Step::Record(record))?;
                }
            } else {
                self.uncommitted += 1;
            }
            for server in self.servers.iter_mut().filter(|server| server.zxid == Some(zxid)) {
                server.advance(&mut self.damages)?;
            }
        }
        Ok(())
    }

    pub fn repeated(&self) -> u64 {
        self.servers.iter().map(|server| server.repeated).sum()
    }

    /// Returns whether a transaction that no majority logged may be committed.
    fn may_be_committed(&self, zxid: i64) -> bool {
        let without = self.servers.iter().filter(|server| self.went_on_without(server, zxid)).count();
        let went_on_with = |server: &LogStream| {
            server.zxid == Some(zxid) && server.last().is_some_and(|last| epoch(last) > epoch(zxid))
        };
        without == 0 || 2 * without <= self.servers.len() && self.servers.iter().any(went_on_with)
    }

    fn has_majority(&self, zxid: i64) -> bool {
        let have = self.servers.iter().filter(|server| server.zxid == Some(zxid)).count();
        have * 2 > self.servers.len()
    }

    /// Returns whether a server continued in a later epoch without this transaction and without a snapshot
    /// that contains it.
    fn went_on_without(&self, server: &LogStream, zxid: i64) -> bool {
        let (Some(before), Some(next)) = (server.before, server.zxid) else { return false };
        let by_snapshot = || self.snapshots.iter().any(|snapshot| (zxid..next).contains(snapshot));
        next != zxid && epoch(next) > epoch(zxid) && before < zxid && !by_snapshot()
    }

    /// Counts the transactions missing before this one. Returns whether there is a gap.
    fn notice_gap(&mut self, zxid: i64) -> bool {
        let Some(last) = self.last else { return false };
        // Consecutive zxids leave no gap, even if there is a snapshot in between.
        if zxid == last + 1 {
            return false;
        }
        let missing = missing_between(last, zxid);
        self.missing += missing;
        missing > 0 || self.snapshot_between(zxid).is_some()
    }

    /// Returns the newest snapshot between the last record and this one.
    fn snapshot_between(&self, zxid: i64) -> Option<i64> {
        let last = self.last?;
        self.snapshots.iter().rev().copied().find(|snapshot| (last + 1..zxid).contains(snapshot))
    }
}

/// Returns the number of transactions that are known to be missing between two zxids.
pub fn missing_between(last: i64, next: i64) -> u64 {
    let expected = if epoch(last) == epoch(next) { last + 1 } else { (epoch(next) << 32) + 1 };
    u64::try_from(next - expected).unwrap_or(0)
}

fn epoch(zxid: i64) -> i64 {
    zxid >> 32
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::written::{log, record};
    use zklockbench_core::txn;

    fn server(directory: &Path, files: &[(&str, Vec<i64>)]) -> ServerFiles {
        fs::create_dir_all(directory).unwrap();
        for (name, zxids) in files {
            let delete = |zxid: &i64| record(*zxid, txn::DELETE, &txn::buffer(b"/l/a"));
            fs::write(directory.join(name), log(&zxids.iter().map(delete).collect::<Vec<_>>())).unwrap();
        }
        ServerFiles::of(directory, directory).unwrap()
    }

    /// Returns the zxids of the merged records, with `0` for a gap and `-s` for a gap with snapshot `s`.
    fn merged(servers: &[&[(&str, Vec<i64>)]]) -> (Vec<i64>, u64, u64) {
        let root = tempfile::tempdir().unwrap();
        let files: Vec<ServerFiles> = servers
            .iter()
            .enumerate()
            .map(|(at, files)| server(&root.path().join(at.to_string()), files))
            .collect();
        let (mut merge, mut passed) = (Merge::of(&files, false), Vec::new());
        merge
            .read(&mut |step| {
                passed.push(match step {
                    Step::Record(record) => record.zxid,
                    Step::Gap { snapshot, .. } => -snapshot.unwrap_or(0),
                });
                Ok(())
            })
            .unwrap();
        (passed, merge.missing, merge.uncommitted)
    }

    const NEXT: i64 = 1 << 32;

    #[test]
    fn every_committed_transaction_is_read_once() {
        let (behind, ahead) = (("log.1", vec![1, 2]), ("log.1", vec![1, 2, 3]));
        assert_eq!(merged(&[&[behind], &[ahead]]), (vec![1, 2, 3], 0, 0));
    }

    #[test]
    fn transactions_of_a_deposed_leader_are_skipped() {
        let deposed = [("log.1", vec![1, 2, 3, 4])];
        let rejoined = [("log.1", vec![1, 2, 3, 4]), ("log.100000001", vec![NEXT + 1])];
        let others = [("log.1", vec![1, 2]), ("log.100000001", vec![NEXT + 1])];
        let expected = (vec![1, 2, NEXT + 1], 0, 2);
        assert_eq!(merged(&[&deposed, &others, &others.clone()]), expected);
        assert_eq!(merged(&[&rejoined, &others, &others.clone()]), expected);
    }

    #[test]
    fn transactions_of_a_server_that_continued_with_them_are_committed() {
        // The first server caught up from a snapshot that is in another directory.
        let behind = [("log.1", vec![1, 2]), ("log.100000001", vec![NEXT + 1])];
        let complete = [("log.1", vec![1, 2, 3, 4]), ("log.100000001", vec![NEXT + 1])];
        assert_eq!(merged(&[&behind, &complete]), (vec![1, 2, 3, 4, NEXT + 1], 0, 0));
        // The second server has just started another log.
        let complete = [complete[0].clone(), complete[1].clone(), ("log.100000002", Vec::new())];
        assert_eq!(merged(&[&behind, &complete]), (vec![1, 2, 3, 4, NEXT + 1], 0, 0));
    }

    #[test]
    fn transactions_that_only_a_minority_logged_at_the_end_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let unconfirmed = |longest: &[i64]| {
            let files: Vec<ServerFiles> = longest
                .iter()
                .enumerate()
                .map(|(at, last)| {
                    server(&root.path().join(at.to_string()), &[("log.1", (1..=*last).collect())])
                })
                .collect();
            let mut merge = Merge::of(&files, false);
            merge.read(&mut |_| Ok(())).unwrap();
            merge.unconfirmed
        };
        assert_eq!([unconfirmed(&[9, 5, 4]), unconfirmed(&[9, 9, 4]), unconfirmed(&[9])], [4, 0, 0]);
    }

    #[test]
    fn transactions_missing_before_a_snapshot_are_a_gap_unless_another_server_logged_them() {
        let behind = [("log.1", vec![1, 2]), ("snapshot.5", Vec::new()), ("log.6", vec![6, 7])];
        assert_eq!(merged(&[&behind]), (vec![1, 2, -5, 6, 7], 3, 0));
        let other = [("log.1", (1..=7).collect())];
        assert_eq!(merged(&[&behind, &other]), ((1..=7).collect(), 0, 0));
    }

    #[test]
    fn missing_transactions_are_counted_even_at_the_start_of_an_epoch_or_of_the_logs() {
        let log = [("log.1", vec![1, 4, NEXT + 3])];
        assert_eq!(merged(&[&log]), (vec![1, 0, 4, 0, NEXT + 3], 4, 0));
        let late = [("snapshot.2", Vec::new()), ("log.5", vec![5, 6])];
        assert_eq!(merged(&[&late]), (vec![0, 5, 6], 2, 0));
        let complete = [("snapshot.2", Vec::new()), ("snapshot.4", Vec::new()), ("log.5", vec![5, 6])];
        assert_eq!(merged(&[&complete]), (vec![5, 6], 0, 0));
    }
}
