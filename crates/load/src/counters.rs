//! Directories whose sequence counter is near its end. Locks that order their queue by number fail once the counter
//! is used up.

use std::fmt;

use zookeeper_client::Client;

use super::shared::Shared;
use zklockbench_core::units::counted;
use zklockbench_zk::{CaughtUp, counter, directories};

/// Maximum number of a trial's locks that are checked.
const LOCKS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearEnd {
    pub directory: String,
    /// Number of creates left before the counter is used up.
    pub left: i64,
}

impl NearEnd {
    fn of(directory: &str, left: i64) -> Option<Self> {
        (left <= counter::WARNS_WITHIN).then(|| Self { directory: directory.to_owned(), left })
    }

    pub fn is_used_up(&self) -> bool {
        self.left == 0
    }

    /// Names the worst directory and counts the others, in one sentence; `None` if there are no directories.
    pub fn told(mut all: Vec<Self>) -> Option<String> {
        all.sort_by_key(|one| one.left);
        let (worst, others) = all.split_first()?;
        let others = match others.len() {
            0 => String::new(),
            count => format!(" ({} too)", counted(count as u64, "other directory", "other directories")),
        };
        Some(format!("{worst}{others}: use a fresh lock directory"))
    }
}

impl fmt::Display for NearEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sequence counter of {} is ", self.directory)?;
        match u64::try_from(self.left) {
            Ok(0) | Err(_) => f.write_str("used up"),
            Ok(left) => write!(f, "near its end, with {} left", counted(left, "create", "creates")),
        }
    }
}

/// Checks a directory and its subdirectories. Skips directories that cannot be read.
pub(super) async fn near_end(now: CaughtUp<'_>, root: &str) -> Vec<NearEnd> {
    let found = directories(now, root).await.unwrap_or_default();
    found.iter().filter_map(|(path, next)| NearEnd::of(path, counter::END - next)).collect()
}

/// Checks the directories of a trial's first [`LOCKS`] locks.
pub(super) async fn of_trial(shared: &Shared, client: &Client) -> Vec<NearEnd> {
    let Ok(now) = CaughtUp::with(client).await else { return Vec::new() };
    let mut found = Vec::new();
    for lock_state in shared.lock_states.used().take(LOCKS) {
        found.extend(near_end(now, &shared.lock_states.path(lock_state.number)).await);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_is_near_its_end_with_at_most_ten_million_creates_left() {
        let near_end = |left| NearEnd::of("/locks/a", left).map(|near| near.is_used_up());
        assert_eq!([i64::from(i32::MAX), 10_000_001].map(near_end), [None, None]);
        assert_eq!([10_000_000, 1, 0].map(near_end), [Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn warning_contains_the_worst_directory_and_a_remedy() {
        let warning_for = |all: &[(&str, i64)]| {
            NearEnd::told(
                all.iter().map(|(path, left)| NearEnd { directory: (*path).into(), left: *left }).collect(),
            )
        };
        assert_eq!(warning_for(&[]), None);
        assert_eq!(
            warning_for(&[("/a", 12)]).unwrap(),
            "the sequence counter of /a is near its end, with 12 creates left: use a fresh lock directory"
        );
        assert_eq!(
            warning_for(&[("/a", 12), ("/b", 0)]).unwrap(),
            "the sequence counter of /b is used up (1 other directory too): use a fresh lock directory"
        );
    }
}
