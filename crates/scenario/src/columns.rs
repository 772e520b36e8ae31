//! Parses tables of times from spreadsheets and load generators, with their delimiters, column names, units
//! and dates.

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use csv::{Position, Reader, ReaderBuilder, StringRecord, Trim};

use super::diagnostic::listed;
use zklockbench_core::units::{parse_duration, shown};
use zklockbench_core::worded;

/// Maximum time in seconds: later than any real clock, but still exact in microseconds.
const LATEST_S: f64 = 4e9;
/// Times since 1970, in seconds, for which a unit finer than seconds is inferred: the years 2015 to 2060. Clocks
/// that start with the host show much smaller times.
const DATES_S: RangeInclusive<f64> = 1.42e9..=2.84e9;

/// Names of the time, lock and hold columns, if they are not the default names, and the units of the numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Name of the column or its number, starting at 1.
    pub time: Option<String>,
    pub lock: Option<String>,
    pub hold: Option<String>,
    pub time_unit: Option<TimeUnit>,
    /// Defaults to `time_unit`.
    pub hold_unit: Option<TimeUnit>,
}

impl Columns {
    /// Fills missing settings from `other`.
    pub fn or(self, other: &Self) -> Self {
        Self {
            time: self.time.or_else(|| other.time.clone()),
            lock: self.lock.or_else(|| other.lock.clone()),
            hold: self.hold.or_else(|| other.hold.clone()),
            time_unit: self.time_unit.or(other.time_unit),
            hold_unit: self.hold_unit.or(other.hold_unit),
        }
    }

    fn named(&self) -> impl Iterator<Item = &String> {
        [&self.time, &self.lock, &self.hold].into_iter().flatten()
    }

    /// Returns whether any column is named. If so, the file may have further columns, and rows in any order.
    pub(super) fn are_named(&self) -> bool {
        self.named().next().is_some()
    }

    /// Returns whether the first line is a header. It may be one even if columns are specified by number only.
    pub(super) fn header(&self) -> Header {
        let are_numbers = self.named().all(|name| name.parse::<usize>().is_ok());
        if self.are_named() && are_numbers { Header::Unknown } else { Header::Present }
    }

    pub(super) fn unit_of_holds(&self) -> Option<TimeUnit> {
        self.hold_unit.or(self.time_unit)
    }
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TimeUnit by name {
        Seconds = "s",
        Milliseconds = "ms",
        Microseconds = "us",
        Nanoseconds = "ns",
    }
}

impl TimeUnit {
    pub(super) const NAMES: [&'static str; 4] = ["s", "ms", "us", "ns"];

    fn per_second(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 1e3,
            Self::Microseconds => 1e6,
            Self::Nanoseconds => 1e9,
        }
    }

    /// Returns the unit in which a number is a plausible time: seconds, or a finer unit for times since 1970.
    fn by_size(number: f64) -> Option<Self> {
        let is_date = |unit: &Self| DATES_S.contains(&(number / unit.per_second()));
        if number <= LATEST_S { Some(Self::Seconds) } else { Self::ALL.into_iter().find(is_date) }
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = Self::ALL.into_iter().find(|unit| unit.name() == text);
        unit.ok_or_else(|| format!("`{}` is not one of {}", shown(text, 20), listed(Self::NAMES)))
    }
}

/// How numbers without a unit are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    In(TimeUnit),
    /// Seconds, or a time since 1970 in the unit that fits the magnitude.
    BySize,
    Refused,
}

impl Numbers {
    pub(super) fn in_or(unit: Option<TimeUnit>, otherwise: Self) -> Self {
        unit.map_or(otherwise, Self::In)
    }

    fn unit_of(self, number: f64) -> Option<TimeUnit> {
        match self {
            Self::In(unit) => Some(unit),
            Self::BySize => TimeUnit::by_size(number),
            Self::Refused => None,
        }
    }
}

/// Whether the first row is a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Present,
    /// The caller decides.
    Unknown,
}

/// Reads rows whose cells are separated by commas, semicolons, tabs or `|`.
pub(super) struct Delimited<R> {
    reader: Reader<LineFeeds<R>>,
    /// Number of lines before the first row.
    skipped: u64,
    row: StringRecord,
    delimiter: u8,
    /// In files with several metrics: index of the metric column, and its first value.
    metric: Option<(usize, Option<String>)>,
}

