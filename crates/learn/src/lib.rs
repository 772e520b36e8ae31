//! Learns how an ensemble uses locks from its servers' transaction logs.
//!
//! Logs are streamed (`log`), several servers' logs are merged (`merge`), records become cycles of clients
//! (`reconstruct`), and cycles become a report (`summary`).

mod cycle;
mod family;
mod files;
mod fit;
mod live;
mod log;
mod merge;
mod queue;
mod recipe;
mod reconstruct;
mod scenario;
mod snapshot;
mod summarise;
mod summary;
mod times;

use std::path::{Path, PathBuf};

pub use cycle::Ending;
pub use files::ServerFiles;
pub use fit::Dispersion;
pub use live::{Watching, watch};
pub use log::Damage;
pub use recipe::Recipe;
pub use reconstruct::{Observed, Scope};
pub use scenario::write_scenarios;
pub use summarise::{Asked, Summarised, summarise, writes};
pub use summary::*;
pub use times::{Bounded, Handoff, HandoffBasis, Point, Times};

use merge::{Merge, Step, missing_between};
use reconstruct::Reconstruction;
use snapshot::StoredNode;
use zklockbench_core::error::Error;

/// Cycles, and facts about the logs that contain them.
#[derive(Debug)]
pub struct Read {
    pub observed: Observed,
    pub logs: LogFacts,
}

/// Reads the logs of an ensemble's servers. Polls `stopped`, and fails once it returns true. Data that does not fit
/// in memory is spooled to `scratch`.
pub fn read_logs(
    directories: &[PathBuf],
    scope: Scope,
    is_strict: bool,
    scratch: &Path,
    stopped: &dyn Fn() -> bool,
) -> Result<Read, Error> {
    let servers: Vec<ServerFiles> =
        directories.iter().map(|path| ServerFiles::of(path, scratch)).collect::<Result<_, _>>()?;
    let mut merge = Merge::of(&servers, is_strict);
    let mut snapshots = Snapshots::of(&servers);
    let mut reconstruction = Reconstruction::new(scope, scratch);
    let (mut has_begun, mut records) = (false, 0_u64);
    merge.read(&mut |step| {
        if !std::mem::replace(&mut has_begun, true) {
            snapshots.before(step.zxid()).into_iter().for_each(|node| reconstruction.existed(node));
            reconstruction.note_timeouts(snapshots.timeouts.drain(..));
        }
        match step {
            Step::Record(record) => {
                records += 1;
                if records.is_multiple_of(RECORDS_BETWEEN_LOOKS) && stopped() {
                    return Err(Error::Interrupted);
                }
                reconstruction.take(&record)
            }
            Step::Gap { snapshot, next } => {
                let nodes = snapshot.and_then(|snapshot| snapshots.at(snapshot, next));
                let ends_gap = |snapshot| missing_between(snapshot, next) == 0;
                let is_settled = nodes.is_some() && snapshot.is_some_and(ends_gap);
                reconstruction.lost_before(if is_settled { 0 } else { next });
                reconstruction.note_timeouts(snapshots.timeouts.drain(..));
                nodes.map_or(Ok(()), |nodes| reconstruction.goes_on_with(nodes))
            }
        }
        .map_err(not_spooled)
    })?;
    let mut damages = merge.damages.kept.clone();
    damages.extend(snapshots.unreadable.clone());
    if is_strict && let Some(Damage { file, what, .. }) = snapshots.unreadable.first() {
        return Err(Error::usage(format!("{file}: {what}; omit --strict to continue without it")));
    }
    if records == 0 {
        let first = damages.first().map(|Damage { file, what, .. }| format!("; {file}: {what}"));
        return Err(Error::usage(format!("no transaction could be read{}", first.unwrap_or_default())));
    }
    let files = servers.iter().map(|server| server.logs.len() as u64).sum();
    let logs = LogFacts {
        directories: directories.iter().map(|path| path.display().to_string()).collect(),
        servers: servers.iter().filter(|server| !server.logs.is_empty()).count() as u64,
        files,
        missing: merge.missing,
        uncommitted: merge.uncommitted,
        unconfirmed: merge.unconfirmed,
        repeated: merge.repeated(),
        snapshot: snapshots.used.clone(),
        damaged: merge.damages.count + snapshots.unreadable.len() as u64,
        damage: damages,
    };
    Ok(Read { observed: reconstruction.finish().map_err(not_spooled)?, logs })
}

fn not_spooled(error: std::io::Error) -> Error {
    Error::environment(format!("cannot spool cycles to disk: {error}"))
}

const RECORDS_BETWEEN_LOOKS: u64 = 1 << 16;

/// Snapshots of all servers, by zxid.
struct Snapshots {
    files: Vec<(i64, PathBuf)>,
    used: Vec<String>,
    unreadable: Vec<Damage>,
    /// Sessions of the last snapshot with their timeouts in ms.
    timeouts: Vec<(i64, i32)>,
}

impl Snapshots {
    fn of(servers: &[ServerFiles]) -> Self {
        let mut files: Vec<(i64, PathBuf)> =
            servers.iter().flat_map(|server| server.snapshots.iter().cloned()).collect();
        files.sort_unstable();
        Self { files, used: Vec::new(), unreadable: Vec::new(), timeouts: Vec::new() }
    }

    /// Returns the ephemeral nodes that existed before this transaction, from the newest earlier snapshot.
    /// Without an earlier snapshot, returns the nodes in the oldest one.
    fn before(&mut self, zxid: i64) -> Vec<StoredNode> {
        let older = self.files.iter().rfind(|(of, _)| *of < zxid);
        let Some((_, path)) = older.or(self.files.first()).cloned() else { return Vec::new() };
        self.nodes(&path, zxid).unwrap_or_default()
    }

    /// Returns the ephemeral nodes of the snapshot with this zxid. A snapshot may also contain nodes of later
    /// transactions; those at or after `next` are omitted, because the logs create them.
    fn at(&mut self, zxid: i64, next: i64) -> Option<Vec<StoredNode>> {
        let path = self.files.iter().find(|(of, _)| *of == zxid)?.1.clone();
        self.nodes(&path, next)
    }

    /// Returns a snapshot's ephemeral nodes that were created before this transaction.
    fn nodes(&mut self, path: &Path, before: i64) -> Option<Vec<StoredNode>> {
        let mut nodes = Vec::new();
        let read = snapshot::read(path, &mut |node| {
            if node.owner.is_some() && node.created < before {
                nodes.push(node);
            }
        });
        match read {
            Ok(timeouts) => {
                self.used.push(files::name_of(path));
                self.timeouts = timeouts;
                nodes.sort_by_key(|node| node.created);
                Some(nodes)
            }
            Err(error) => {
                let what = format!("{error}; the snapshot was skipped");
                self.unreadable.push(Damage { file: files::name_of(path), at: 0, what });
                None
            }
        }
    }
}

/// Writes logs in the servers' format, for tests.
#[cfg(test)]
mod written {
    use zklockbench_core::txn;

    pub const BEGIN: &[u8] = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";
    const PADDING: usize = 64;

    pub fn record(zxid: i64, kind: i32, body: &[u8]) -> Vec<u8> {
        txn::written(txn::header(7, 1, zxid, 1_000 + zxid, kind), body)
    }

    pub fn log(records: &[Vec<u8>]) -> Vec<u8> {
        [BEGIN, &records.concat(), &[0; PADDING]].concat()
    }
}

#[cfg(test)]
mod tests;
