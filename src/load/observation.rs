//! What the contenders of one generator thread observe.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::keeper::{Lost, Note, Notes};
use super::missing::MissingPart;
use super::shared::Shared;
use crate::record::{Grant, Occurrences, Part, Tally};
use crate::words::measure::{Histogram, Measure, ThreadRecorder};
use crate::world::zk::Observed;
use crate::world::zk::keep_awake::Unread;

/// What a thread notes beside its recorder.
#[derive(Debug, Default)]
pub struct ThreadLog {
    pub occurrences: Occurrences,
    /// What is kept of each contender for the trial's judge.
    pub notes: Notes,
    /// By virtue of which node each contender has entered last, where the servers' logs can be read; and what of that only
    /// those logs tell. Noted when it enters again, as until then something is added.
    pub latest: BTreeMap<usize, (Grant, Option<MissingPart>)>,
}

impl ThreadLog {
    /// By virtue of which node a contender has entered.
    pub fn enters(&mut self, grant: Grant, missing: Option<MissingPart>) {
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
    pub recorder: Rc<RefCell<ThreadRecorder>>,
    pub log: Rc<RefCell<ThreadLog>>,
    pub observed: Observed,
}

impl Observation {
    /// An empty one with room for that many seconds.
    pub fn new(shared: &Shared, notes: Notes, seconds: usize) -> Self {
        let recorder = Rc::new(RefCell::new(ThreadRecorder::new(seconds)));
        let changes = shared
            .lock_states
            .iter()
            .map(|lock_state| (Rc::from(lock_state.queue()), Arc::clone(&lock_state.changes)))
            .collect();
        let observed = Observed {
            recorder: Rc::clone(&recorder),
            pulse: Arc::clone(&shared.pulse),
            last_reply: Arc::clone(&shared.last_reply),
            changes,
            dates_lists: shared.keeps_evidence() || shared.reads_logs,
            trace: None,
        };
        let log = Rc::new(RefCell::new(ThreadLog { notes, ..ThreadLog::default() }));
        Self { recorder, log, observed }
    }
}

pub struct ThreadRecord {
    pub part: Part,
    /// What it noted for the trial's judge and could not be kept.
    pub lost: Lost,
    /// Of the servers that it kept awake.
    pub unread: Vec<Unread>,
}

pub fn histograms(recorder: &ThreadRecorder) -> BTreeMap<Measure, Histogram> {
    Measure::all()
        .into_iter()
        .map(|measure| (measure, recorder.histogram(measure)))
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(measure, histogram)| (measure, histogram.clone()))
        .collect()
}

pub fn tallies(seen: &Occurrences, contenders: usize) -> Vec<Tally> {
    (0..contenders).map(|id| seen.tallies.get(&id).copied().unwrap_or_default()).collect()
}
