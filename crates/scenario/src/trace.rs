//! Arrivals from a CSV file, in order of time. `docs/workloads.md` describes the format.
//!
//! Readers of other formats pass arrivals to a [`TraceBuilder`]. This module opens no files.

use std::collections::HashMap;
use std::io::BufRead;
use std::time::Duration;

use csv::StringRecord;

use super::arrivals::TraceArrival;
use super::columns::{Columns, Delimited, Header, Numbers, TimeUnit, find, help_for_program, usual};
use super::diagnostic::nearest;
use super::file::CONTENDERS_MAX;
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::micros;
use zklockbench_core::units::{format_duration, shown};

/// Maximum time from the first arrival to the last.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of arrivals in a file.
const ROWS_MAX: usize = 5_000_000;
const COLUMNS: [&str; 4] = ["time", "lock", "hold", "mode"];

/// A file of arrivals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Arrivals in order of time.
    pub arrivals: Vec<TraceArrival>,
    /// Unit of the times, if it was inferred and is finer than seconds.
    pub inferred: Option<TimeUnit>,
}

impl From<Vec<TraceArrival>> for Trace {
    fn from(arrivals: Vec<TraceArrival>) -> Self {
        Self { arrivals, inferred: None }
    }
}

/// Collects arrivals. Errors state the line, the problem and, after `; `, the remedy.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// Whether arrivals may be added in any order.
    sorts: bool,
    first_us: u64,
    arrivals: Vec<TraceArrival>,
    /// Line of each arrival, if arrivals may be added in any order.
    lines: Vec<u64>,
    /// Each lock's number in order of appearance, and its first line.
    locks: HashMap<String, (usize, u64)>,
}

impl TraceBuilder {
    /// Adds an arrival from this line, at a time from any clock. Returns its index for
    /// [`TraceBuilder::held`].
    pub fn arrives(&mut self, line: u64, at_us: u64, lock: Option<&str>) -> Result<usize, String> {
        let number = self.arrivals.len();
        if number == 0 {
            self.first_us = at_us;
        }
        if number >= ROWS_MAX {
            return Err(format!("line {line}: more than {ROWS_MAX} arrivals; use only part of the file"));
        }
        let at_us = if self.sorts {
            self.lines.push(line);
            at_us
        } else {
            self.since_first(line, at_us)?
        };
        let lock = lock.map(|name| self.number_of(name, line)).transpose()?;
        self.arrivals.push(TraceArrival { at_us, lock, hold: None, mode: None });
        Ok(number)
    }

    fn since_first(&self, line: u64, at_us: u64) -> Result<u64, String> {
        let before = self.arrivals.last().map_or(0, |last| last.at_us);
        let Some(since) = at_us.checked_sub(self.first_us).filter(|since| *since >= before) else {
            return Err(format!(
                "line {line}: its time is earlier than the previous line's; sort the lines by time"
            ));
        };
        within_a_week(line, since)
    }

    /// Sorts the arrivals by time and makes their times relative to the first.
    fn sort(&mut self) -> Result<(), String> {
        let first_us = self.arrivals.iter().map(|arrival| arrival.at_us).min().unwrap_or(0);
        for (arrival, line) in self.arrivals.iter_mut().zip(&self.lines) {
            arrival.at_us = within_a_week(*line, arrival.at_us - first_us)?;
        }
        self.arrivals.sort_by_key(|arrival| arrival.at_us);
        Ok(())
    }

    pub fn held(&mut self, number: usize, hold: Duration) {
        if let Some(arrival) = self.arrivals.get_mut(number) {
            arrival.hold = Some(hold);
        }
    }

    pub fn asks(&mut self, number: usize, mode: Mode) {
        if let Some(arrival) = self.arrivals.get_mut(number) {
            arrival.mode = Some(mode);
        }
    }

    fn number_of(&mut self, name: &str, line: u64) -> Result<usize, String> {
        if let Some((number, _)) = self.locks.get(name) {
            return Ok(*number);
        }
        let number = self.locks.len();
        if number as u64 >= CONTENDERS_MAX {
            return Err(format!("line {line}: more than {CONTENDERS_MAX} locks; use only part of the file"));
        }
        self.locks.insert(name.to_owned(), (number, line));
        Ok(number)
    }

