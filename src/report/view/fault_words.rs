//! Gaps and recoveries in words.

use super::FaultFigures;
use crate::units::format_micros;

/// What stands for a time too short to be noted: trials with faults keep gaps of 5 ms and more.
const SHORT: &str = "< 5 ms";

/// A time until the lock was acquired again, in microseconds: 0 when there was no gap that is noted, infinite when
/// it was not acquired any more.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn recovery_word(us: f64) -> String {
    match us {
        us if us.is_infinite() => "never".to_owned(),
        us if us < 0.5 => SHORT.to_owned(),
        us => format_micros(us.round() as u64),
    }
}

/// The longest gap around a fault; `None` when no effect of the fault was seen.
#[must_use]
pub fn gap_word(figures: &FaultFigures) -> Option<String> {
    let recovery = figures.recovery?;
    Some(match figures.longest_gap_us {
        _ if recovery.longest_us.is_infinite() => "no end".to_owned(),
        Some(us) => format_micros(us),
        None => SHORT.to_owned(),
    })
}
