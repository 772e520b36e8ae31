//! Reads scenarios from a file, standard input, or the built-in scenarios, and replayed arrivals from a CSV
//! file or a recorded history.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use toml::Table;

use zklockbench_record::history::{Acquire, Event, Release, Step, What};

use zklockbench_core::disk::{self, MIB, Unreadable};
use zklockbench_core::error::Error;
use zklockbench_results::history::HistoryReader;
use zklockbench_scenario::{Columns, Trace, TraceArrival, TraceBuilder, foreign, nearest, trace_from_csv};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Name of the scenario, such as `quick` or `faults/leader-killed`.
    pub name: &'static str,
    pub text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

impl Shipped {
    /// Finds a scenario by its name, with or without its directory, or by the path `scenarios/NAME.toml`.
    fn named(path: &Path) -> Option<Self> {
        let path = path.strip_prefix("scenarios").unwrap_or(path);
        let path = if path.extension().is_some_and(|ending| ending == "toml") {
            path.with_extension("")
        } else {
            path.to_owned()
        };
        let is_last = |shipped: &Self| Path::new(shipped.name).file_name() == Some(path.as_os_str());
        let exactly = SHIPPED.iter().copied().find(|shipped| Path::new(shipped.name) == path);
        exactly.or_else(|| SHIPPED.iter().copied().find(is_last))
    }

    pub fn description(&self) -> String {
        let table = self.text.parse::<Table>().unwrap_or_default();
        table.get("description").and_then(|text| text.as_str()).unwrap_or_default().to_owned()
    }
}

const LARGEST: u64 = 4 * MIB;

pub const STDIN: &str = "-";

pub struct Source {
    pub name: String,
    /// Directory for relative paths in the scenario.
    pub directory: PathBuf,
    pub bytes: Vec<u8>,
}

impl Source {
    /// Reads standard input for `-`, otherwise the file or the built-in scenario with this name.
    pub fn read(named: &Path) -> Result<Self, Error> {
        let bytes = if comes_once(named) {
            piped(named)?
        } else {
            match (disk::read_named(named, LARGEST), Shipped::named(named)) {
                (Ok(bytes), _) => bytes,
                // A built-in scenario must not replace a file that exists but cannot be read.
                (Err(_), Some(shipped)) if !named.is_file() => shipped.text.into(),
                (Err(why), _) => return Err(cannot_read(named, &why)),
            }
        };
        let is_stdin = named == Path::new(STDIN);
        let name = if is_stdin { "standard input".to_owned() } else { named.display().to_string() };
        Ok(Self { name, directory: named.parent().unwrap_or(Path::new("")).to_owned(), bytes })
    }

    /// Returns whether the scenario can be read more than once, unlike a named pipe.
    pub fn lasts(named: &Path) -> bool {
        named.is_file() || named == Path::new(STDIN) || !named.exists() && Shipped::named(named).is_some()
    }
}

/// Reads a scenario from a pipe before signals are handled, because a pipe may never end. Afterwards,
/// [`Source::read`] returns the text.
pub fn read_ahead(named: &Path) -> Result<(), Error> {
    if comes_once(named) { piped(named).map(drop) } else { Ok(()) }
}

/// Returns whether this is standard input or a named pipe, which can be read only once.
fn comes_once(named: &Path) -> bool {
    named == Path::new(STDIN) || std::fs::metadata(named).is_ok_and(|found| found.file_type().is_fifo())
}

/// Reads the scenario from a pipe and caches it.
fn piped(named: &Path) -> Result<Vec<u8>, Error> {
    static READ: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(read) = READ.get() {
        return Ok(read.clone());
    }
    let bytes = if named == Path::new(STDIN) {
        disk::bounded(std::io::stdin().lock(), LARGEST)
            .map_err(|why| Error::usage(format!("cannot read the scenario from standard input: it {why}")))?
    } else {
        disk::read_named(named, LARGEST).map_err(|why| cannot_read(named, &why))?
    };
    Ok(READ.get_or_init(|| bytes).clone())
}

