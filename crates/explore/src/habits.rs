//! Learns how long clients take to react, because a client cannot be asked whether it is about to act.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use zklockbench_core::locked::locked;

/// Time to wait after an event to which clients have always reacted so far.
const EXPECTED: Duration = Duration::from_secs(2);
/// Number of times that clients must stay quiet after an event before no reaction is expected.
const ENOUGH: u32 = 3;

/// Reactions to events, by event name. Shared by all worlds.
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
    /// `unknown` is the time to wait after a new event.
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

    /// Returns the time to wait for a reaction to an event.
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
    fn patience_adapts_to_earlier_reactions() {
        let habits = Habits::new(Duration::from_millis(50));
        assert_eq!(habits.patience("x"), Duration::from_millis(50));
        habits.acted("x", Duration::from_millis(1));
        assert_eq!(habits.patience("x"), EXPECTED);
        // Once the client has been quiet after the event, wait only three times the slowest reaction.
        habits.was_quiet("x");
        habits.acted("x", Duration::from_millis(40));
        assert_eq!(habits.patience("x"), Duration::from_millis(120));
        (0..ENOUGH).for_each(|_| habits.was_quiet("y"));
        assert_eq!(habits.patience("y"), Duration::from_millis(10));
    }
}