    /// Returns the arrivals. Locks keep their numbers if all names are numbers; otherwise, they are numbered
    /// in order of first use.
    pub fn finish(mut self) -> Result<Vec<TraceArrival>, String> {
        if self.sorts {
            self.sort()?;
        }
        let written: Option<Vec<_>> = self
            .locks
            .iter()
            .map(|(name, (number, line))| Some((*number, *line, name.parse::<u64>().ok()?)))
            .collect();
        let Some(mut written) = written else { return Ok(self.arrivals) };
        written.sort_unstable();
        if let Some((_, line, highest)) = written.iter().find(|(.., lock)| *lock >= CONTENDERS_MAX) {
            return Err(format!(
                "line {line}: lock {highest} is too large; use numbers below {CONTENDERS_MAX}, or names that \
                 are not all numbers"
            ));
        }
        for arrival in &mut self.arrivals {
            let number = arrival.lock.and_then(|number| written.get(number));
            arrival.lock = number.and_then(|(.., lock)| usize::try_from(*lock).ok());
        }
        Ok(self.arrivals)
    }
}

fn within_a_week(line: u64, since_us: u64) -> Result<u64, String> {
    if since_us <= micros(LONGEST) {
        return Ok(since_us);
    }
    let after = format_duration(Duration::from_micros(since_us));
    Err(format!("line {line}: {after} after the first arrival; a replay lasts at most a week"))
}

/// Reads arrivals from delimited text. If columns are named, other columns are ignored and rows may be in any
/// order.
pub fn trace_from_csv(input: impl BufRead, columns: &Columns) -> Result<Trace, String> {
    let mut table = Delimited::open(input, columns, columns.header(), false)?;
    let header = table.header()?;
    if header.is_empty() {
        return Err(
            "line 1: the file is empty; write a header such as time,hold and one arrival per line".into()
        );
    }
    let places = Places::of(&header, columns)?;
    let mut trace = TraceBuilder { sorts: columns.are_named(), ..TraceBuilder::default() };
    let mut inferred = None;
    let is_name = |column: usize| header.get(column).is_some_and(|cell| table.is_name(cell));
    let mut is_header = columns.header() == Header::Unknown
        && is_name(places.time.0)
        && places.hold.is_none_or(|(column, _)| is_name(column));
    while let Some(line) = table.next_row()? {
        if std::mem::take(&mut is_header) {
            continue;
        }
        let at = |problem: String| format!("line {line}: {problem}");
        let (column, numbers) = places.time;
        let due = table.cell(column);
        let due = due.ok_or_else(|| at("missing time; use seconds from an arbitrary start".to_owned()))?;
        if trace.arrivals.is_empty() {
            inferred = table.inferred_unit(due, numbers);
        }
        let due = table.time(due, numbers).map_err(|problem| at(format!("time {problem}")))?;
        let number = trace.arrives(line, micros(due), places.lock.and_then(|column| table.cell(column)))?;
        if let Some((column, unit)) = places.hold
            && let Some(text) = table.cell(column)
        {
            // Holds in seconds next to times in milliseconds would be a thousand times too long.
            let bare = if inferred.is_some() { Numbers::Refused } else { places.bare_holds };
            let numbers = Numbers::in_or(unit, bare);
            let hold = table.time(text, numbers).map_err(|problem| at(format!("hold {problem}")))?;
            if hold > LONGEST_HOLD {
                return Err(at(format!("hold `{}` is longer than a day; shorten it", shown(text, 60))));
            }
            trace.held(number, hold);
        }
        match places.mode.and_then(|column| table.cell(column)) {
            None => {}
            Some("read") => trace.asks(number, Mode::Read),
            Some("write") => trace.asks(number, Mode::Write),
            Some(other) => {
                return Err(at(format!("mode `{}` is unknown; use `read` or `write`", shown(other, 60))));
            }
        }
    }
    Ok(Trace { arrivals: trace.finish()?, inferred })
}

/// Positions of the columns, and how to interpret their numbers.
struct Places {
    time: (usize, Numbers),
    lock: Option<usize>,
    hold: Option<(usize, Option<TimeUnit>)>,
    /// How holds without a unit are interpreted if times have none either.
    bare_holds: Numbers,
    mode: Option<usize>,
}

