//! Judging: pure functions of records.

mod ensemble_order;
mod exclusion;
pub mod history;
mod inside;
mod overlaps;
mod weigh;

pub use exclusion::{add_order, differs, judge, least_evidence, of_run, standing_still, zombies};

#[cfg(test)]
mod tests {
    use zklockbench_core::clock::WallClock;
    use zklockbench_core::spool::Sorted;
    use zklockbench_record::history::LockKind;
    use zklockbench_record::{CLOCKS_DIFFER_MS, Facts, Grant, Lives, Overlaps};

    /// Facts on a clock that counts from 1970, with no node left.
    pub(super) fn facts(grants: Vec<Grant>, lives: Lives, kind: LockKind) -> Facts {
        let (overlaps, wall) = (Overlaps::default(), WallClock::default());
        let grants = Sorted::of(Grant::by_node, grants);
        let (clocks_differ_ms, scratch) = (CLOCKS_DIFFER_MS, std::env::temp_dir());
        Facts { kind, began: 0, overlaps, grants, lives, all_gone: true, wall, clocks_differ_ms, scratch }
    }
}
