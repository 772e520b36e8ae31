//! For how long locks are held, as `plan` is told: a mean, a constant, a distribution of a scenario, or a file of measured
//! holds.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::load;
use crate::scenario::{Distribution, MeasuredTimes, parse};
use crate::words::error::Error;
use crate::words::units::{parse_duration, shown};

#[derive(Debug, Clone, PartialEq)]
pub struct Holds {
    pub mean: Duration,
    /// As a scenario says it in TOML; `None` where only the mean is known.
    pub toml: Option<String>,
}

/// Reads `20ms`, `exactly 20ms`, or a distribution as a scenario has it.
///
/// # Errors
/// What is wrong with it, and how to write one.
pub fn parsed(text: &str) -> Result<Holds, String> {
    let text = text.trim();
    if let Some(time) = text.strip_prefix("exactly ") {
        let mean = within(parse_duration(time.trim())?)?;
        return Ok(Holds { mean, toml: Some(format!("\"{}us\"", mean.as_micros())) });
    }
    if text.starts_with('{') {
        let mean = within(distribution(text)?.mean())?;
        return Ok(Holds { mean, toml: Some(text.to_owned()) });
    }
    Ok(Holds { mean: within(parse_duration(text)?)?, toml: None })
}

fn within(mean: Duration) -> Result<Duration, String> {
    let fits = (Duration::from_micros(1)..=Duration::from_secs(3_600)).contains(&mean);
    if fits {
        Ok(mean)
    } else {
        Err("holds are out of range; give more than 0 and at most 1h on average".into())
    }
}

fn distribution(toml: &str) -> Result<Distribution, String> {
    let text = format!(
        "hold = {toml}\nname = \"holds\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 1\nduration = \"1s\"\n"
    );
    let parsed = parse("--hold", &text, &load::catalog()).map_err(|mistakes| mistakes.render(false))?;
    Ok(parsed.scenario.hold)
}

const LARGEST: u64 = 64 << 20;

/// Reads a file of measured holds.
///
/// # Errors
/// [`Error::Usage`] that names the file and the line.
pub fn read(path: &Path) -> Result<Holds, Error> {
    let cannot = |why: &dyn std::fmt::Display| {
        Error::usage(format!("--holds {}: cannot be read ({why}); name a file of holds", path.display()))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| cannot(&error))?;
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| cannot(&error))?;
    if text.len() as u64 > LARGEST {
        return Err(cannot(&format!("it has more than {} MiB", LARGEST >> 20)));
    }
    let times = times(&text).map_err(|told| Error::usage(format!("--holds {}: {told}", path.display())))?;
    let measured = MeasuredTimes::condensed(times);
    let listed: Vec<String> =
        measured.times().iter().map(|time| format!("\"{}us\"", time.as_micros())).collect();
    let mean = Distribution::Measured(measured).mean();
    let mean = within(mean).map_err(|told| Error::usage(format!("--holds {}: {told}", path.display())))?;
    Ok(Holds { mean, toml: Some(format!("{{ measured = [{}] }}", listed.join(", "))) })
}

/// The column that has the holds, and what a number without a unit in it is.
struct HoldColumn {
    at: usize,
    unit_us: Option<f64>,
}

const HEADERS: [(&str, Option<f64>); 4] =
    [("hold", None), ("hold_us", Some(1.0)), ("hold_ms", Some(1e3)), ("hold_s", Some(1e6))];

fn times(text: &str) -> Result<Vec<Duration>, String> {
    let mut column = HoldColumn { at: 0, unit_us: None };
    let mut found = Vec::new();
    // Spreadsheets begin a file with a mark of its encoding.
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let fields = fields(line);
        let header = fields.iter().enumerate().find_map(|(at, field)| {
            let (_, unit_us) = HEADERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(field))?;
            Some(HoldColumn { at, unit_us: *unit_us })
        });
        if let (Some(header), true) = (header, found.is_empty()) {
            column = header;
            continue;
        }
        let field = fields.get(column.at).copied().unwrap_or_default();
        found.push(time(field, column.unit_us).map_err(|why| format!("line {number}: {why}"))?);
    }
    match found.iter().all(Duration::is_zero) {
        true => Err("it has no hold that takes any time; write one duration a line, such as 20ms".into()),
        false => Ok(found),
    }
}

/// The fields of a line, without their quotes. Within quotes a comma is part of a field.
fn fields(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let between = |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    };
    line.split(between).map(|field| field.trim().trim_matches('"')).collect()
}

fn time(field: &str, unit_us: Option<f64>) -> Result<Duration, String> {
    let wrong =
        || format!("`{}` is no duration; write e.g. 20ms, or a header such as hold_ms", shown(field, 40));
    match (field.parse::<f64>(), unit_us) {
        (Ok(count), Some(unit_us)) if count >= 0.0 => {
            Duration::try_from_secs_f64(count * unit_us / 1e6).map_err(|_| wrong())
        }
        (Ok(_), _) => Err(wrong()),
        (Err(_), _) => parse_duration(field).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_duration_is_a_mean_and_whoever_knows_more_can_say_it() {
        assert_eq!(parsed("20ms"), Ok(Holds { mean: 20 * MILLISECOND, toml: None }));
        let exact = parsed("exactly 20ms").unwrap();
        assert_eq!((exact.mean, exact.toml.as_deref()), (20 * MILLISECOND, Some("\"20000us\"")));
        let text = "{ exponential = { mean = \"20ms\" } }";
        assert_eq!(parsed(text), Ok(Holds { mean: 20 * MILLISECOND, toml: Some(text.into()) }));
        for wrong in ["0ms", "-5ms", "2h", "20", "{ exponential = \"20ms\" }", "{ gamma = 3 }", "exactly", ""]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_has_one_hold_a_line_or_a_column_with_a_unit() {
        let ms = |all: &[u32]| all.iter().map(|one| *one * MILLISECOND).collect::<Vec<_>>();
        assert_eq!(times("3ms\n\n5 ms\n1s\n"), Ok(ms(&[3, 5, 1_000])));
        assert_eq!(times("time,hold_ms,lock\n0,3,a\n1,2.5,b\n").unwrap()[1], Duration::from_micros(2_500));
        assert_eq!(times("hold\n\"7ms\"\n"), Ok(ms(&[7])));
        assert_eq!(times("\u{feff}lock,hold_ms\r\n\"a,3\",7\r\n"), Ok(ms(&[7])));
        for (text, told) in [
            ("", "no hold that takes any time"),
            ("3ms\n4\n", "line 2: `4` is no duration"),
            ("hold_ms\n-4\n", "line 2: `-4` is no duration"),
            ("hold_s\nNaN\n", "line 2: `NaN` is no duration"),
            ("3ms,4ms\nfast\n", "line 2: `fast` is no duration"),
        ] {
            let found = times(text).unwrap_err();
            assert!(found.contains(told), "{text:?}: {found}");
        }
    }
}
