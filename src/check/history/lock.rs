//! All that is kept of one lock while its history is read.

use super::fencing::Fencing;
use super::occupancy::Occupancy;
use super::order::LockHolds;
use crate::record::KeptOut;
use crate::record::history::{LockClaim, LockKind};
use crate::words::units::counted;

#[derive(Debug)]
pub struct Lock {
    pub name: String,
    pub kind: LockKind,
    /// Who is inside, by the clock's number: beliefs of different clocks are not compared.
    pub occupancies: Vec<(usize, Occupancy)>,
    pub order: LockHolds,
    pub fencing: Fencing,
    pub holds: u64,
    pub acquired: u64,
    pub failed: u64,
    pub unknown: u64,
    /// Acquisitions that those who were inside kept waiting, and for which part of their waits.
    pub kept_out: KeptOut,
    pub first: Option<usize>,
    pub contended: bool,
    pub stuck: u64,
    /// Acquires that had not ended at the end.
    pub unfinished: u64,
}

impl Lock {
    pub fn new(name: String, kind: LockKind) -> Self {
        Self {
            name,
            kind,
            occupancies: Vec::new(),
            order: LockHolds::new(kind),
            fencing: Fencing::default(),
            holds: 0,
            acquired: 0,
            failed: 0,
            unknown: 0,
            kept_out: KeptOut::default(),
            first: None,
            contended: false,
            stuck: 0,
            unfinished: 0,
        }
    }

    pub fn occupancy(&mut self, clock: usize) -> &mut Occupancy {
        let found = self.occupancies.iter().position(|(of, _)| *of == clock).unwrap_or_else(|| {
            self.occupancies.push((clock, Occupancy::new(self.kind)));
            self.occupancies.len() - 1
        });
        &mut self.occupancies[found].1
    }

    pub fn next_hold(&mut self) -> u64 {
        self.holds += 1;
        self.holds
    }

    pub fn check(&self, claim: LockClaim) -> Result<(), String> {
        match self.kind {
            LockKind::Semaphore(all) if claim.leases == 0 || claim.leases > all => {
                let asked = counted(claim.leases, "lease is", "leases are");
                Err(format!("{asked} requested; the semaphore has {all}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_semaphore_refuses_claims_for_more_leases_than_it_has_or_for_none() {
        let refused = |kind| {
            let lock = Lock::new("lock".into(), kind);
            [0, 1, 3, 4].map(|leases| lock.check(LockClaim { leases, ..LockClaim::WRITE }).is_err())
        };
        assert_eq!(refused(LockKind::Semaphore(3)), [true, false, false, true]);
        assert_eq!([LockKind::Mutex, LockKind::ReadWrite].map(refused), [[false; 4]; 2]);
    }

    #[test]
    fn each_hold_has_a_number_of_its_own_and_each_clock_a_room() {
        let mut lock = Lock::new("lock".into(), LockKind::Mutex);
        assert_ne!(lock.next_hold(), lock.next_hold());
        lock.occupancy(4).entries = 1;
        lock.occupancy(7).entries = 2;
        assert_eq!((lock.occupancy(4).entries, lock.occupancy(7).entries, lock.occupancies.len()), (1, 2, 2));
    }
}
