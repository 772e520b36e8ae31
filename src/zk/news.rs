//! How far into the ensemble's order of transactions a session can have seen, as the stats in its replies prove.
//!
//! A server applies all transactions in their order, so whoever has seen the trace of one has seen the effect of all
//! before it. The client library keeps the zxid in the header of a reply to itself; stats tell another, which is no
//! higher: that of the last change of what the reply shows. For the question at hand that is as good. A list that no
//! longer shows a node carries the zxid of that node's deletion or of a later change of the same directory; one that
//! still shows it carries an older one.

use std::cell::Cell;

/// What one session has learned since it was last asked to forget.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The latest transaction whose trace was seen.
    zxid: Cell<i64>,
    /// Whether the last thing learned came with a zxid. Of an event of servers before 3.9, or of a node that is not
    /// there, nobody can say when it was so.
    is_told: Cell<bool>,
}

impl News {
    /// Something was learned that is true as of that transaction.
    pub(super) fn learn(&self, zxid: i64) {
        if zxid > 0 {
            self.raise(zxid);
            self.is_told.set(true);
        } else {
            self.is_told.set(false);
        }
    }

    /// A trace of that transaction was seen on the way, which by itself decides nothing.
    pub(super) fn raise(&self, zxid: i64) {
        self.zxid.set(self.zxid.get().max(zxid));
    }

    /// Something was learned, and not as of when.
    pub(super) fn learn_undated(&self) {
        self.is_told.set(false);
    }

    /// From here on nothing is known.
    pub(super) fn forget(&self) {
        self.zxid.set(0);
        self.is_told.set(false);
    }

    /// As of which transaction the last thing learned is true; `None` when that is not known.
    pub(super) fn zxid(&self) -> Option<i64> {
        Some(self.zxid.get()).filter(|zxid| self.is_told.get() && *zxid > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_last_must_have_a_date_and_the_date_never_goes_back() {
        let news = News::default();
        assert_eq!(news.zxid(), None);
        news.raise(9);
        assert_eq!(news.zxid(), None, "a trace on the way decides nothing");
        news.learn(5);
        assert_eq!(news.zxid(), Some(9));
        news.learn_undated();
        assert_eq!(news.zxid(), None);
        news.learn(12);
        assert_eq!(news.zxid(), Some(12));
        news.learn(-1);
        assert_eq!(news.zxid(), None, "an event of a server before 3.9 says -1");
        news.forget();
        news.raise(3);
        assert_eq!(news.zxid(), None);
    }
}
