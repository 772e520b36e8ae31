//! What the contenders of a trial did, as it was noted and before it is written as a history: spooled, as there may be any
//! number of moments.

use std::io;

use super::grant::Lives;
use super::history::{Deed, Moment};
use crate::words::clock::Stamp;
use crate::words::spool::{Merge, Sorted};

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
