//! What the ensemble wrote down of a lock's holders, beside what they believed and saw, and what contenders did, as it was
//! noted and before it is written as a history: facts that [`crate::record::Trial`] carries from the load to its judge. There
//! may be any number of them, so they are spooled, the judge drops them, and no file has them.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::history::{Deed, LockClaim, LockKind, Moment};
use super::overlap::Overlaps;
use crate::words::clock::{Stamp, WallClock};
use crate::words::spool::{Merge, Sorted, SpooledTable};

/// By how much the wall clock of a server on this host may differ from ours, in milliseconds: both count whole
/// milliseconds, or are read one after the other.
pub const CLOCKS_DIFFER_MS: i64 = 2;

/// A contender entered by virtue of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub lock: usize,
    pub contender: usize,
    pub claim: LockClaim,
    pub czxid: i64,
    /// As of which transaction it found that it holds, where a reply told.
    pub zxid: Option<i64>,
    pub called: Stamp,
    pub entered: Stamp,
    /// When it was about to leave, before it asked for the deletion of its node; `None` while it is inside.
    pub left: Option<Stamp>,
}

impl Grant {
    /// The order of locks, and of each lock's nodes.
    pub fn by_node(&self) -> (usize, i64, Stamp) {
        (self.lock, self.czxid, self.entered)
    }
}

/// The grants of a trial, in the order of locks and nodes.
pub type Grants = Sorted<Grant, (usize, i64, Stamp)>;

/// A node's life, as the ensemble wrote it down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The transaction that deleted it; `None` while it is there.
    pub deleted: Option<i64>,
    /// When that was proposed, in milliseconds of the leader's wall clock since 1970.
    pub deleted_at_ms: Option<i64>,
    pub with_its_session: bool,
}

/// The lives of nodes, by the transaction that created each.
pub type Lives = SpooledTable<Life>;

/// By virtue of what the contenders of a trial entered, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub kind: LockKind,
    pub began: Stamp,
    /// Two inside at once, as contenders saw it.
    pub overlaps: Overlaps,
    pub grants: Grants,
    /// What the servers' logs tell of the trial's nodes; empty where they cannot be read.
    pub lives: Lives,
    /// That no node of a contender is left.
    pub all_gone: bool,
    /// Turns stamps into the time of the servers' host.
    pub wall: WallClock,
    /// By how much that time may differ from a server's, in milliseconds: [`CLOCKS_DIFFER_MS`], and by what the clock was
    /// set during the trial.
    pub clocks_differ_ms: i64,
    /// Where what does not fit into memory may go while all this is judged.
    pub scratch: PathBuf,
}

impl Facts {
    /// Whether a node is gone of whose end no server's log tells. Then the ensemble has lost transactions that it had
    /// acknowledged, and nothing that depends on that node can be held against the lock.
    pub fn is_forgotten(&self, life: &Life) -> bool {
        self.all_gone && life.deleted.is_none()
    }
}

/// A moment, and the generator thread that it comes from.
pub type Noted = (usize, Moment);

/// As of which transaction a contender entered at that time, where only the servers' logs tell.
pub type EnteredAsOf = (Stamp, usize, i64);

/// What contenders did, as noted and as the servers' logs add to it; spooled, since there may be any number.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// By their time, and of the same time by thread.
    pub noted: Sorted<Noted, (Stamp, usize)>,
    pub entered_as_of: Sorted<EnteredAsOf, (Stamp, usize)>,
    pub lives: Lives,
    /// Some are missing, because they came faster than the disk took them.
    pub has_gaps: bool,
}

impl Moments {
    /// One after the other.
    ///
    /// # Errors
    /// When the disk refuses; so does each of them.
    pub fn iter(&self) -> io::Result<impl Iterator<Item = io::Result<Moment>> + '_> {
        let (mut noted, mut as_of) =
            (self.noted.iter()?, AsOf { rest: self.entered_as_of.iter()?, found: Vec::new() });
        Ok(std::iter::from_fn(move || {
            let mut moment = match noted.next()? {
                Ok((_, moment)) => moment,
                Err(error) => return Some(Err(error)),
            };
            if let Deed::Enters { zxid, .. } = &mut moment.deed {
                match as_of.find(moment.at, moment.contender) {
                    Ok(found) => *zxid = found.or(*zxid),
                    Err(error) => return Some(Err(error)),
                }
            }
            Some(Ok(moment))
        }))
    }
}

/// Goes along with the moments.
struct AsOf<'a> {
    rest: Merge<'a, EnteredAsOf, (Stamp, usize)>,
    /// Of the latest time that was asked for, and the first of a later one.
    found: Vec<EnteredAsOf>,
}

impl AsOf<'_> {
    fn find(&mut self, at: Stamp, contender: usize) -> io::Result<Option<i64>> {
        self.found.retain(|(other, ..)| *other >= at);
        while self.found.last().is_none_or(|(latest, ..)| *latest <= at) {
            let Some(next) = self.rest.next() else { break };
            self.found.push(next?);
            self.found.retain(|(other, ..)| *other >= at);
        }
        let found = self.found.iter().find(|(when, who, _)| (*when, *who) == (at, contender));
        Ok(found.map(|(_, _, zxid)| *zxid))
    }
}
