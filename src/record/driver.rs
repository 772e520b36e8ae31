//! The program that took the locks of a trial, and what the way to it cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a trial's driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverRecord {
    /// What it said that it is.
    pub program: String,
    /// How many processes took the lock for the contenders.
    pub processes: usize,
    /// For how many contenders one of them did at most: who shares a process shares its fate.
    pub contenders_each: usize,
    /// Whether its clock was shown to be the suite's, so that its stamps count; `None` where it told no times.
    pub clock_fits: Option<bool>,
    /// Whether it held and released by itself, so that no handoff has the way to it in it.
    pub held_by_itself: bool,
    /// How many acquires of a contender were sent ahead, to be done one after the other; missing where each was sent when the one
    /// before was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// Of these holds, how many became known after others that had begun later: the handoffs around them are too long.
    pub out_of_order: u64,
    /// An echo of the thread that reads, before the load.
    pub echo: Option<EchoTimes>,
    /// An echo of a contender's own thread, before the load.
    pub contender_echo: Option<EchoTimes>,
    /// An echo of the thread that reads, during the warm-up.
    pub echo_under_load: Option<EchoTimes>,
}

impl DriverRecord {
    /// Of two workers, which have processes of their own. What their pipes took can't be added up: that of the first stays.
    pub fn and(self, other: Self) -> Self {
        Self {
            processes: self.processes + other.processes,
            contenders_each: self.contenders_each.max(other.contenders_each),
            clock_fits: self.clock_fits.zip(other.clock_fits).map(|(one, other)| one && other),
            out_of_order: self.out_of_order + other.out_of_order,
            ..self
        }
    }
}

/// How long requests took that ask for nothing, there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EchoTimes {
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
}

impl EchoTimes {
    pub fn of(mut took_us: Vec<u64>) -> Option<Self> {
        took_us.sort_unstable();
        let at = |share: f64| {
            let place = (share * took_us.len() as f64).ceil() as usize;
            took_us.get(place.max(1) - 1).copied()
        };
        Some(Self { count: took_us.len() as u64, p50_us: at(0.5)?, p99_us: at(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_echoes_took_no_longer_than_the_median() {
        assert_eq!(EchoTimes::of(Vec::new()), None);
        let times = EchoTimes::of((1..=200).rev().collect()).unwrap();
        assert_eq!((times.count, times.p50_us, times.p99_us), (200, 100, 198));
        assert_eq!(EchoTimes::of(vec![7]).unwrap().p99_us, 7);
    }
}
