//! Wall times as RFC 3339 text in UTC, to the microsecond.

use std::time::SystemTime;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes the time as text such as `2026-11-21T08:45:08.123456Z`.
pub fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_micros(*time))
}

/// Reads such text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(|_| {
        D::Error::custom(format!("`{text}` is not a UTC time such as `2026-11-21T08:45:08.123456Z`"))
    })
}