fn cannot_read(path: &Path, why: &Unreadable) -> Error {
    let near = || {
        let name = path.to_str()?;
        nearest(name, SHIPPED.iter().map(|shipped| shipped.name))
    };
    let help = match (why, near()) {
        (Unreadable::Missing, Some(near)) => format!("; did you mean `{near}`?"),
        (Unreadable::Missing, None) => "; `zklockbench scenarios` lists the built-in scenarios".to_owned(),
        _ => String::new(),
    };
    Error::usage(format!("cannot read the scenario {}: it {why}{help}", path.display()))
}

/// Maximum size of a CSV file: five million lines of a hundred bytes.
const LARGEST_TRACE: u64 = 512 << 20;
/// Maximum length of the comments before the header.
const LONGEST_PREAMBLE: usize = 64 << 10;

/// Reads the arrivals from a file; returns the arrivals and the file's SHA-256.
pub fn read_trace(directory: &Path, file: &Path, columns: &Columns) -> Result<(Trace, String), String> {
    let path = directory.join(file);
    let cannot =
        |why: &str| format!("cannot read {}: {why}; specify a CSV file or a history", path.display());
    let found = std::fs::metadata(&path).map_err(|error| cannot(&error.to_string()))?;
    if !found.is_file() {
        return Err(cannot("it is not a file"));
    }
    let is_history = path.extension().is_some_and(|extension| extension == "jsonl");
    if !is_history && found.len() > LARGEST_TRACE {
        return Err(format!(
            "{} is larger than {} MB; use only a part of the file",
            path.display(),
            LARGEST_TRACE >> 20
        ));
    }
    let opened = File::open(&path).map_err(|error| cannot(&error.to_string()))?;
    let mut input = BufReader::with_capacity(LONGEST_PREAMBLE, opened);
    let arrivals = if !is_history {
        let arrivals = trace_from_csv(input.take(LARGEST_TRACE), columns);
        arrivals.map_err(|told| format!("{} {told}", path.display()))?
    } else if let Some(what) = input.fill_buf().ok().and_then(foreign) {
        return Err(format!("{} {what}", path.display()));
    } else {
        Trace::from(of_history(&path)?)
    };
    let digest = zklockbench_results::digest_of_file(&path);
    Ok((arrivals, digest.map_err(|error| format!("cannot read {}: {error}", path.display()))?))
}

/// Reads a history. Each request for a lock that the contender does not already hold is an arrival.
fn of_history(path: &Path) -> Result<Vec<TraceArrival>, String> {
    let told = |error: Error| error.to_string();
    let named = |told: String| format!("{} {told}", path.display());
    let mut history = HistoryReader::open(path).map_err(told)?;
    let mut asks = Asks::default();
    while let Some(numbered) = history.next_event().map_err(told)? {
        let line = numbered.place.line;
        let event = numbered.event().map_err(|what| named(format!("line {line}: {what}")))?;
        asks.take(line, &event).map_err(named)?;
    }
    asks.trace.finish().map_err(named)
}

type Who = (String, u64, String);

struct TracedTurn {
    arrival: usize,
    /// Time of the acquisition; `None` while waiting.
    entered_us: Option<u64>,
    depth: u32,
}

#[derive(Default)]
struct Asks {
    trace: TraceBuilder,
    turns: HashMap<Who, TracedTurn>,
    clock: Option<String>,
}

impl Asks {
    fn take(&mut self, line: u64, event: &Event<'_>) -> Result<(), String> {
        let Some(contender) = event.contender else { return Ok(()) };
        let who = |lock: &str| (event.process.to_owned(), contender, lock.to_owned());
        match event.what {
            What::Acquire(Acquire { lock, step, .. }) => {
                self.one_clock(line, event)?;
                self.acquire(line, event.t_us, who(lock), step)
            }
            What::Release(Release { lock, step: Step::Invoke, .. }) => {
                self.release(event.t_us, &who(lock));
                Ok(())
            }
            What::Release(_) | What::Session | What::Write(_) | What::Trace(_) => Ok(()),
        }
    }