impl<R: BufRead> Delimited<R> {
    /// Skips comments at the start. Returns an error for a file in another format.
    pub(super) fn open(
        mut input: R,
        columns: &Columns,
        header: Header,
        is_flexible: bool,
    ) -> Result<Self, String> {
        let start = input.fill_buf().unwrap_or_default();
        let json = text_in(start).first().filter(|byte| b"{[".contains(byte)).map(|_| JSON);
        if let Some(what) = foreign(start).or(json) {
            return Err(what.to_owned());
        }
        let (skipped, named) =
            skip_preamble(&mut input, columns.named().any(|name| name.trim().starts_with('#')));
        let delimiter = named.unwrap_or_else(|| delimiter(&mut input, columns));
        let input = LineFeeds { input, after_return: false };
        let mut settings = ReaderBuilder::new();
        settings.delimiter(delimiter).has_headers(header == Header::Present).trim(Trim::All);
        settings.flexible(is_flexible);
        Ok(Self {
            reader: settings.from_reader(input),
            skipped,
            row: StringRecord::new(),
            delimiter,
            metric: None,
        })
    }

    /// Reads the header.
    pub(super) fn header(&mut self) -> Result<StringRecord, String> {
        let header = self.reader.headers().map_err(|error| unreadable(&error, self.skipped))?.clone();
        self.metric = header.iter().position(|name| name == K6_METRIC).map(|at| (at, None));
        Ok(header)
    }

    /// Reads the next row and returns its line number; `None` at the end of the file.
    pub(super) fn next_row(&mut self) -> Result<Option<u64>, String> {
        if !self.reader.read_record(&mut self.row).map_err(|error| unreadable(&error, self.skipped))? {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, Position::line) + self.skipped;
        self.check_metric(line)?;
        Ok(Some(line))
    }

    /// Rejects rows of different metrics, because each request would be counted several times.
    fn check_metric(&mut self, line: u64) -> Result<(), String> {
        let Some((column, first)) = &mut self.metric else { return Ok(()) };
        let Some(found) = self.row.get(*column).filter(|found| *found != K6_METRIC) else { return Ok(()) };
        let first = first.get_or_insert_with(|| found.to_owned());
        if first == found {
            return Ok(());
        }
        let (first, found) = (shown(first, 60), shown(found, 60));
        Err(format!(
            "line {line}: its metric is `{found}`, but earlier lines have `{first}`; keep one, e.g. \
             grep -E '^({K6_METRIC}|http_req_duration),' FILE > trace.csv"
        ))
    }

    pub(super) fn row(&self) -> &StringRecord {
        &self.row
    }

    /// Returns a cell of the current row; `None` if it is empty.
    pub(super) fn cell(&self, column: usize) -> Option<&str> {
        self.row.get(column).filter(|text| !text.is_empty())
    }

    fn number(&self, text: &str) -> Option<f64> {
        self.with_points(text).parse().ok()
    }

    /// Replaces decimal commas, which numbers have in files with semicolons.
    fn with_points<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.delimiter == b';' { text.replace(',', ".").into() } else { text.into() }
    }

    /// Returns the problem with a number that has a comma; `None` for other text.
    fn with_comma(&self, text: &str) -> Option<String> {
        text.replace(',', ".").parse::<f64>().ok().filter(|_| text.contains(','))?;
        let command = match self.delimiter {
            // Commas outside quotes separate cells.
            b',' => r#"sed -E 's/"([0-9]+),([0-9]+)"/\1.\2/g'"#,
            _ => r"sed -E 's/([0-9]),([0-9])/\1.\2/g'",
        };
        let text = shown(text, 60);
        Some(format!(
            "`{text}` has a comma; if it is a decimal comma, convert the file: {command} FILE > trace.csv"
        ))
    }

    /// Returns whether a cell of the first row is the name of a column.
    pub(super) fn is_name(&self, cell: &str) -> bool {
        let begins = |first: char| first.is_alphabetic() || "_#".contains(first);
        cell.starts_with(begins) && self.number(cell).is_none()
    }

    /// Returns the unit of a time, if it is inferred and finer than seconds.
    pub(super) fn inferred_unit(&self, time: &str, numbers: Numbers) -> Option<TimeUnit> {
        let number = self.number(time).filter(|_| numbers == Numbers::BySize)?;
        TimeUnit::by_size(number).filter(|unit| *unit != TimeUnit::Seconds)
    }

    /// Parses a number, a duration with a unit, or a date with a time.
    pub(super) fn time(&self, text: &str, numbers: Numbers) -> Result<Duration, String> {
        let text_shown = shown(text, 60);
        let wrong = || {
            format!(
                "`{text_shown}` is neither a number of seconds, a duration nor a date; use a value such as 1.25, \
                 1250ms or 2023-11-16T18:17:03.97Z"
            )
        };
        let negative = || format!("`{text_shown}` is negative; use a value such as 1.25 or 1250ms");
        let Some(number) = self.number(text) else {
            if text.strip_prefix('-').is_some_and(|rest| parse_duration(rest).is_ok()) {
                return Err(negative());
            }
            let duration = parse_duration(&self.with_points(text)).ok();
            let time = duration.or_else(|| since_1970(text));
            return time.ok_or_else(|| self.with_comma(text).unwrap_or_else(wrong));
        };
        if number < 0.0 {
            return Err(negative());
        }
        if !(0.0..=LATEST_S * 1e9).contains(&number) {
            return Err(wrong());
        }
        let Some(unit) = numbers.unit_of(number) else {
            let option = if numbers == Numbers::Refused { "--hold-unit" } else { "--time-unit" };
            return Err(format!(
                "`{text_shown}` has no unit; use {option} with one of {}",
                listed(TimeUnit::NAMES)
            ));
        };
        let seconds = number / unit.per_second();
        if seconds > LATEST_S {
            let finer = match TimeUnit::by_size(number) {
                Some(finer) => format!("--time-unit {}", finer.name()),
                None => "a finer --time-unit or --hold-unit".to_owned(),
            };
            return Err(format!("`{text_shown}` is too large in {}; use {finer}", unit.name()));
        }
        Ok(Duration::from_micros((seconds * 1e6).round() as u64))
    }
}

