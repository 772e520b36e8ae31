//! Parses and formats quantities and names, and removes duplicates from lists.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::time::Duration;

/// Parses a duration such as `20ms`, `1s` or `1m 30s`. A number without a unit is refused, except `0`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    if !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!("`{trimmed}` has no unit; write `{trimmed}ms` or `{trimmed}s`"));
    }
    humantime::parse_duration(trimmed).map_err(|error| {
        format!("`{trimmed}` is not a duration ({error}); write, for example, `20ms`, `1s` or `2m 30s`")
    })
}

/// Formats a duration with a readable unit: `350 µs`, `20 ms`, `1.5 s`, `2m 5s`.
pub fn format_duration(duration: Duration) -> String {
    format_micros(crate::clock::micros(duration))
}

/// Formats a duration in whole seconds, rounded up, for estimates.
pub fn whole_seconds(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64))
}

/// Formats microseconds with three significant digits and a suitable unit.
pub fn format_micros(us: u64) -> String {
    let value = us as f64;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", number(value / 1e3)),
        1_000_000..120_000_000 => format!("{} s", number(value / 1e6)),
        _ => humantime::format_duration(Duration::from_secs(us / 1_000_000)).to_string(),
    }
}

/// Formats external text for messages: control characters are escaped, and at most `most` characters are
/// kept.
pub fn shown(text: &str, most: usize) -> String {
    // `nth` stops early if the text is very long.
    if text.chars().nth(most).is_none() {
        return text.chars().map(harmless).collect();
    }
    text.chars().take(most.saturating_sub(1)).map(harmless).chain(["…".to_owned()]).collect()
}

/// Checks a name that must be valid for both a directory and a znode.
pub fn run_id(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > 100 || !text.chars().all(fits) || text.starts_with('.') {
        return Err("must be 1 to 100 letters, digits, `-`, `_` or `.`, and must not start with `.`".into());
    }
    Ok(text.to_owned())
}

pub fn one_line(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// Escapes control characters in external text, except newlines and tabs. The fast path is for server
/// replies, which are frequent and plain ASCII.
pub fn harmless_lines(text: String) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return text;
    }
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c.to_string() } else { harmless(c) }).collect()
}

/// Returns the character, escaped if it could control a terminal or change the text direction.
pub fn harmless(c: char) -> String {
    if is_harmless(c) { c.to_string() } else { c.escape_unicode().to_string() }
}

/// Returns whether a terminal or a page can safely show the character as is.
pub fn is_harmless(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

/// Formats a number with three significant digits; numbers of 100 or more are rounded to whole numbers.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        size if size >= 0.0995 => 3,
        size if size >= 0.000_05 => 4,
        // Small amounts, such as one orphan in 100,000 acquisitions, must not be printed as 0.
        _ => 6,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Prepends `≥` if the value is a lower bound: `≥ 3 ms`.
pub fn at_least(shown: String, is_bound: bool) -> String {
    if is_bound { format!("≥ {shown}") } else { shown }
}

/// Formats a share as a percentage: `5 %` for 0.05.
pub fn percent(share: f64) -> String {
    format!("{} %", number(100.0 * share))
}

/// Formats a ratio as a change: `40 % lower`, `3.2 times`.
pub fn changed(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => "up from zero".to_owned(),
        1.5.. => format!("{} times", number(ratio)),
        1.0.. => format!("{} higher", percent(ratio - 1.0)),
        _ => format!("{} lower", percent(1.0 - ratio)),
    }
}

/// Formats a count with the singular or plural of its noun.
pub fn counted(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", if count == 1 { one } else { many })
}

pub fn contenders(count: usize) -> String {
    counted(count, "contender", "contenders")
}

/// Formats a strategy and its number of contenders for messages: `baton, 20 contenders`.
pub fn cell_name(strategy: &str, count: usize) -> String {
    format!("{strategy}, {}", contenders(count))
}

pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Quotes the text as one shell word, if necessary.
pub fn as_a_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:=@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Joins texts with a separator.
pub fn joined<T: Borrow<str>>(texts: impl IntoIterator<Item = T>, between: &str) -> String {
    texts.into_iter().collect::<Vec<T>>().join(between)
}