impl Places {
    fn of(header: &StringRecord, columns: &Columns) -> Result<Self, String> {
        if !columns.are_named() {
            check_usual(header)?;
        }
        let Some((time, unit)) = find(header, columns.time.as_deref(), "time")? else {
            let help = help_for_program(header).unwrap_or(NAME_COLUMNS.to_owned());
            return Err(format!("line 1: there is no column `time`; {help}"));
        };
        let times = Numbers::in_or(columns.time_unit.or(unit), Numbers::BySize);
        let bare_holds = match (&columns.hold, unit) {
            (None, None | Some(TimeUnit::Seconds)) => Numbers::In(TimeUnit::Seconds),
            _ => Numbers::Refused,
        };
        let unit_of_holds = |unit: Option<TimeUnit>| columns.unit_of_holds().or(unit);
        Ok(Self {
            time: (time, times),
            lock: find(header, columns.lock.as_deref(), "lock")?.map(|(at, _)| at),
            hold: find(header, columns.hold.as_deref(), "hold")?.map(|(at, unit)| (at, unit_of_holds(unit))),
            bare_holds,
            mode: if columns.are_named() { None } else { find(header, None, "mode")?.map(|(at, _)| at) },
        })
    }
}

const NAME_COLUMNS: &str = "specify the columns with --time-column, --hold-column and --time-unit";

/// Rejects unknown columns and duplicate columns.
fn check_usual(header: &StringRecord) -> Result<(), String> {
    let mut found = [false; COLUMNS.len()];
    for name in header {
        let column = COLUMNS.iter().position(|column| usual(name, column).is_some());
        let Some(found) = column.and_then(|column| found.get_mut(column)) else {
            return Err(unknown_column(&shown(name, 60), header));
        };
        if std::mem::replace(found, true) {
            return Err(format!("line 1: two columns are named `{}`; rename one of them", shown(name, 60)));
        }
    }
    Ok(())
}

