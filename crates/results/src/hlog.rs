//! Histograms of one trial as an HDR interval log: one interval, with one tag for each measure.
//!
//! Values are microseconds. The column of maxima is informational and in milliseconds, as in logs written by
//! the format's own tools. Start times are labels: seconds after the trial's start.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, LogIteratorError, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use zklockbench_core::measure::{Histogram, Measure, new_histogram};

const US_PER_MS: f64 = 1000.0;

/// Writes the histograms of a measured phase, given its offset from `began` and its length.
pub fn write(
    mut out: impl io::Write,
    began: SystemTime,
    [start, length]: [Duration; 2],
    histograms: &BTreeMap<Measure, Histogram>,
) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[Values are microseconds; the maxima on each line are milliseconds]")
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(US_PER_MS)
        .begin_log_with(&mut out, &mut serializer)?;
    for (measure, histogram) in histograms.iter().filter(|(_, histogram)| !histogram.is_empty()) {
        let name = &measure.name();
        let tag = Tag::new(name).ok_or_else(|| io::Error::other(format!("`{name}` cannot be a tag")))?;
        log.write_histogram(histogram, start, length, Some(tag)).map_err(io::Error::other)?;
    }
    out.flush()
}

/// Returns the histograms of a log, or the line of the first mistake and the mistake.
pub fn read(log: &[u8]) -> Result<BTreeMap<Measure, Histogram>, (usize, String)> {
    let mut histograms = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        let interval = match entry {
            Ok(LogEntry::Interval(interval)) => interval,
            Ok(LogEntry::StartTime(_) | LogEntry::BaseTime(_)) => continue,
            Err(LogIteratorError::ParseError { offset }) => {
                return Err((line_of(log, offset), "not a line of an HDR log".into()));
            }
        };
        let line = line_of(log, offset_of(log, &interval));
        let (measure, histogram) = decode(&interval).map_err(|what| (line, what))?;
        if histograms.insert(measure, histogram).is_some() {
            return Err((line, format!("duplicate histogram of `{}`", measure.name())));
        }
    }
    Ok(histograms)
}

fn decode(interval: &IntervalLogHistogram<'_>) -> Result<(Measure, Histogram), String> {
    let tag = interval.tag().ok_or("the histogram has no tag")?;
    let name = tag.as_str();
    let measure = Measure::try_from(name.to_owned())?;
    let bytes = STANDARD
        .decode(interval.encoded_histogram())
        .map_err(|error| format!("the histogram of `{name}` is not base64 ({error})"))?;
    let undecoded =
        |why: &dyn std::fmt::Display| format!("the histogram of `{name}` cannot be decoded ({why})");
    is_of_a_measure(&bytes).map_err(|why| undecoded(&why))?;
    let histogram =
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| undecoded(&error))?;
    Ok((measure, histogram))
}

/// Checks that the header describes a histogram that this program could have written. The decoder trusts the
/// size in the header and would allocate up to 4 GiB before it checks the data.
fn is_of_a_measure(bytes: &[u8]) -> Result<(), String> {
    // Outer header: a cookie and the compressed length. The compressed data starts with the inner header: a
    // cookie, the length of the counts, an offset, the digits, and the lowest and highest values.
    const OUTER: usize = 8;
    const MOST_BYTES_OF_A_COUNT: usize = 9;
    let mut header = [0; 32];
    flate2::read::ZlibDecoder::new(bytes.get(OUTER..).unwrap_or_default())
        .read_exact(&mut header)
        .map_err(|error| error.to_string())?;
    let number = |at: std::ops::Range<usize>| {
        header[at].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let own = new_histogram();
    if (number(12..16), number(16..24), number(24..32)) != (u64::from(own.sigfig()), own.low(), own.high()) {
        return Err("its range differs from this program's".into());
    }
    if number(4..8) > (own.distinct_values() * MOST_BYTES_OF_A_COUNT) as u64 {
        return Err("its header announces too many counts".into());
    }
    Ok(())
}

fn line_of(log: &[u8], offset: usize) -> usize {
    1 + log.iter().take(offset).filter(|byte| **byte == b'\n').count()
}

/// Offset of an entry, computed from its address, because the entry borrows from the log.
fn offset_of(log: &[u8], interval: &IntervalLogHistogram<'_>) -> usize {
    (interval.encoded_histogram().as_ptr() as usize).saturating_sub(log.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use zklockbench_core::measure::HIGHEST_US;

    fn log(histograms: &BTreeMap<Measure, Histogram>) -> Vec<u8> {
        let (start, length) = (Duration::from_millis(1_030), Duration::from_secs(2));
        let mut log = Vec::new();
        write(&mut log, SystemTime::UNIX_EPOCH, [start, length], histograms).unwrap();
        log
    }

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = new_histogram();
        values.iter().for_each(|value| histogram.saturating_record(*value));
        histogram
    }

    #[test]
    fn log_line_has_tag_start_length_and_maximum_in_milliseconds() {
        let text = String::from_utf8(log(&BTreeMap::from([(Measure::Wait, of(&[1_500]))]))).unwrap();
        assert!(text.contains("#[StartTime: 0.000 (seconds since epoch)]\n"), "{text}");
        assert!(text.contains("\nTag=wait,1.030,2.000,1.500,H"), "{text}");
    }

    #[test]
    fn errors_contain_the_line_number() {
        assert_eq!(read(b"#a comment\nTag=wait,x\n").unwrap_err().0, 2);
        let twice = "Tag=wait,0.0,1.0,1.0,".to_owned();
        let line = String::from_utf8(log(&BTreeMap::from([(Measure::Wait, of(&[1]))]))).unwrap();
        let payload = line.trim_end().rsplit(',').next().unwrap();
        let broken = read(format!("{twice}{payload}\n{twice}{payload}\n").as_bytes()).unwrap_err();
        assert_eq!(broken, (2, "duplicate histogram of `wait`".into()));
        let broken = read(format!("0.0,1.0,1.0,{payload}\n").as_bytes()).unwrap_err();
        assert_eq!(broken, (1, "the histogram has no tag".into()));
    }

    proptest! {
        #[test]
        fn any_histograms_round_trip(
            samples in prop::collection::btree_map(
                0..Measure::COUNT,
                prop::collection::vec(prop_oneof![1..1_000_u64, 1..=HIGHEST_US], 1..200),
                0..4,
            )
        ) {
            let histograms: BTreeMap<_, _> =
                samples.iter().map(|(measure, values)| (Measure::all()[*measure], of(values))).collect();
            prop_assert_eq!(read(&log(&histograms)).unwrap(), histograms);
        }

        #[test]
        fn damaged_log_never_panics(at in 0..400_usize, byte in any::<u8>()) {
            let mut log = log(&BTreeMap::from([(Measure::Wait, of(&[1, 20, 300, 4_000]))]));
            let at = at % log.len();
            log[at] = byte;
            let _ = read(&log);
        }
    }
}