/// Parses a date with a time, such as `2023-11-16T18:17:03.97Z`, `2023/11/16 19:17:03,97 +0100` or
/// `2023-11-16 18:17:03.97 +0000 UTC`, as time since 1970.
fn since_1970(text: &str) -> Option<Duration> {
    const DATE: usize = "2023-11-16T".len();
    let as_in_rfc3339 = |character: char| match character {
        '/' => '-',
        ',' => '.',
        other => other.to_ascii_uppercase(),
    };
    let text: String = text.chars().map(as_in_rfc3339).collect();
    let text = text.strip_suffix("UTC").unwrap_or(&text).trim_end();
    let zone = text.get(DATE..)?.find(['+', '-']).map(|at| at + DATE);
    let (stamp, zone) = text.split_at(zone.unwrap_or(text.len()));
    let at = humantime::parse_rfc3339_weak(stamp.trim_end()).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let digits = zone.get(1..).unwrap_or_default().replace(':', "");
    let (hours, minutes) = if digits.is_empty() { (0, 0) } else { digits_of(&digits)? };
    let ahead = Duration::from_secs(hours * 3_600 + minutes * 60);
    if zone.starts_with('-') { at.checked_add(ahead) } else { at.checked_sub(ahead) }
}

/// Parses the hours and minutes of a time zone such as `0530` or `05`.
fn digits_of(zone: &str) -> Option<(u64, u64)> {
    let (hours, minutes) = zone.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
    Some((hours.parse().ok()?, minutes))
}

/// Index of a column, and the unit in its name.
pub(super) type Place = (usize, Option<TimeUnit>);

/// Returns the unit in a default column name: none in `hold`, milliseconds in `hold_ms`. `None` for other
/// names.
pub(super) fn usual(name: &str, column: &str) -> Option<Option<TimeUnit>> {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix(column)? {
        "" => Some(None),
        suffix => suffix.strip_prefix('_')?.parse().ok().map(Some),
    }
}

/// Finds a column by name or number or, if neither is specified, by its default name.
pub(super) fn find(header: &StringRecord, name: Option<&str>, column: &str) -> Result<Option<Place>, String> {
    let Some(name) = name else {
        let mut places = header.iter().enumerate();
        return Ok(places.find_map(|(at, name)| Some((at, usual(name, column)?))));
    };
    let at = match name.parse::<usize>() {
        Ok(number) => number.checked_sub(1).filter(|at| *at < header.len()),
        Err(_) => header.iter().position(|one| one.eq_ignore_ascii_case(name.trim())),
    };
    let missing = || {
        let names: Vec<String> = header.iter().map(|name| shown(name, 40)).collect();
        let names = listed(names.iter().map(String::as_str));
        format!("line 1: there is no column `{}`; the columns are {names}", shown(name, 60))
    };
    at.map(|at| Some((at, usual(&header[at], column).flatten()))).ok_or_else(missing)
}

const K6_METRIC: &str = "metric_name";