fn unknown_column(name: &str, header: &StringRecord) -> String {
    let program = help_for_program(header);
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        let options =
            program.unwrap_or("specify columns by number: --time-column 1 --hold-column 2".to_owned());
        return format!("line 1: no header; add one such as time,hold; {options}");
    }
    let near = nearest(name, COLUMNS).filter(|_| name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let help = program.unwrap_or_else(|| match near {
        Some(near) => format!("did you mean `{near}`? Otherwise, {NAME_COLUMNS}"),
        None if header.len() == 1 && name.contains(' ') => {
            format!("separate cells with commas, or {NAME_COLUMNS}")
        }
        None => NAME_COLUMNS.to_owned(),
    });
    format!("line 1: unknown column `{name}`; {help}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(text: &str) -> Result<Vec<TraceArrival>, String> {
        trace_from_csv(text.as_bytes(), &Columns::default()).map(|trace| trace.arrivals)
    }

    fn arrival(at_us: u64, lock: Option<usize>, hold_ms: Option<u64>) -> TraceArrival {
        TraceArrival { at_us, lock, hold: hold_ms.map(Duration::from_millis), mode: None }
    }

    #[test]
    fn mode_column_determines_whether_arrivals_are_reads_or_writes() {
        let modes = trace("time,mode\n0,read\n1,write\n2,\n").unwrap();
        let modes: Vec<_> = modes.iter().map(|arrival| arrival.mode).collect();
        assert_eq!(modes, [Some(Mode::Read), Some(Mode::Write), None]);
    }

    #[test]
    fn times_with_and_without_units_are_relative_to_the_first_arrival() {
        let arrivals = trace("time\n1763838143.000001\n1763838143.5\n1763838144.25\n").unwrap();
        assert_eq!(arrivals, [0, 499_999, 1_249_999].map(|at| arrival(at, None, None)));
        let arrivals = trace("time\n500ms\n1s 1ms\n2s\n").unwrap();
        assert_eq!(arrivals, [0, 501_000, 1_500_000].map(|at| arrival(at, None, None)));
    }

    #[test]
    fn unit_is_reported_only_if_it_was_inferred_from_large_numbers() {
        for (text, unit) in [
            ("time\n1700158623979\n1700158624979\n", Some(TimeUnit::Milliseconds)),
            // Microseconds since 1970, or nanoseconds since the host started 20 days ago.
            ("time\n1730000000000000\n1730060000000000\n", Some(TimeUnit::Microseconds)),
            ("time_ms\n1700158623979\n", None),
            ("time;hold\n1700158623979,5;1s\n", Some(TimeUnit::Milliseconds)),
            ("time\n1700158623.979\n", None),
            ("time\n2023-11-16T18:17:03.97Z\n", None),
        ] {
            assert_eq!(
                trace_from_csv(text.as_bytes(), &Columns::default()).unwrap().inferred,
                unit,
                "{text}"
            );
        }
    }

    #[test]
    fn locks_are_numbered_in_order_of_first_use_unless_all_their_names_are_numbers() {
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
    fn delimiters_dates_and_units_are_recognised_and_header_case_is_ignored() {
        let two = [arrival(0, None, Some(5)), arrival(500_000, None, Some(7))];
        for text in [
            "time;hold\n0,0;5ms\n0,5;7ms\n",
            "time\thold\n0.0\t5ms\n0.5\t7ms\n",
            "time|hold\n0|5ms\n0.5|7ms\n",
            "sep=;\r\ntime;hold\r\n0,0;5ms\r\n0,5;7ms\r\n",
            "\u{feff}# a comment, with a comma\n\n#\ntime;hold\n0,0;5ms\n0,5;7ms\n",
            "\u{feff}Time,HOLD\r\n0,5ms\r\n\"0.5\",7ms\r\n",
            "time,hold_ms\n2023-11-16T18:17:03.5Z,5\n2023-11-16T20:17:04+02:00,7\n",
            "time,hold\n1700158623979,5ms\n1700158624479,7ms\n",
            "time_us,hold_s\n100,0.005\n500100,0.007\n",
        ] {
            assert_eq!(trace(text).unwrap(), two, "{text:?}");
        }
    }

    #[test]
    fn rows_of_load_generator_files_may_be_in_any_order_if_columns_are_named() {
        let columns =
            |time: &str, hold: &str, time_unit: Option<TimeUnit>, hold_unit: Option<TimeUnit>| Columns {
                time: Some(time.into()),
                hold: Some(hold.into()),
                time_unit,
                hold_unit,
                ..Columns::default()
            };
        let (ms, ns) = (Some(TimeUnit::Milliseconds), Some(TimeUnit::Nanoseconds));
        let jmeter =
            "timeStamp,elapsed,label,success\n1700158624031,95,\"a, b\",true\n1700158623979,120,a,true\n";
        let k6 = "metric_name,timestamp,metric_value,check\nhttp_req_duration,1700158623,120,\nhttp_req_duration,1700158624,95,\n";
        let vegeta = "1700158623979000000,200,120000000,0,9,,\n1700158624031000000,200,95000000,0,9,,\n";
        let bars = "time|hold|label (a, b, c, d)\n0|120ms|\n1|95ms|\n";
        let vegeta_with_header = format!("Timestamp,Code,Latency,BytesOut,BytesIn,Error,Attack\n{vegeta}");
        for (text, columns, gap_us) in [
            (jmeter, columns("timestamp", "elapsed", ms, None), 52_000),
            (k6, columns("timestamp", "metric_value", None, ms), 1_000_000),
            (vegeta, columns("1", "3", ns, None), 52_000),
            (&vegeta_with_header, columns("Timestamp", "Latency", ns, None), 52_000),
            (&vegeta_with_header, columns("1", "3", ns, None), 52_000),
            ("time_s,hold_ms\n0,120\n1,95\n", columns("1", "2", None, None), 1_000_000),
            ("time,hold,a|b|c|d\n0,120ms,\n1,95ms,\n", columns("time", "hold", None, None), 1_000_000),
            (bars, columns("time", "hold", None, None), 1_000_000),
            ("0|120ms|GET /a,b,c,d\n1|95ms|\n", columns("1", "2", Some(TimeUnit::Seconds), None), 1_000_000),
            ("#time,hold\n0,120ms\n1,95ms\n", columns("#time", "hold", None, None), 1_000_000),
        ] {
            let expected = [arrival(0, None, Some(120)), arrival(gap_us, None, Some(95))];
            assert_eq!(trace_from_csv(text.as_bytes(), &columns).unwrap().arrivals, expected, "{text}");
        }
        let unknown = "line 1: there is no column `time_stamp`; the columns are `timeStamp`";
        let (short, uneven) =
            (&vegeta[..63], "line 2: expected as many cells as in the first line (7), found 2");
        let two_metrics = &*k6.replace("http_req_duration,1700158624", "http_reqs,1700158624");
        let mixed = "line 3: its metric is `http_reqs`, but earlier lines have `http_req_duration`; keep one";
        let unitless = "line 2: hold `95` has no unit; use --hold-unit with one of";
        for (text, columns, told) in [
            (jmeter, columns("time_stamp", "elapsed", ms, None), unknown),
            (jmeter, columns("timeStamp", "elapsed", None, None), unitless),
            (short, columns("1", "3", ns, None), uneven),
            (vegeta, columns("1", "9", ns, None), "line 1: there is no column `9`"),
            (vegeta, columns("0", "3", ns, None), "line 1: there is no column `0`"),
            ("n/a,120\n1,95\n", columns("1", "2", ms, None), "line 1: time `n/a` is neither"),
            (two_metrics, columns("timestamp", "metric_value", None, ms), mixed),
        ] {
            let error = trace_from_csv(text.as_bytes(), &columns).unwrap_err();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line_and_a_remedy() {
        for (text, said) in [
            ("", "line 1: the file is empty; write a header"),
            ("\n\n", "line 1: the file is empty; write a header"),
            (
                "0.5\n1\n",
                "line 1: no header; add one such as time,hold; specify columns by number: --time-column 1",
            ),
            ("at,duration\n0,1\n", "line 1: unknown column `at`; specify the columns with --time-column"),
            ("lock\na\n", "line 1: there is no column `time`; specify the columns with --time-column"),
            ("time,time_ms\n0,1\n", "line 1: two columns are named `time_ms`"),
            ("time\n5000000000\n", "line 2: time `5000000000` has no unit; use --time-unit with one of"),
            (
                "time,lok\n0,1\n",
                "line 1: unknown column `lok`; did you mean `lock`? Otherwise, specify the columns with --time-column",
            ),
            (
                "time (ms)\n0\n",
                "line 1: unknown column `time (ms)`; separate cells with commas, or specify the columns",
            ),
            ("time hold\n0 1\n", "line 1: unknown column `time hold`; separate cells with commas, or"),
            ("# made by hand\nsep=;\ntime;hold\n0;x\n", "line 4: hold `x` is neither"),
            ("time_s\n1700158623979\n", "line 2: time `1700158623979` is too large in s; use --time-unit ms"),
            ("time_s\n5e9\n", "line 2: time `5e9` is too large in s; use a finer --time-unit or --hold-unit"),
            (
                "time\n300000000000000\n300060000000000\n",
                "line 2: time `300000000000000` has no unit; use --time-unit",
            ),
            ("time,hold\n1700158623979,120\n", "line 2: hold `120` has no unit; use --hold-unit"),
            ("time_ms,hold\n0,120\n", "line 2: hold `120` has no unit; use --hold-unit"),
            (
                "time,hold\n\"0,5\",20ms\n",
                "line 2: time `0,5` has a comma; if it is a decimal comma, convert the file: sed -E 's/\"([0-9]+),([0-9]+)\"",
            ),
            (
                "time\thold_ms\n0\t1,5\n",
                "line 2: hold `1,5` has a comma; if it is a decimal comma, convert the file",
            ),
            ("time\n16.11.2023 18:17:03\n", "line 2: time `16.11.2023 18:17:03` is neither"),
            ("time,time\n0,1\n", "line 1: two columns are named `time`"),
            ("time\n0\n\n1\n0.5\n", "line 5: its time is earlier than the previous line's; sort"),
            ("time\n5\n4\n", "line 3: its time is earlier"),
            ("time\n-1\n", "line 2: time `-1` is negative; use a value such as 1.25"),
            ("time\n-20ms\n", "line 2: time `-20ms` is negative"),
            (
                "time\n-x\n",
                "line 2: time `-x` is neither a number of seconds, a duration nor a date; use a value such as 1.25, \
                 1250ms or 2023-11-16T18:17:03.97Z",
            ),
            ("time\nnan\n", "line 2: time `nan` is neither"),
            ("time\n1e300\n", "line 2: time `1e300` is neither"),
            ("time,lock\n,1\n", "line 2: missing time"),
            (
                "time\n0\n1000000\n",
                "line 3: 11days 13h 46m 40s after the first arrival; a replay lasts at most",
            ),
            ("time,hold\n0,soon\n", "line 2: hold `soon` is neither"),
            ("time,mode\n0,look\n", "line 2: mode `look` is unknown; use `read` or `write`"),
            ("time,hold\n0,2d\n", "line 2: hold `2d` is longer than a day"),
            ("time,lock\n0,1\n1\n", "line 3: expected as many cells as in the first line (2), found 1"),
            ("time,lock\n0,1\n1,100000\n", "line 3: lock 100000 is too large; use numbers below 100000"),
        ] {
            let told = trace(text).unwrap_err();
            assert!(told.starts_with(said), "{text:?}: {told}");
            for end in ["\r\n", "\r"] {
                let seen = trace(&text.replace('\n', end)).unwrap_err();
                assert_eq!(seen, told, "{text:?} with line ends {end:?}");
            }
        }
        assert!(
            trace_from_csv(&b"time,lock\n0,\xff\n"[..], &Columns::default())
                .unwrap_err()
                .starts_with("line 2: not UTF-8")
        );
    }

    #[test]
    fn files_of_other_programs_are_rejected_with_the_options_or_command_to_read_them() {
        for (bytes, said) in [
            (
                &b"timeStamp,elapsed,label\n"[..],
                "line 1: unknown column `timeStamp`; to read a JMeter file, use --time-column timeStamp",
            ),
            (
                b"metric_name,timestamp,metric_value\n",
                "line 1: unknown column `metric_name`; to read a k6 file, use",
            ),
            (
                b"response-time,DNS+dialup,offset\n",
                "line 1: unknown column `response-time`; to read a hey file, use --time-column offset",
            ),
            (
                b"starttime\tseconds\tctime\tdtime\tttime\twait\n",
                "line 1: unknown column `starttime`; to read an `ab -g` file, use --time-column seconds",
            ),
            (
                b"Timestamp,User Count,Type\n",
                "line 1: unknown column `Timestamp`; a Locust history has no row per request",
            ),
            (b"\x1f\x8b\x08", "is compressed; decompress it: gunzip -k FILE"),
            (b"\xfd7zXZ\0", "is compressed; decompress it: xz -dk FILE"),
            (b"\x28\xb5\x2f\xfd", "is compressed; decompress it: zstd -d FILE"),
            (b"BZh91AY", "is compressed; decompress it: bunzip2 -k FILE"),
            (b"PK\x03\x04", "is a spreadsheet or a ZIP archive"),
            (b"<?xml version=\"1.0\"?>\n<testResults version=\"1.2\">", "is JMeter XML; set jmeter.save"),
            (b"{\"type\":\"Metric\",\"data\":{}}", "is k6 JSON; convert it: jq -r 'select("),
            (
                b"{\"attack\":\"\",\"seq\":0,\"latency\":5}",
                "is in another vegeta format; convert it: vegeta encode",
            ),
            (
                b"\x7f\x7f\x03Result\x01\x06Attack\x01\x09Timestamp\x01\x08BytesOut",
                "is in another vegeta format",
            ),
            (b"RUN\tSimulation\t\tsimulation\t1481907959927\t \t2.0\n", "is a Gatling log; convert it: awk"),
            (b"[{\"at\":5}]", "is JSON; convert it to CSV"),
            (b"\xef\xbb\xbf {\"at\":5}", "is JSON; convert it to CSV"),
        ] {
            let told = trace_from_csv(bytes, &Columns::default()).unwrap_err();
            assert!(told.starts_with(said), "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_yields_sorted_arrivals_or_an_error_with_a_line_number(text in "(time(,lock)?\n)?[0-9a-z,.\"\n é]{0,60}") {
            match trace(&text) {
                Ok(arrivals) => prop_assert!(arrivals.is_sorted_by_key(|arrival| arrival.at_us)),
                Err(told) => prop_assert!(told.starts_with("line "), "{}", told),
            }
        }
    }
}
