//! Did the fenced resource keep old tokens out?
//!
//! Writes that were under way together may have been accepted in either order. So a write is stale for certain only
//! when a newer token had been accepted before it was called, or when the zxids say so.

use super::judgement::WriteReport;
use super::moment::Moment;
use crate::record::history::Place;

/// How many examples are kept.
const EXAMPLES: usize = 20;

/// The accepted write with the newest token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// The token.
    pub token: i64,
    /// The write's own zxid.
    pub zxid: Option<i64>,
    /// By which clock.
    pub clock: usize,
    /// Its line.
    pub place: Place,
}

/// An answer of the resource.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The token that was shown.
    pub token: Option<i64>,
    /// Whether the write was accepted.
    pub accepted: bool,
    /// The write's own zxid.
    pub zxid: Option<i64>,
    /// When the answer came.
    pub at: Moment,
}

/// The resource that one lock guards.
#[derive(Debug, Default)]
pub struct Fencing {
    newest: Vec<Newest>,
    /// What was found.
    pub report: WriteReport,
    /// Stale writes that were accepted, each after the newer one.
    pub examples: Vec<(Newest, Newest)>,
}

impl Fencing {
    /// The newest token that is known on a clock to be accepted.
    pub fn newest_on(&self, clock: usize) -> Option<Newest> {
        self.newest.iter().find(|newest| newest.clock == clock).copied()
    }

    /// The resource answered a write. `called` is what [`Fencing::newest_on`] was when it was called, or is now if
    /// nobody wrote that down.
    pub fn answer(&mut self, answer: Answer, called: Option<Newest>) {
        if !answer.accepted {
            self.reject(answer);
            return;
        }
        self.report.accepted += 1;
        let Some(token) = answer.token else {
            self.report.without_token += 1;
            return;
        };
        let Answer { zxid, at, .. } = answer;
        let own = Newest { token, zxid, clock: at.clock, place: at.place };
        self.judge(own, called);
        match self.newest.iter_mut().find(|newest| newest.clock == at.clock) {
            None => self.newest.push(own),
            Some(newest) if newest.token <= token => *newest = own,
            Some(_) => {}
        }
    }

    fn reject(&mut self, answer: Answer) {
        let newest = self.newest.iter().map(|newest| newest.token).max();
        if answer.token < newest {
            self.report.stale_rejected += 1;
        } else {
            self.report.other_rejected += 1;
        }
    }

    fn judge(&mut self, own: Newest, called: Option<Newest>) {
        let by_zxid = |newer: &&Newest| newer.zxid.zip(own.zxid).is_some_and(|(a, b)| a < b);
        let newer = |newer: &&Newest| newer.token > own.token;
        let certain = called.iter().find(newer);
        let certain = certain.or_else(|| self.newest.iter().filter(newer).find(by_zxid)).copied();
        if let Some(newer) = certain {
            self.report.stale_accepted += 1;
            if self.examples.len() < EXAMPLES {
                self.examples.push((newer, own));
            }
            return;
        }
        let unordered = |other: &&Newest| other.zxid.is_none() || own.zxid.is_none();
        let same_clock = |other: &Newest| other.clock == own.clock;
        self.report.undecided +=
            u64::from(self.newest.iter().filter(newer).filter(unordered).any(same_clock));
        self.report.across_clocks +=
            u64::from(self.newest.iter().filter(unordered).any(|other| !same_clock(other)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u64) -> Moment {
        Moment { t_us: line, place: Place { line, offset: 0 }, clock: 0 }
    }

    fn write(token: i64, accepted: bool, line: u64) -> Answer {
        Answer { token: Some(token), accepted, zxid: None, at: at(line) }
    }

    #[test]
    fn an_older_token_accepted_after_a_newer_one_is_stale() {
        let mut fencing = Fencing::default();
        fencing.answer(write(5, true, 1), None);
        let called = fencing.newest_on(0);
        fencing.answer(write(3, true, 2), called);
        assert_eq!((fencing.report.accepted, fencing.report.stale_accepted), (2, 1));
        assert_eq!((fencing.examples[0].0.place.line, fencing.examples[0].1.place.line), (1, 2));
    }

    #[test]
    fn an_older_token_turned_away_is_what_fencing_is_for() {
        let mut fencing = Fencing::default();
        fencing.answer(write(5, true, 1), None);
        fencing.answer(write(3, false, 2), fencing.newest_on(0));
        fencing.answer(write(5, false, 3), fencing.newest_on(0));
        let WriteReport { stale_rejected, other_rejected, stale_accepted, .. } = fencing.report;
        assert_eq!((stale_rejected, other_rejected, stale_accepted), (1, 1, 0));
    }

    #[test]
    fn writes_under_way_together_are_undecided_unless_their_zxids_tell() {
        let mut fencing = Fencing::default();
        fencing.answer(Answer { zxid: Some(20), ..write(5, true, 1) }, None);
        fencing.answer(write(3, true, 2), None);
        assert_eq!((fencing.report.undecided, fencing.report.stale_accepted), (1, 0));
        fencing.answer(Answer { zxid: Some(19), ..write(3, true, 3) }, None);
        assert_eq!((fencing.report.undecided, fencing.report.stale_accepted), (1, 0));
        fencing.answer(Answer { zxid: Some(21), ..write(3, true, 4) }, None);
        assert_eq!((fencing.report.undecided, fencing.report.stale_accepted), (1, 1));
    }
}