    /// Rejects events from different clocks, because their times cannot be ordered.
    fn one_clock(&mut self, line: u64, event: &Event<'_>) -> Result<(), String> {
        let clock = event.clock.unwrap_or(event.process);
        let first = self.clock.get_or_insert_with(|| clock.to_owned());
        if first == clock {
            return Ok(());
        }
        Err(format!(
            "line {line}: the clock is `{clock}`, but earlier lines have `{first}`; replay the events of a single clock"
        ))
    }

    fn acquire(&mut self, line: u64, t_us: u64, who: Who, step: Step) -> Result<(), String> {
        let turn = self.turns.get_mut(&who);
        let holds = turn.as_ref().is_some_and(|turn| turn.entered_us.is_some());
        match (step, turn) {
            (Step::Invoke, _) if holds => {}
            (Step::Invoke, _) => {
                let arrival = self.trace.arrives(line, t_us, Some(&who.2))?;
                self.turns.insert(who, TracedTurn { arrival, entered_us: None, depth: 0 });
            }
            (Step::Ok, Some(turn)) => {
                turn.entered_us.get_or_insert(t_us);
                turn.depth += 1;
            }
            (Step::Fail | Step::Unknown, Some(_)) if !holds => {
                self.turns.remove(&who);
            }
            (Step::Ok | Step::Fail | Step::Unknown, _) => {}
        }
        Ok(())
    }

