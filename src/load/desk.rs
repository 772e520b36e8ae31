//! Where the contenders of one generator thread write what they do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::ensemble_order::Grant;
use super::overlaps::Overlaps;
use super::shared::Shared;
use crate::measure::Sheet;
use crate::record::{Moment, Tally};
use crate::zk::Observed;

/// What a thread notes beside its sheet.
#[derive(Debug, Default)]
pub struct Log {
    /// Each contender's tally.
    pub tallies: BTreeMap<usize, Tally>,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// Two inside at once, and what was the matter with their holds.
    pub overlaps: Overlaps,
    /// What the contenders did, where a history was asked for.
    pub history: Vec<Moment>,
    /// Who entered by virtue of which node. Kept in trials with faults only.
    pub grants: Vec<Grant>,
    /// Sessions opened before the start.
    pub opened: u64,
    /// Sessions that expired.
    pub expired: u64,
    /// Sessions opened anew.
    pub rejoined: u64,
    /// The generator's own lag on the way to each lock, summed over the acquisitions measured.
    pub lag_us: u64,
    /// What that lag is a part of: the handoffs, or the waits of locks that are not handed over.
    pub lag_basis_us: u64,
    /// Looks that polling contenders should have made, by their measured waits.
    pub looks_by_wait: u64,
}

/// What the contenders of one thread share.
#[derive(Clone)]
pub struct Desk {
    /// The thread's sheet.
    pub sheet: Rc<RefCell<Sheet>>,
    /// The thread's log.
    pub log: Rc<RefCell<Log>>,
    /// What sessions write to.
    pub observed: Observed,
}

impl Desk {
    /// An empty desk with room for that many seconds.
    #[must_use]
    pub fn new(shared: &Shared, seconds: usize) -> Self {
        let sheet = Rc::new(RefCell::new(Sheet::new(seconds)));
        let changes =
            shared.scenes.iter().map(|scene| (Rc::from(scene.queue()), Arc::clone(&scene.changes))).collect();
        let observed = Observed {
            sheet: Rc::clone(&sheet),
            pulse: Arc::clone(&shared.pulse),
            last_reply: Arc::clone(&shared.last_reply),
            changes,
            dates_lists: shared.keeps_evidence(),
            trace: None,
        };
        Self { sheet, log: Rc::default(), observed }
    }
}
