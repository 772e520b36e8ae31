//! How long a client takes to react: learned, because a client cannot be asked whether it has anything left to do.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use zklockbench_core::locked::locked;

/// Patience with a client that always acted after an event so far.
const EXPECTED: Duration = Duration::from_secs(2);
/// Times that a client must have been quiet before that is expected of it.
const ENOUGH: u32 = 3;

/// Reactions to events, by the event's name, shared by all worlds.
#[derive(Debug)]
pub struct Habits {
    known: Mutex<HashMap<String, Habit>>,
    unknown: Duration,
    quiet: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    acted: u32,
    was_quiet: u32,
    slowest: Duration,
}

impl Habits {
    /// `unknown` is the patience after an event that was not seen before.
    pub fn new(unknown: Duration) -> Self {
        Self { known: Mutex::default(), unknown, quiet: unknown / 5 }
    }

    pub fn acted(&self, after: &str, within: Duration) {
        let mut known = locked(&self.known);
        let habit = known.entry(after.to_owned()).or_default();
        habit.acted += 1;
        habit.slowest = habit.slowest.max(within);
    }

    pub fn was_quiet(&self, after: &str) {
        locked(&self.known).entry(after.to_owned()).or_default().was_quiet += 1;
    }

    /// Time to wait for a reaction to that event.
    pub fn patience(&self, after: &str) -> Duration {
        let habit = locked(&self.known).get(after).copied().unwrap_or_default();
        match habit {
            Habit { acted: 0, was_quiet, .. } if was_quiet >= ENOUGH => self.quiet,
            Habit { acted, was_quiet: 0, .. } if acted > 0 => EXPECTED,
            habit => self.unknown.max(3 * habit.slowest).min(EXPECTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_what_was_seen() {
        let habits = Habits::new(Duration::from_millis(50));
        assert_eq!(habits.patience("x"), Duration::from_millis(50));
        habits.acted("x", Duration::from_millis(1));
        assert_eq!(habits.patience("x"), EXPECTED);
        // Once a client was seen to be quiet, waiting for two seconds would waste time; three of its reactions do not.
        habits.was_quiet("x");
        habits.acted("x", Duration::from_millis(40));
        assert_eq!(habits.patience("x"), Duration::from_millis(120));
        (0..ENOUGH).for_each(|_| habits.was_quiet("y"));
        assert_eq!(habits.patience("y"), Duration::from_millis(10));
    }
}
