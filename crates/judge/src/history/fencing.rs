//! Checks that the fenced resource rejected old tokens.
//!
//! Concurrent writes may have been accepted in either order. A write is certainly stale only if a newer token
//! was accepted before its call, or if the zxids show the order. Writes with a zxid are sorted within a window, so
//! the order of their lines does not matter.

use std::collections::BTreeMap;

use super::clocks::Moment;
use super::judgement::WriteReport;
use zklockbench_record::history::LinePosition;

/// Number of writes kept for sorting by zxid. For writes further out of order, the order is unknown.
const WINDOW: usize = 512;
const EXAMPLES: usize = 20;

/// The accepted write with the newest token on one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    pub token: i64,
    pub zxid: Option<i64>,
    pub clock: usize,
    pub place: LinePosition,
}

#[derive(Debug, Clone, Copy)]
pub struct FencedWrite {
    pub token: Option<i64>,
    pub accepted: bool,
    pub zxid: Option<i64>,
    pub at: Moment,
}

/// The resource guarded by one lock.
#[derive(Debug, Default)]
pub struct Fencing {
    newest: Vec<Newest>,
    /// Accepted writes that are not compared yet, by zxid and line, and whether they are known to be stale.
    recent: BTreeMap<(i64, LinePosition), (Newest, bool)>,
    /// The write with the newest token among the compared ones.
    highest: Option<Newest>,
    /// The write with the newest token among those with a lower zxid than the last compared one.
    earlier: Option<Newest>,
    /// zxid of the last write that was compared.
    settled: Option<i64>,
    pub report: WriteReport,
    /// Pairs of a write with a newer token and the stale write accepted after it.
    pub examples: Vec<(Newest, Newest)>,
}

impl Fencing {
    /// Newest accepted token on a clock.
    pub fn newest_on(&self, clock: usize) -> Option<Newest> {
        self.newest.iter().find(|newest| newest.clock == clock).copied()
    }

    /// Processes the answer to a write. `called` is the newest token at the time of the call, or the current newest
    /// token if the call was not recorded.
    pub fn answer(&mut self, answer: FencedWrite, called: Option<Newest>) {
        if !answer.accepted {
            self.reject(answer);
            return;
        }
        self.report.accepted += 1;
        let Some(token) = answer.token else {
            self.report.without_token += 1;
            return;
        };
        let FencedWrite { zxid, at, .. } = answer;
        let own = Newest { token, zxid, clock: at.clock, place: at.place };
        let is_stale = self.judge(own, called);
        if let Some(zxid) = zxid {
            self.sort(zxid, own, is_stale);
        }
        match self.newest.iter_mut().find(|newest| newest.clock == at.clock) {
            None => self.newest.push(own),
            Some(newest) if newest.token <= token => *newest = own,
            Some(_) => {}
        }
    }

    fn reject(&mut self, answer: FencedWrite) {
        let newest = self.newest.iter().map(|newest| newest.token).max();
        if answer.token < newest {
            self.report.stale_rejected += 1;
        } else {
            self.report.other_rejected += 1;
        }
    }

    /// Compares a write with the newest token accepted before its call. Returns whether it is stale.
    fn judge(&mut self, own: Newest, called: Option<Newest>) -> bool {
        let newer = |newer: &&Newest| newer.token > own.token;
        if let Some(newer) = called.iter().find(newer) {
            self.stale(*newer, own);
            return true;
        }
        let unordered = |other: &&Newest| other.zxid.is_none() || own.zxid.is_none();
        let same_clock = |other: &Newest| other.clock == own.clock;
        self.report.undecided +=
            u64::from(self.newest.iter().filter(newer).filter(unordered).any(same_clock));
        self.report.across_clocks +=
            u64::from(self.newest.iter().filter(unordered).any(|other| !same_clock(other)));
        false
    }

    fn stale(&mut self, newer: Newest, own: Newest) {
        self.report.stale_accepted += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push((newer, own));
        }
    }

    fn sort(&mut self, zxid: i64, own: Newest, is_stale: bool) {
        if self.settled.is_some_and(|settled| zxid < settled) {
            self.report.undecided += u64::from(!is_stale);
            return;
        }
        self.recent.insert((zxid, own.place), (own, is_stale));
        if self.recent.len() > WINDOW {
            self.settle_first();
        }
    }

    fn settle_first(&mut self) {
        let Some(((zxid, _), (own, is_stale))) = self.recent.pop_first() else { return };
        if self.settled.replace(zxid) != Some(zxid) {
            self.earlier = self.highest;
        }
        if let Some(newer) = self.earlier.filter(|newer| newer.token > own.token && !is_stale) {
            self.stale(newer, own);
        }
        if self.highest.is_none_or(|highest| highest.token < own.token) {
            self.highest = Some(own);
        }
    }

    /// Compares the remaining writes.
    pub fn close(&mut self) {
        while !self.recent.is_empty() {
            self.settle_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64) -> Moment {
        Moment { t_us: line, place: LinePosition { line, offset: 0 }, clock: 0 }
    }

    fn write(token: i64, accepted: bool, line: u64) -> FencedWrite {
        FencedWrite { token: Some(token), accepted, zxid: None, at: at(line) }
    }

    #[test]
    fn concurrent_writes_are_inconclusive_without_zxids() {
        let mut fencing = Fencing::default();
        fencing.answer(FencedWrite { zxid: Some(20), ..write(5, true, 1) }, None);
        fencing.answer(write(3, true, 2), None);
        assert_eq!((fencing.report.undecided, fencing.report.stale_accepted), (1, 0));
        fencing.answer(FencedWrite { zxid: Some(19), ..write(3, true, 3) }, None);
        assert_eq!((fencing.report.undecided, fencing.report.stale_accepted), (1, 0));
        fencing.answer(FencedWrite { zxid: Some(21), ..write(3, true, 4) }, None);
        fencing.close();
        assert_eq!((fencing.report.undecided, fencing.report.stale_accepted), (1, 1));
    }

    /// Writes as token and zxid, all on different clocks.
    fn sorted(writes: impl IntoIterator<Item = (i64, usize)>) -> WriteReport {
        let mut fencing = Fencing::default();
        for (line, (token, zxid)) in (1..).zip(writes) {
            let at = Moment { clock: zxid, ..at(line) };
            fencing.answer(FencedWrite { zxid: Some(zxid as i64), at, ..write(token, true, line) }, None);
            assert!(fencing.recent.len() <= WINDOW);
        }
        fencing.close();
        fencing.report
    }

    #[test]
    fn stale_writes_with_zxids_are_found_regardless_of_line_order() {
        let writes = [(7, 10), (5, 20), (7, 30)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let report = sorted(order.map(|place| writes[place]));
            assert_eq!((report.stale_accepted, report.undecided), (1, 0), "{order:?}");
        }
        assert_eq!(sorted([(5, 10), (7, 20), (6, 15)]).stale_accepted, 0);
        assert_eq!(sorted([(7, 10), (9, 20), (5, 20)]).stale_accepted, 1, "token 7 was accepted before");
        assert_eq!(sorted([(4, 10), (9, 20), (5, 20)]).stale_accepted, 0, "equal zxids have no order");
    }

    #[test]
    fn order_of_a_write_is_unknown_beyond_the_window() {
        let later = (0..=WINDOW).map(|number| (9, 100 + number));
        let report = sorted(later.chain([(9, 99)]));
        assert_eq!((report.stale_accepted, report.undecided), (0, 1));
    }
}