/// Returns how to read the output of a known program, recognised by its header or first row.
pub(super) fn help_for_program(header: &StringRecord) -> Option<String> {
    let has = |name: &str| header.iter().any(|one| one == name);
    let is_nanoseconds = |text: &str| text.len() == 19 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (program, options) = if has("timeStamp") && has("elapsed") {
        ("a JMeter", "--time-column timeStamp --hold-column elapsed --time-unit ms")
    } else if has(K6_METRIC) && has("metric_value") {
        // Without a time unit, both seconds and milliseconds since 1970 are recognised.
        (
            "a k6",
            "--time-column timestamp --hold-column metric_value --hold-unit ms, and record it with \
             K6_CSV_TIME_FORMAT=unix_milli, because its times have no fractions by default",
        )
    } else if has("response-time") && has("offset") {
        ("a hey", "--time-column offset --hold-column response-time --time-unit s")
    } else if has("starttime") && has("seconds") && has("ttime") {
        (
            "an `ab -g`",
            "--time-column seconds --hold-column ttime --time-unit s --hold-unit ms; its times have no fractions",
        )
    } else if header.len() >= 7 && header.get(0).is_some_and(is_nanoseconds) {
        ("a vegeta", "--time-column 1 --hold-column 3 --time-unit ns")
    } else if has("Timestamp") && has("User Count") {
        return Some("a Locust history has no row per request; log each request in a listener".to_owned());
    } else {
        return None;
    };
    Some(format!("to read {program} file, use {options}"))
}

/// Number of bytes at the start of a file that identify its format.
const START: usize = 4096;

/// Returns what is wrong with a file in another format, and the remedy. The text continues a sentence that
/// starts with the file's name.
pub fn foreign(start: &[u8]) -> Option<&'static str> {
    const VEGETA: &str = "is in another vegeta format; convert it: vegeta encode --to csv FILE > trace.csv, and use \
                          --time-column 1 --hold-column 3 --time-unit ns";
    let start = start.get(..START).unwrap_or(start);
    let text = text_in(start);
    let has = |part: &str| start.windows(part.len()).any(|window| window == part.as_bytes());
    Some(match text {
        [0x1f, 0x8b, ..] => "is compressed; decompress it: gunzip -k FILE",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "is compressed; decompress it: xz -dk FILE",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "is compressed; decompress it: zstd -d FILE",
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "is compressed; decompress it: bunzip2 -k FILE",
        [b'P', b'K', 3, 4, ..] => "is a spreadsheet or a ZIP archive; save or extract it as CSV",
        [b'<', ..] if has("<testResults") => {
            "is JMeter XML; set jmeter.save.saveservice.output_format=csv, or convert it: xmlstarlet sel -t -m \
             '/testResults/*' -v @ts -o , -v @t -n FILE > trace.csv, and use --time-column 1 --hold-column 2 \
             --time-unit ms"
        }
        [b'{', ..] if has("\"type\":\"Metric\"") || has("\"type\":\"Point\"") => {
            "is k6 JSON; convert it: jq -r 'select(.type == \"Point\" and .metric == \"http_req_duration\") | .data \
             | [.time, .value] | @csv' FILE > trace.csv, and use --time-column 1 --hold-column 2 --hold-unit ms"
        }
        [b'{', ..] if has("\"attack\":") && has("\"latency\":") => VEGETA,
        // The names of the fields with their lengths, which precede the values in Go's binary encoding.
        _ if has("\u{6}Attack") && has("\u{9}Timestamp") && has("\u{8}BytesOut") => VEGETA,
        [b'R', b'U', b'N', b'\t', ..] => {
            "is a Gatling log; convert it: awk -F'\\t' '$1 == \"REQUEST\" { for (i = 4; i < NF; i++) if ($(i + 1) ~ \
             /^(OK|KO)$/) print $(i - 1) \",\" $i - $(i - 1) }' FILE > trace.csv, and use --time-column 1 --hold-column 2 \
             --time-unit ms"
        }
        _ => return None,
    })
}

/// Skips a byte order mark and white space.
fn text_in(start: &[u8]) -> &[u8] {
    start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start()
}

const JSON: &str = "is JSON; convert it to CSV, e.g. with jq, or name a history *.jsonl";

/// Skips comments (`#`), unless the header starts with `#`, and a line such as `sep=;`, which spreadsheets write before
/// the header. Returns the number of skipped lines and the delimiter that they specify.
fn skip_preamble(input: &mut impl BufRead, is_header_hashed: bool) -> (u64, Option<u8>) {
    let (mut lines, mut delimiter) = (0, None);
    loop {
        // Ignore errors here, because the first read reports them.
        let start = input.fill_buf().unwrap_or_default();
        let Some(end) = start.iter().position(|byte| b"\r\n".contains(byte)) else {
            return (lines, delimiter);
        };
        let line = &start[..end];
        match line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) {
            [b's', b'e', b'p', b'=', named] => delimiter = Some(*named),
            [] => {}
            [b'#', ..] if !is_header_hashed => {}
            _ => return (lines, delimiter),
        }
        let ending = if start[end..].starts_with(b"\r\n") { 2 } else { 1 };
        input.consume(end + ending);
        lines += 1;
    }
}

