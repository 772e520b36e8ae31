//! Reads a history: its header, then one event after another; and single lines by their position.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::layout::cannot;
use super::wire::{EventLine, FORMAT, HeaderLine, VERSION, Versioned};
use zklockbench_core::error::Error;
use zklockbench_core::units::one_line;
use zklockbench_record::history::{Event, Header, LinePosition};

const CHUNK: usize = 256 << 10;

/// A reader of a history, which keeps one line at a time.
#[derive(Debug)]
pub struct HistoryReader {
    path: PathBuf,
    lines: HistoryLines<BufReader<File>>,
    header: Header,
    cut: Option<u64>,
}

#[derive(Debug)]
pub struct Numbered<'a> {
    pub place: LinePosition,
    line: EventLine<'a>,
}

impl Numbered<'_> {
    pub fn event(&self) -> Result<Event<'_>, String> {
        self.line.event()
    }
}

impl HistoryReader {
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_as(path, path)
    }

    /// Opens a file under a different name for messages.
    pub fn open_as(file: &Path, path: &Path) -> Result<Self, Error> {
        let file = File::open(file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::usage(format!("there is no file {}", path.display())),
            _ => cannot("read", path, &error),
        })?;
        let mut lines = HistoryLines::new(BufReader::with_capacity(CHUNK, file));
        let header = match lines.next_line() {
            Ok(Some(line)) => header(line.text).map_err(|what| broken(path, line.place.line, &what))?,
            Ok(None) => return Err(broken(path, 1, "the file is empty; the first line must be a header")),
            Err(error) => return Err(unreadable(path, 1, &error)),
        };
        Ok(Self { path: path.to_owned(), lines, header, cut: None })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next event; `None` after the last one, and at a last line that was cut off.
    pub fn next_event(&mut self) -> Result<Option<Numbered<'_>>, Error> {
        let number = self.lines.number();
        let LineRead { place, text, ended } = match self.lines.next_line() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => return Err(unreadable(&self.path, number, &error)),
        };
        match serde_json::from_slice(text) {
            Ok(line) => Ok(Some(Numbered { place, line })),
            Err(error) if !ended && error.is_eof() => {
                self.cut = Some(place.line);
                Ok(None)
            }
            Err(error) => Err(broken(&self.path, place.line, &without_line(&error))),
        }
    }

    /// Number of the last line, if it is cut off because the writer was killed.
    pub fn cut_off_at(&self) -> Option<u64> {
        self.cut
    }

    /// The error for a valid event that contradicts its context.
    pub fn mistake(&self, line: u64, what: &str) -> Error {
        broken(&self.path, line, what)
    }
}

fn header(text: &[u8]) -> Result<Header, String> {
    let Ok(Versioned { format, version }) = serde_json::from_slice(text) else {
        return Err(format!(
            "no header; the first line must be an object with `\"format\":\"{FORMAT}\"`, `version` and `locks`"
        ));
    };
    if format != FORMAT {
        return Err(format!("the format is `{format}`, not `{FORMAT}`"));
    }
    if version != VERSION {
        return Err(format!("version {version}, but this program reads version {VERSION}"));
    }
    let mut from = serde_json::Deserializer::from_slice(text);
    HeaderLine::deserialize(&mut from).map_err(|error| without_line(&error))?.header()
}

/// Each line is parsed alone, so the error's `at line 1 column 9` would mislead.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} (column {})", error.column()),
        None => text,
    }
}

fn unreadable(path: &Path, line: u64, error: &std::io::Error) -> Error {
    if error.kind() == ErrorKind::InvalidData {
        return broken(path, line, &format!("the line is longer than {} MiB", LONGEST >> 20));
    }
    cannot("read", path, error)
}

fn broken(path: &Path, line: u64, what: &str) -> Error {
    let what = one_line(what);
    Error::usage(format!("{}:{line}: {what}; docs/results-format.md describes the format", path.display()))
}

/// Maximum length of a line in bytes. A header with thousands of locks fits.
const LONGEST: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineRead<'a> {
    place: LinePosition,
    /// Bytes of the line without its end.
    text: &'a [u8],
    /// Whether the line is terminated; the last line of a truncated file is not.
    ended: bool,
}

#[derive(Debug)]
struct HistoryLines<R> {
    input: R,
    buffer: Vec<u8>,
    next: LinePosition,
}

impl<R: BufRead> HistoryLines<R> {
    fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), next: LinePosition { line: 1, offset: 0 } }
    }

    /// The next line that is not empty; `None` after the last one.
    fn next_line(&mut self) -> io::Result<Option<LineRead<'_>>> {
        loop {
            let place = self.next;
            self.buffer.clear();
            let read = self.input.by_ref().take(LONGEST).read_until(b'\n', &mut self.buffer)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.next = LinePosition { line: place.line + 1, offset: place.offset + read };
            let ended = self.buffer.last() == Some(&b'\n');
            if !ended && read == LONGEST {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(Some(LineRead { place, text: self.buffer.trim_ascii_end(), ended }));
            }
        }
    }

    fn number(&self) -> u64 {
        self.next.line
    }
}

pub fn lines_at(path: &Path, places: &[LinePosition]) -> Result<Vec<String>, Error> {
    let read = || {
        let mut file = BufReader::new(File::open(path)?);
        let line = |place: &LinePosition| {
            file.seek(SeekFrom::Start(place.offset))?;
            let mut text = Vec::new();
            file.by_ref().take(LONGEST).read_until(b'\n', &mut text)?;
            Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
        };
        places.iter().map(line).collect::<io::Result<_>>()
    };
    read().map_err(|error| cannot("read", path, &error))
}
