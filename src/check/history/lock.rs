//! All that is kept of one lock while its history is read.

use super::fencing::Fencing;
use super::order::Order;
use super::room::Room;
use crate::record::history::LockKind;

/// One lock.
#[derive(Debug)]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// What it promises.
    pub kind: LockKind,
    /// Who is inside, by the clock's number: beliefs of different clocks are not compared.
    pub rooms: Vec<(usize, Room)>,
    /// What the ensemble saw.
    pub order: Order,
    /// The resource that it guards.
    pub fencing: Fencing,
    /// Holds so far.
    pub holds: u64,
    /// Acquisitions.
    pub acquired: u64,
    /// Acquires that failed.
    pub failed: u64,
    /// Acquires whose outcome is unknown.
    pub unknown: u64,
    /// Acquisitions that somebody who was inside kept waiting.
    pub waited: u64,
    /// Who got it first.
    pub first: Option<usize>,
    /// Whether somebody else got it, too.
    pub contended: bool,
    /// Acquires that are stuck.
    pub stuck: u64,
    /// Acquires that had not ended at the end.
    pub unfinished: u64,
}

impl Lock {
    /// A lock that nobody has asked for.
    pub fn new(name: String, kind: LockKind) -> Self {
        Self {
            name,
            kind,
            rooms: Vec::new(),
            order: Order::default(),
            fencing: Fencing::default(),
            holds: 0,
            acquired: 0,
            failed: 0,
            unknown: 0,
            waited: 0,
            first: None,
            contended: false,
            stuck: 0,
            unfinished: 0,
        }
    }

    /// Who is inside by one clock.
    pub fn room(&mut self, clock: usize) -> &mut Room {
        let found = self.rooms.iter().position(|(of, _)| *of == clock).unwrap_or_else(|| {
            self.rooms.push((clock, Room::new(self.kind)));
            self.rooms.len() - 1
        });
        &mut self.rooms[found].1
    }

    /// The number of the next hold.
    pub fn next_hold(&mut self) -> u64 {
        self.holds += 1;
        self.holds
    }

    /// How many leases an acquire takes.
    ///
    /// # Errors
    /// When a semaphore does not have as many.
    pub fn weight(&self, leases: u32) -> Result<u64, String> {
        match self.kind {
            LockKind::Semaphore(all) if leases == 0 || leases > all => {
                Err(format!("{leases} leases are asked for; the semaphore has {all}"))
            }
            LockKind::Semaphore(_) => Ok(leases.into()),
            LockKind::Mutex | LockKind::ReadWrite => Ok(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquire_takes_as_many_leases_as_it_says_but_one_where_there_are_none() {
        let of = |kind| Lock::new("lock".into(), kind);
        let semaphore = of(LockKind::Semaphore(3));
        assert_eq!([1, 2, 3].map(|leases| semaphore.weight(leases)), [Ok(1), Ok(2), Ok(3)]);
        assert!(semaphore.weight(0).is_err() && semaphore.weight(4).is_err());
        assert_eq!(of(LockKind::Mutex).weight(7), Ok(1));
        assert_eq!(of(LockKind::ReadWrite).weight(7), Ok(1));
    }

    #[test]
    fn each_hold_has_a_number_of_its_own_and_each_clock_a_room() {
        let mut lock = Lock::new("lock".into(), LockKind::Mutex);
        assert_ne!(lock.next_hold(), lock.next_hold());
        lock.room(4).entries = 1;
        lock.room(7).entries = 2;
        assert_eq!((lock.room(4).entries, lock.room(7).entries, lock.rooms.len()), (1, 2, 2));
    }
}
