//! What the contenders of one generator thread observe, and what the observations of all threads come to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::keeper::{Note, Notes};
use super::missing::Missing;
use super::shared::Shared;
use crate::record::{Grant, KeptOut, Overlaps, Tally};
use crate::words::measure::{Histogram, Measure, Sheet};
use crate::world::zk::Observed;
use crate::world::zk::keep_awake::Unread;

/// What a thread notes beside its sheet.
#[derive(Debug, Default)]
pub struct Log {
    pub tallies: BTreeMap<usize, Tally>,
    pub errors: BTreeMap<String, u64>,
    /// Two inside at once, and what was the matter with their holds.
    pub overlaps: Overlaps,
    /// What is kept of each contender for the trial's judge.
    pub notes: Notes,
    /// By virtue of which node each contender has entered last, where the servers' logs can be read; and what of that only
    /// those logs tell. Noted when it enters again, as until then something is added.
    pub latest: BTreeMap<usize, (Grant, Option<Missing>)>,
    /// Looks at a lock on behalf of the suite, which the servers count.
    pub looks_beside: u64,
    pub kept_out: KeptOut,
    /// Holders that had asked for the deletion of their own node before they left.
    pub given_up_early: u64,
    /// Sessions opened before the start.
    pub opened: u64,
    pub expired: u64,
    pub rejoined: u64,
    /// The generator's own lag on the way to each lock, summed over the acquisitions measured.
    pub lag_us: u64,
    /// What that lag is a part of: the handoffs, or the waits of locks that are not handed over.
    pub lag_basis_us: u64,
    /// Looks that polling contenders should have made, by their measured waits.
    pub looks_by_wait: u64,
}

impl Log {
    /// By virtue of which node a contender has entered.
    pub fn enters(&mut self, grant: Grant, missing: Option<Missing>) {
        if let Some((grant, missing)) = self.latest.insert(grant.contender, (grant, missing)) {
            self.notes.note(Note::Entered(grant, missing));
        }
    }

    pub fn end(&mut self) {
        for (grant, missing) in std::mem::take(&mut self.latest).into_values() {
            self.notes.note(Note::Entered(grant, missing));
        }
        self.notes.hand_over();
    }
}

/// What the contenders of one thread share.
#[derive(Clone)]
pub struct Observation {
    pub sheet: Rc<RefCell<Sheet>>,
    pub log: Rc<RefCell<Log>>,
    pub observed: Observed,
}

impl Observation {
    /// An empty one with room for that many seconds.
    pub fn new(shared: &Shared, notes: Notes, seconds: usize) -> Self {
        let sheet = Rc::new(RefCell::new(Sheet::new(seconds)));
        let changes = shared
            .lock_states
            .iter()
            .map(|lock_state| (Rc::from(lock_state.queue()), Arc::clone(&lock_state.changes)))
            .collect();
        let observed = Observed {
            sheet: Rc::clone(&sheet),
            pulse: Arc::clone(&shared.pulse),
            last_reply: Arc::clone(&shared.last_reply),
            changes,
            dates_lists: shared.keeps_evidence() || shared.reads_logs,
            trace: None,
        };
        let log = Rc::new(RefCell::new(Log { notes, ..Log::default() }));
        Self { sheet, log, observed }
    }
}

/// Everything that one thread yields.
pub struct ThreadRecord {
    pub sheet: Sheet,
    pub log: Log,
    pub timer_lag: Histogram,
    /// Of the servers that it kept awake.
    pub unread: Vec<Unread>,
}

/// All threads' sheets as one; an empty one when no thread gave a record.
pub fn merge_sheets(threads: &[ThreadRecord]) -> Sheet {
    let mut sheets = threads.iter().map(|thread| &thread.sheet);
    let mut merged = sheets.next().cloned().unwrap_or_else(|| Sheet::new(1));
    for sheet in sheets {
        merged.merge(sheet);
    }
    merged
}

pub fn merge_logs(threads: Vec<ThreadRecord>) -> Log {
    let mut merged = Log::default();
    for log in threads.into_iter().map(|thread| thread.log) {
        merged.tallies.extend(log.tallies);
        for (kind, count) in log.errors {
            *merged.errors.entry(kind).or_default() += count;
        }
        merged.overlaps.merge(log.overlaps);
        merged.notes.lost = merged.notes.lost.and(log.notes.lost);
        merged.looks_beside += log.looks_beside;
        merged.kept_out.merge(log.kept_out);
        merged.given_up_early += log.given_up_early;
        merged.opened += log.opened;
        merged.expired += log.expired;
        merged.rejoined += log.rejoined;
        merged.looks_by_wait += log.looks_by_wait;
    }
    merged
}

pub fn histograms(sheet: &Sheet) -> BTreeMap<Measure, Histogram> {
    Measure::all()
        .into_iter()
        .map(|measure| (measure, sheet.histogram(measure)))
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(measure, histogram)| (measure, histogram.clone()))
        .collect()
}

pub fn tallies(log: &Log, contenders: usize) -> Vec<Tally> {
    (0..contenders).map(|id| log.tallies.get(&id).copied().unwrap_or_default()).collect()
}