    fn release(&mut self, t_us: u64, who: &Who) {
        let Some(turn) = self.turns.get_mut(who) else { return };
        turn.depth = turn.depth.saturating_sub(1);
        let Some(entered_us) = turn.entered_us.filter(|_| turn.depth == 0) else { return };
        let hold = Duration::from_micros(t_us.saturating_sub(entered_us));
        self.trace.held(turn.arrival, hold);
        self.turns.remove(who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_scenarios_are_found_by_name_or_path_and_typos_get_suggestions() {
        let refused = |name: &str| Source::read(Path::new(name)).err().unwrap().to_string();
        let quick = Shipped::named(Path::new("quick")).unwrap();
        assert_eq!(Shipped::named(Path::new("scenarios/quick.toml")), Some(quick));
        let killed = Shipped::named(Path::new("faults/leader-killed"));
        assert!(killed.is_some() && Shipped::named(Path::new("leader-killed")) == killed);
        for (wrong, said) in [
            ("no-such/quik", "cannot read the scenario no-such/quik"),
            ("quik", "did you mean `quick`?"),
            ("faults/kill-leader", "did you mean `faults/leader-killed`?"),
        ] {
            let told = refused(wrong);
            assert!(told.contains(said), "{told}");
        }
    }

    fn history(events: &[&str]) -> tempfile::NamedTempFile {
        let header = r#"{"format":"zklockbench-history","version":1,"locks":{"a":{"kind":"mutex"},"b":{"kind":"mutex"}}}"#;
        let line = |event: &&str| format!("{{\"process\":\"p\",{event}}}\n");
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        let events: String = events.iter().map(line).collect();
        std::fs::write(file.path(), format!("{header}\n{events}")).unwrap();
        file
    }

    fn read_file(file: &tempfile::NamedTempFile) -> Result<Vec<TraceArrival>, String> {
        read_trace(Path::new("/nowhere"), file.path(), &Columns::default()).map(|(trace, _)| trace.arrivals)
    }

    #[test]
    fn trace_mistakes_are_reported_with_the_file_and_line() {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        std::fs::write(file.path(), "time,lock\n0,1\n1,0\n0.5,0\n").unwrap();
        let (directory, name) = (file.path().parent().unwrap(), file.path().file_name().unwrap());
        let told = read_trace(directory, Path::new(name), &Columns::default()).unwrap_err();
        let expected =
            format!("{} line 4: its time is earlier than the previous line's", file.path().display());
        assert!(told.starts_with(&expected), "{told}");
    }

    #[test]
    fn long_comments_before_the_header_are_skipped() {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        let comments = "# a line of a long comment\n".repeat(1_000);
        std::fs::write(file.path(), format!("{comments}time;hold\n0,0;5ms\n0,5;5ms\n")).unwrap();
        assert_eq!(read_file(&file).unwrap().len(), 2);
    }

    #[test]
    fn json_lines_of_another_program_are_not_read_as_a_history() {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        std::fs::write(file.path(), "{\"type\":\"Metric\",\"data\":{},\"metric\":\"vus\"}\n").unwrap();
        let told = read_file(&file).unwrap_err();
        assert!(told.starts_with(&format!("{} is k6 JSON; convert it: jq", file.path().display())), "{told}");
    }

    #[test]
    fn trace_path_that_is_not_a_file_is_rejected() {
        let told = |file: &str| read_trace(Path::new("/"), Path::new(file), &Columns::default()).unwrap_err();
        let missing = told("no-such.csv");
        assert!(missing.contains("no-such.csv: No such file"), "{missing}");
        assert!(missing.contains("; specify a CSV"), "{missing}");
        assert!(told("dev/zero").contains("it is not a file"));
    }

    #[test]
    fn each_request_in_a_history_becomes_an_arrival_with_its_hold() {
        let file = history(&[
            r#""t_us":1000,"contender":1,"op":"acquire","lock":"b","phase":"invoke""#,
            r#""t_us":1500,"contender":2,"op":"acquire","lock":"a","phase":"invoke""#,
            r#""t_us":2000,"contender":1,"op":"acquire","lock":"b","phase":"ok""#,
            // A reentrant acquire by the holder is not an arrival, and the hold ends with the last release
            r#""t_us":2100,"contender":1,"op":"acquire","lock":"b","phase":"invoke","depth":2"#,
            r#""t_us":2200,"contender":1,"op":"acquire","lock":"b","phase":"ok","depth":2"#,
            r#""t_us":3000,"contender":1,"op":"release","lock":"b","phase":"invoke""#,
            r#""t_us":3100,"contender":1,"op":"release","lock":"b","phase":"ok""#,
            r#""t_us":4000,"contender":1,"op":"release","lock":"b","phase":"invoke""#,
            r#""t_us":5000,"contender":2,"op":"acquire","lock":"a","phase":"fail""#,
            r#""t_us":6000,"contender":2,"op":"acquire","lock":"a","phase":"invoke""#,
        ]);
        let arrival = |at_us, lock, hold_us: Option<u64>| TraceArrival {
            at_us,
            lock: Some(lock),
            hold: hold_us.map(Duration::from_micros),
            mode: None,
        };
        let expected = [arrival(0, 0, Some(2_000)), arrival(500, 1, None), arrival(5_000, 1, None)];
        assert_eq!(read_file(&file).unwrap(), expected);
    }

    #[test]
    fn history_with_two_clocks_or_an_invalid_line_is_rejected_with_the_line_number() {
        let two = history(&[
            r#""t_us":1,"clock":"x","contender":1,"op":"acquire","lock":"a","phase":"invoke""#,
            r#""t_us":2,"clock":"y","contender":2,"op":"acquire","lock":"a","phase":"invoke""#,
        ]);
        let told = read_file(&two).unwrap_err();
        assert!(told.contains("line 3: the clock is `y`, but earlier lines have `x`; replay"), "{told}");
        let broken = history(&[r#""t_us":1,"contender":1,"op":"acquire","lock":7,"phase":"invoke""#, ""]);
        let told = read_file(&broken).unwrap_err();
        assert!(told.contains("2"), "{told}");
    }
}
