//! Arrivals from a file: CSV in, arrivals in order of time out. `docs/workloads.md` describes the format.
//!
//! This module opens no files and knows no other format; readers of other formats pass arrivals to a [`TraceBuilder`].

use std::collections::HashMap;
use std::io::Read;
use std::time::Duration;

use super::arrivals::TraceArrival;
use super::diagnostic::did_you_mean;

use super::file::CONTENDERS_MAX;
use zklockbench_core::clock::micros;
use zklockbench_core::units::{format_duration, parse_duration, shown};

/// Longest time from the first arrival to the last.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);
/// Latest time in decimal seconds: later than any clock's, and exact in microseconds.
const LATEST_S: f64 = 4e9;
/// Most arrivals of a file.
const ROWS_MAX: usize = 5_000_000;
const COLUMNS: [&str; 3] = ["time", "lock", "hold"];

/// Collects arrivals one after the other. Errors name the line, what is wrong with it and, after `; `, what to do.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    first_us: u64,
    arrivals: Vec<TraceArrival>,
    /// Each lock's number in order of appearance, and its first line.
    locks: HashMap<String, (usize, u64)>,
}

impl TraceBuilder {
    /// Adds an arrival, read from that line, at that time of any clock. Returns its number, for [`TraceBuilder::held`].
    pub fn arrives(&mut self, line: u64, at_us: u64, lock: Option<&str>) -> Result<usize, String> {
        let number = self.arrivals.len();
        if number == 0 {
            self.first_us = at_us;
        }
        if number >= ROWS_MAX {
            return Err(format!(
                "line {line}: these are more than {ROWS_MAX} arrivals; leave a part of the file out"
            ));
        }
        let before = self.arrivals.last().map_or(0, |last| last.at_us);
        let Some(since) = at_us.checked_sub(self.first_us).filter(|since| *since >= before) else {
            return Err(format!(
                "line {line}: its time is before that of the line before; sort the lines by time"
            ));
        };
        if since > micros(LONGEST) {
            let after = format_duration(Duration::from_micros(since));
            return Err(format!("line {line}: {after} after the first; a replay takes at most a week"));
        }
        let lock = lock.map(|name| self.number_of(name, line)).transpose()?;
        self.arrivals.push(TraceArrival { at_us: since, lock, hold: None });
        Ok(number)
    }

    pub fn held(&mut self, number: usize, hold: Duration) {
        if let Some(arrival) = self.arrivals.get_mut(number) {
            arrival.hold = Some(hold);
        }
    }

    fn number_of(&mut self, name: &str, line: u64) -> Result<usize, String> {
        if let Some((number, _)) = self.locks.get(name) {
            return Ok(*number);
        }
        let number = self.locks.len();
        if number as u64 >= CONTENDERS_MAX {
            return Err(format!(
                "line {line}: these are more than {CONTENDERS_MAX} locks; leave a part of the file out"
            ));
        }
        self.locks.insert(name.to_owned(), (number, line));
        Ok(number)
    }

    /// The arrivals. Locks keep their numbers if all are numbers; otherwise their names are numbered in order of appearance.
    pub fn finish(mut self) -> Result<Vec<TraceArrival>, String> {
        let written: Option<Vec<_>> = self
            .locks
            .iter()
            .map(|(name, (number, line))| Some((*number, *line, name.parse::<u64>().ok()?)))
            .collect();
        let Some(mut written) = written else { return Ok(self.arrivals) };
        written.sort_unstable();
        if let Some((_, line, highest)) = written.iter().find(|(.., lock)| *lock >= CONTENDERS_MAX) {
            return Err(format!(
                "line {line}: the lock {highest}; locks are numbers below {CONTENDERS_MAX}, or names of which one is no number"
            ));
        }
        for arrival in &mut self.arrivals {
            let number = arrival.lock.and_then(|number| written.get(number));
            arrival.lock = number.and_then(|(.., lock)| usize::try_from(*lock).ok());
        }
        Ok(self.arrivals)
    }
}

/// The arrivals of a CSV file with a header.
pub fn trace_from_csv(input: impl Read) -> Result<Vec<TraceArrival>, String> {
    let input = LineFeeds { input, after_return: false };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
    let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
    let [time, lock, hold] = columns(&header)?;
    let mut trace = TraceBuilder::default();
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(|error| unreadable(&error))? {
        let line = row.position().map_or(0, csv::Position::line);
        let cell = |column: Option<usize>| column.and_then(|at| row.get(at)).filter(|text| !text.is_empty());
        let at = |problem: String| format!("line {line}: {problem}");
        let due =
            cell(time).ok_or_else(|| at("it has no time; write seconds since any moment".to_owned()))?;
        let due = moment(due).map_err(|problem| at(format!("time {problem}")))?;
        let number = trace.arrives(line, micros(due), cell(lock))?;
        if let Some(text) = cell(hold) {
            let hold = moment(text).map_err(|problem| at(format!("hold {problem}")))?;
            if hold > LONGEST_HOLD {
                return Err(at(format!("hold `{}` is longer than a day; shorten it", shown(text, 60))));
            }
            trace.held(number, hold);
        }
    }
    trace.finish()
}

/// The input with a line feed at the end of each line. The CSV reader also accepts carriage returns but counts line feeds, so a
/// line after both would get the number of the one before.
struct LineFeeds<R> {
    input: R,
    after_return: bool,
}

