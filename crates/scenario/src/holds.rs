//! Reads holds from a file: one duration per line, or a column of a table.

use std::io::BufRead;
use std::time::Duration;

use super::columns::{Columns, Delimited, Header, Numbers, find, help_for_program};

pub fn holds_from_text(input: impl BufRead, columns: &Columns) -> Result<Vec<Duration>, String> {
    let mut table = Delimited::open(input, columns, Header::Unknown, true)?;
    let header = table.header()?;
    let place = find(&header, columns.hold.as_deref(), "hold")?;
    let (column, unit) = place.unwrap_or_default();
    let is_named = || header.get(column).is_some_and(|cell| table.is_name(cell));
    let has_header = place.is_some() && (columns.header() == Header::Present || is_named());
    let numbers = Numbers::in_or(columns.unit_of_holds().or(unit), Numbers::Refused);
    let mut holds = Vec::new();
    while let Some(line) = table.next_row()? {
        if has_header && table.row() == &header && holds.is_empty() {
            continue;
        }
        if place.is_none() && has_several(&table, numbers) {
            return Err(format!("line {line}: several durations; {ONE_HOLD}"));
        }
        let hold = table.time(table.row().get(column).unwrap_or_default(), numbers);
        let is_first = holds.is_empty();
        holds.push(hold.map_err(|why| {
            let maybe_header = || is_first.then(|| IF_HEADER.to_owned());
            let hint = help_for_program(&header).or_else(maybe_header).filter(|_| place.is_none());
            let hint = hint.map_or_else(String::new, |options| format!("; {options}"));
            format!("line {line}: {why}{hint}")
        })?);
    }
    match holds.iter().all(Duration::is_zero) {
        true => Err("no hold longer than 0; write one duration per line, such as 20ms".into()),
        false => Ok(holds),
    }
}

const ONE_HOLD: &str = "write one hold per line, or specify the column with --hold-column";

const IF_HEADER: &str = "if the line is a header, specify the column with --hold-column";

/// Returns whether a row has several durations: in several cells, or in one cell as in `5ms 700ms`.
fn has_several<R: BufRead>(table: &Delimited<R>, numbers: Numbers) -> bool {
    let is_time = |text: &&str| table.time(text, numbers).is_ok();
    let unit = |part: &str| {
        let unit = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        table.time(&format!("1{unit}"), numbers).ok()
    };
    let in_cell = |cell: &str| {
        // A space may precede a unit, as in `5 ms`.
        let times: Vec<&str> = cell.split_whitespace().filter(is_time).collect();
        // The parts of a single duration have ever smaller units, as in `1m 30s`.
        let are_one = times.windows(2).all(|pair| unit(pair[0]) > unit(pair[1]));
        if are_one { 1 } else { times.len() }
    };
    table.row().iter().filter(is_time).map(in_cell).sum::<usize>() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeUnit;

    fn holds(text: &str) -> Result<Vec<Duration>, String> {
        holds_from_text(text.as_bytes(), &Columns::default())
    }

    #[test]
    fn holds_are_read_one_per_line_or_from_a_column_with_a_unit() {
        let ms = |all: &[u64]| all.iter().map(|one| Duration::from_millis(*one)).collect::<Vec<_>>();
        assert_eq!(holds("3ms\n\n5 ms\n1s\n"), Ok(ms(&[3, 5, 1_000])));
        assert_eq!(holds("time,hold_ms,lock\n0,3,a\n1,2.5,b\n").unwrap()[1], Duration::from_micros(2_500));
        assert_eq!(holds("hold\n\"7ms\"\n"), Ok(ms(&[7])));
        assert_eq!(holds("\u{feff}lock,Hold_ms\r\n\"a,3\",7\r\n"), Ok(ms(&[7])));
        assert_eq!(holds("lock;hold_ms\na;1,5\n"), Ok(vec![Duration::from_micros(1_500)]));
        for (text, told) in [
            ("", "no hold longer than 0"),
            ("3ms\n4\n", "line 2: `4` has no unit"),
            ("hold_ms\n-4\n", "line 2: `-4` is negative"),
            ("hold_s\nNaN\n", "line 2: `NaN` is neither"),
            ("3ms,a\nfast\n", "line 2: `fast` is neither"),
            ("# from a log\nfast\n", "line 2: `fast` is neither"),
            ("PK\u{3}\u{4}", "is a spreadsheet or a ZIP archive; save or extract it as CSV"),
            ("timeStamp,elapsed\n0,95\n", "; to read a JMeter file, use --time-column"),
        ] {
            let found = holds(text).unwrap_err();
            assert!(found.contains(told), "{text:?}: {found}");
        }
    }

    #[test]
    fn several_holds_on_a_line_are_rejected_unless_a_column_is_named() {
        for text in ["5ms,700ms,900ms\n", "5ms;700ms;900ms\n", "5ms\t700ms\n", "5ms 700ms 900ms\n", "1s 2s\n"]
        {
            let found = holds(text).unwrap_err();
            assert_eq!(found, format!("line 1: several durations; {ONE_HOLD}"), "{text:?}");
        }
        assert!(holds("3ms\n4ms,5ms\n").unwrap_err().starts_with("line 2: several"));
        let one = |ms| Ok(vec![Duration::from_millis(ms)]);
        assert_eq!((holds("1m30s\n"), holds("1m 30s\n")), (one(90_000), one(90_000)));
        assert_eq!((holds("5 ms\n"), holds("5ms,a\n")), (one(5), one(5)));
        assert_eq!(holds("a,hold\n5ms,7ms\n"), one(7));
        let second = Columns { hold: Some("2".into()), ..Columns::default() };
        assert_eq!(holds_from_text(&b"5ms,7ms\n"[..], &second), one(7));
        assert_eq!(holds_from_text(&b"a,hold\n5ms,7ms\n"[..], &second), one(7));
        let in_ms = Columns { hold_unit: Some(TimeUnit::Milliseconds), ..Columns::default() };
        assert!(holds_from_text(&b"5,7\n"[..], &in_ms).unwrap_err().starts_with("line 1: several"));
        let error = holds_from_text(&b"duration\n5ms\n"[..], &Columns::default()).unwrap_err();
        assert!(error.ends_with("if the line is a header, specify the column with --hold-column"), "{error}");
    }

    #[test]
    fn named_column_of_another_program_is_read_in_the_specified_unit() {
        let columns = |hold: &str| Columns {
            hold: Some(hold.into()),
            time_unit: Some(TimeUnit::Milliseconds),
            ..Columns::default()
        };
        let jmeter = b"timeStamp,elapsed,label\n1700158623979,120,a\n1700158624031,95,b\n";
        let expected: Vec<_> = [120, 95].map(Duration::from_millis).into();
        assert_eq!(holds_from_text(&jmeter[..], &columns("elapsed")), Ok(expected));
        let error = holds_from_text(&jmeter[..], &columns("latency")).unwrap_err();
        assert!(error.contains("no column `latency`; the columns are `timeStamp`, `elapsed`"), "{error}");
        let by_number = holds_from_text(&b"1,20\n2,30\n"[..], &columns("2"));
        assert_eq!(by_number, Ok([20, 30].map(Duration::from_millis).into()));
    }
}
