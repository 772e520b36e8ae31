//! Distance between clients and servers: a fault that makes every round trip longer, for the whole measured phase.

use std::time::Duration;

use toml::{Table, Value};

use super::model::{Stop, TrialSpec};
use crate::words::catalog::ParamValue;
use crate::words::catalog::fault::{FaultChoice, Start, Target};

const KIND: &str = "delay";
/// Its parameter: how much longer each direction takes.
const LATENCY: &str = "latency";

/// What must be said beside figures that were measured so.
pub const DISTANCE_NOTE: &str = "The delay is added by a proxy between contenders and servers, half of it in each direction, \
    from the beginning of the measured phase on; the servers stay as near to each other as they are.";

/// How much longer each direction takes where a round trip takes that much longer: half of it, in whole microseconds.
pub fn each_way(round_trip: Duration) -> Duration {
    let us = round_trip.as_micros().div_ceil(2);
    Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
}

/// A scenario's `[[fault]]` that makes round trips so much longer, for a measured phase of that `duration`, as written.
pub fn distance(round_trip: Duration, duration: &str) -> Table {
    let latency = format!("{}us", each_way(round_trip).as_micros());
    [("kind", KIND), ("at", "0s"), ("duration", duration), (LATENCY, latency.as_str())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}

impl TrialSpec {
    /// How much longer its round trips are; `None` where something else is broken in it, too, or nothing is.
    pub fn added_round_trip(&self) -> Option<Duration> {
        let ([fault], Stop::After(lasts)) = (self.faults.as_slice(), self.stop) else { return None };
        let FaultChoice { kind, target, start, duration, times, params, .. } = fault;
        let for_all = *target == Target::Word("all") && *times == 1;
        let throughout = *start == Start::At(Duration::ZERO) && *duration == Some(lasts);
        let each_way = params.iter().try_fold(Duration::ZERO, |found, (name, value)| match value {
            ParamValue::Duration(time) if name == LATENCY => Some(*time),
            // Nothing else about it may make a round trip longer.
            ParamValue::Duration(Duration::ZERO) => Some(found),
            _ => None,
        })?;
        (kind == KIND && for_all && throughout).then_some(2 * each_way)
    }
}