/// Returns the tab, semicolon or comma that yields the most named columns in the first line; the most frequent
/// delimiter wins a tie. Because names may contain `|`, it is chosen only if it yields more named columns or,
/// without named columns, if the line has no other delimiter.
fn delimiter(input: &mut impl BufRead, columns: &Columns) -> u8 {
    // Ignore errors here, because the first read reports them.
    let start = input.fill_buf().unwrap_or_default();
    let line = start.split(|byte| b"\r\n".contains(byte)).find(|line| !line.is_empty()).unwrap_or_default();
    let mut is_quoted = false;
    let plain = line.iter().filter(|byte| {
        is_quoted ^= **byte == b'"';
        !is_quoted
    });
    let plain: Vec<u8> = plain.copied().collect();
    let count = |delimiter: &u8| plain.iter().filter(|byte| *byte == delimiter).count();
    let yields = |delimiter: &u8| {
        let line = String::from_utf8_lossy(line);
        let cells: Vec<&str> = line
            .split(char::from(*delimiter))
            .map(|cell| cell.trim_matches(['"', ' ', '\u{feff}']))
            .collect();
        // A decimal comma does not separate cells.
        let is_whole = |cell: &&str| {
            !cell.contains(['\t', ';', '|', ',']) || cell.replace(',', ".").parse::<f64>().is_ok()
        };
        let is_cell = |name: &&String| match name.parse::<usize>() {
            Ok(number) => cells.get(number.wrapping_sub(1)).is_some_and(is_whole),
            Err(_) => cells.iter().any(|cell| cell.eq_ignore_ascii_case(name.trim())),
        };
        columns.named().filter(is_cell).count()
    };
    let usual = [b'\t', b';', b','].into_iter().max_by_key(|delimiter| (yields(delimiter), count(delimiter)));
    let usual = usual.unwrap_or(b',');
    let is_better = if columns.are_named() { yields(&b'|') > yields(&usual) } else { count(&usual) == 0 };
    if is_better && count(&b'|') > 0 { b'|' } else { usual }
}

/// Normalises line ends to line feeds. The CSV reader accepts carriage returns but counts only line feeds, so
/// its line numbers would be wrong.
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

fn unreadable(error: &csv::Error, skipped: u64) -> String {
    let line = error.position().map_or(1, Position::line) + skipped;
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!(
                "line {line}: expected as many cells as in the first line ({expected_len}), found {len}; do not omit \
                 empty cells"
            )
        }
        csv::ErrorKind::Utf8 { .. } => format!("line {line}: not UTF-8; save the file as UTF-8"),
        _ => format!("line {line}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_parsed_with_its_time_zone() {
        let noon = Duration::from_millis(1_700_136_000_500);
        for text in [
            "2023-11-16T12:00:00.5Z",
            "2023-11-16 12:00:00.500",
            "2023/11/16 12:00:00.5",
            "2023-11-16T13:00:00.5+01:00",
            "2023-11-16T06:30:00.5-0530",
            "2023-11-16T14:00:00.5+02",
            "2023-11-16t12:00:00.5z",
            "2023-11-16 12:00:00,500",
            "2023-11-16 12:00:00.5 UTC",
            "2023-11-16 13:00:00.5 +0100",
            "2023-11-16 12:00:00.5 +0000 UTC",
        ] {
            assert_eq!(since_1970(text), Some(noon), "{text}");
        }
        for text in
            ["2023-11-16", "12:00:00", "2023-11-16T12:00:00+1", "2023-11-16T12:00:00+ab:cd", "ä-ä-ä-ä-ä-ä-ä"]
        {
            assert_eq!(since_1970(text), None, "{text}");
        }
    }

    #[test]
    fn timestamp_unit_is_inferred_from_its_magnitude() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        let units = [0.0, 1.7e9, 1.7e12, 1.7e15, 1.7e18].map(TimeUnit::by_size);
        assert_eq!(units, [Seconds, Seconds, Milliseconds, Microseconds, Nanoseconds].map(Some));
        // The third number is a nanosecond clock that started with the host 3.5 days ago.
        assert_eq!([5e9, 1e13, 3e14, 1e300].map(TimeUnit::by_size), [None; 4]);
    }
}