/// Joins names into a list for a sentence: `a`, `a and b`, `a, b and c`.
pub fn listed<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// Returns the distinct items in ascending order.
pub fn distinct_sorted<T: Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    all.into_iter().collect::<BTreeSet<T>>().into_iter().collect()
}

/// Returns the distinct items in order of first appearance.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// Groups values by key, in order of first appearance.
pub fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Formats the daily total for a rate per second, with three significant digits: `4,320,000`.
pub fn a_day(per_s: f64) -> String {
    let a_day = per_s * 86_400.0;
    let scale = 10_f64.powi((a_day.abs().max(1.0).log10().floor() as i32 - 2).max(0));
    let digits = format!("{:.0}", (a_day / scale).round() * scale);
    let starts = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits
        .chars()
        .enumerate()
        .flat_map(|(at, digit)| starts(at).then_some(',').into_iter().chain([digit]))
        .collect()
}

/// Serde format for a duration: whole microseconds. The field's name ends with `_us`.
pub mod as_us {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        crate::clock::micros(*time).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

/// Serde format for an optional duration: whole microseconds or null.
pub mod as_us_if_any {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(crate::clock::micros).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_micros))
    }
}

/// Serde format for a wall time: RFC 3339 in UTC with microseconds, such as `2026-11-21T08:45:08.123456Z`.
pub mod as_utc {
    use std::time::SystemTime;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_micros(*time))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text).map_err(|_| {
            D::Error::custom(format!("`{text}` is not a UTC time such as `2026-11-21T08:45:08.123456Z`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_duration_refuses_a_bare_number_and_suggests_units() {
        assert!(parse_duration("20").unwrap_err().contains("`20ms` or `20s`"));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
    }

    #[test]
    fn control_and_direction_characters_are_escaped() {
        let shown: String = "a\u{202e}b\u{7}é ש".chars().map(harmless).collect();
        assert_eq!(shown, "a\\u{202e}b\\u{7}é ש");
    }

    #[test]
    fn counted_uses_the_singular_only_for_one() {
        let shown: Vec<_> = [0_u64, 1, 2].map(|count| counted(count, "entry", "entries")).into();
        assert_eq!(shown, ["0 entries", "1 entry", "2 entries"]);
        assert_eq!([1, 12].map(contenders), ["1 contender", "12 contenders"]);
    }

    #[test]
    fn format_micros_prints_three_significant_digits() {
        let shown: Vec<_> =
            [7, 999, 1_000, 1_234, 20_000, 123_456, 1_500_000, 125_000_000].map(format_micros).into();
        assert_eq!(shown, ["7 µs", "999 µs", "1 ms", "1.23 ms", "20 ms", "123 ms", "1.5 s", "2m 5s"]);
    }

    #[test]
    fn number_prints_three_significant_digits_without_trailing_zeros() {
        let shown: Vec<_> = [0.0, 0.0312, 0.5, 1.0, 4.016, 12.34, 99.97, 412.4, 12_345.6].map(number).into();
        assert_eq!(shown, ["0", "0.0312", "0.5", "1", "4.02", "12.3", "100", "412", "12346"]);
        // Small numbers are not printed as zero.
        assert_eq!([0.000_01, 0.000_002, 1e-7].map(number), ["0.00001", "0.000002", "0"]);
    }

    #[test]
    fn a_day_rounds_counts_and_groups_their_digits() {
        assert_eq!([0.0, 0.001, 1.0, 50.0].map(a_day), ["0", "86", "86,400", "4,320,000"]);
        assert_eq!(a_day(123.456), "10,700,000");
    }

    #[test]
    fn listed_joins_names_into_a_list_for_a_sentence() {
        let found = [listed(&["a"]), listed(&["a", "b"]), listed(&["a", "b", "c"])];
        assert_eq!(found, ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn run_id_must_be_a_plain_name() {
        assert!(run_id("quick-2026.1_a").is_ok());
        for wrong in ["", "..", ".x", "a/b", "a b", "é"] {
            assert!(run_id(wrong).is_err(), "{wrong}");
        }
    }
}