impl<R: Read> Read for LineFeeds<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.input.read(into)?;
            let mut kept = 0;
            for at in 0..read {
                let byte = into[at];
                if byte != b'\n' || !self.after_return {
                    into[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
                self.after_return = byte == b'\r';
            }
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

fn columns(header: &csv::StringRecord) -> Result<[Option<usize>; 3], String> {
    let mut places = [None; 3];
    for (at, name) in header.iter().enumerate() {
        let column = COLUMNS.iter().position(|column| *column == name);
        let Some(place) = column.and_then(|column| places.get_mut(column)) else {
            let otherwise = "the columns are `time`, `lock` and `hold`, and the first line names them";
            let help = did_you_mean(name, COLUMNS, otherwise);
            return Err(format!("line 1: unknown column `{}`; {help}", shown(name, 60)));
        };
        if place.replace(at).is_some() {
            return Err(format!("line 1: two columns are named `{name}`; rename one of them"));
        }
    }
    if places[0].is_none() {
        return Err("line 1: there is no column `time`; name the columns in the first line".to_owned());
    }
    Ok(places)
}

/// Seconds as a decimal number, or a duration with its unit.
fn moment(text: &str) -> Result<Duration, String> {
    let wrong = || {
        let text = shown(text, 60);
        format!("`{text}` is neither a number of seconds nor a duration; write e.g. 1.25 or 1250ms")
    };
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=LATEST_S).contains(&seconds) => {
            Ok(Duration::from_micros((seconds * 1e6).round() as u64))
        }
        Ok(_) => Err(wrong()),
        Err(_) => parse_duration(text).map_err(|_| wrong()),
    }
}

fn unreadable(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!(
                "line {line}: {len} cells where the first line has {expected_len}; leave cells empty, not out"
            )
        }
        csv::ErrorKind::Utf8 { .. } => format!("line {line}: it is not UTF-8; save the file as UTF-8"),
        _ => format!("line {line}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(text: &str) -> Result<Vec<TraceArrival>, String> {
        trace_from_csv(text.as_bytes())
    }

    fn arrival(at_us: u64, lock: Option<usize>, hold_ms: Option<u64>) -> TraceArrival {
        TraceArrival { at_us, lock, hold: hold_ms.map(Duration::from_millis) }
    }

    #[test]
    fn times_count_from_the_first_in_seconds_or_with_a_unit() {
        let arrivals = trace("time\n1763838143.000001\n1763838143.5\n1763838144.25\n").unwrap();
        assert_eq!(arrivals, [0, 499_999, 1_249_999].map(|at| arrival(at, None, None)));
        let arrivals = trace("time\n500ms\n1s 1ms\n2s\n").unwrap();
        assert_eq!(arrivals, [0, 501_000, 1_500_000].map(|at| arrival(at, None, None)));
    }

    #[test]
    fn locks_that_are_numbers_keep_them_and_names_are_numbered_as_they_appear() {
        let text = "hold, time, lock\n20ms, 0, 3\n, 1, 0\n0.5, 2,\n";
        assert_eq!(
            trace(text).unwrap(),
            [
                arrival(0, Some(3), Some(20)),
                arrival(1_000_000, Some(0), None),
                arrival(2_000_000, None, Some(500))
            ]
        );
        let names = trace("time,lock\n0,orders\n0,7\n1,orders\n").unwrap();
        assert_eq!(names.iter().map(|arrival| arrival.lock).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line_and_a_remedy() {
        for (text, said) in [
            ("", "line 1: there is no column `time`; name the columns in the first line"),
            ("0.5\n1\n", "line 1: unknown column `0.5`; the columns are `time`"),
            ("time,lok\n0,1\n", "line 1: unknown column `lok`; did you mean `lock`?"),
            ("time,time\n0,1\n", "line 1: two columns are named `time`"),
            ("time\n0\n\n1\n0.5\n", "line 5: its time is before that of the line before; sort"),
            ("time\n5\n4\n", "line 3: its time is before"),
            (
                "time\n-1\n",
                "line 2: time `-1` is neither a number of seconds nor a duration; write e.g. 1.25",
            ),
            ("time\nnan\n", "line 2: time `nan` is neither"),
            ("time\n1e300\n", "line 2: time `1e300` is neither"),
            ("time,lock\n,1\n", "line 2: it has no time"),
            ("time\n0\n1000000\n", "line 3: 11days 13h 46m 40s after the first; a replay takes at most"),
            ("time,hold\n0,soon\n", "line 2: hold `soon` is neither"),
            ("time,hold\n0,2d\n", "line 2: hold `2d` is longer than a day"),
            ("time,lock\n0,1\n1\n", "line 3: 1 cells where the first line has 2"),
            ("time,lock\n0,1\n1,100000\n", "line 3: the lock 100000; locks are numbers below 100000"),
        ] {
            let told = trace(text).unwrap_err();
            assert!(told.starts_with(said), "{text:?}: {told}");
            for end in ["\r\n", "\r"] {
                assert_eq!(
                    trace(&text.replace('\n', end)).unwrap_err(),
                    told,
                    "{text:?} with {end:?} for ends"
                );
            }
        }
        assert!(
            trace_from_csv(&b"time,lock\n0,\xff\n"[..]).unwrap_err().starts_with("line 2: it is not UTF-8")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_arrivals_by_their_time_or_a_mistake_with_its_line(text in "(time(,lock)?\n)?[0-9a-z,.\"\n é]{0,60}") {
            match trace(&text) {
                Ok(arrivals) => prop_assert!(arrivals.is_sorted_by_key(|arrival| arrival.at_us)),
                Err(told) => prop_assert!(told.starts_with("line "), "{}", told),
            }
        }
    }
}
