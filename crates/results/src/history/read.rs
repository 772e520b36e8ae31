//! Reads a history: its header, its events one by one, and single lines by their position.

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

/// Reads a history, with one line in memory at a time.
#[derive(Debug)]
pub struct HistoryReader {
    path: PathBuf,
    input: BufReader<File>,
    /// The current line, including its line end if there is one.
    line: Vec<u8>,
    next: LinePosition,
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

    /// Opens `file`; messages show `path` instead.
    pub fn open_as(file: &Path, path: &Path) -> Result<Self, Error> {
        let file = File::open(file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::usage(format!("there is no file {}", path.display())),
            _ => cannot("read", path, &error),
        })?;
        let input = BufReader::with_capacity(CHUNK, file);
        let (next, path) = (LinePosition { line: 1, offset: 0 }, path.to_owned());
        let mut reader = Self { path, input, line: Vec::new(), next, header: Header::default(), cut: None };
        let Some(place) = reader.next_line()? else {
            return Err(reader.mistake(1, "the file is empty; the first line must be a header"));
        };
        reader.header = header(&reader.line).map_err(|what| reader.mistake(place.line, &what))?;
        Ok(reader)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the next event, or `None` at the end or at a truncated last line.
    pub fn next_event(&mut self) -> Result<Option<Numbered<'_>>, Error> {
        let Some(place) = self.next_line()? else { return Ok(None) };
        match serde_json::from_slice(self.line.trim_ascii_end()) {
            Ok(line) => Ok(Some(Numbered { place, line })),
            // After a power failure, a file may end in zeros instead of its last data.
            Err(error) if self.line.ends_with(&[0]) || error.is_eof() && !self.line.ends_with(b"\n") => {
                self.cut = Some(place.line);
                Ok(None)
            }
            Err(error) => Err(self.mistake(place.line, &without_line(&error))),
        }
    }

    /// Reads the next non-empty line; returns `None` after the last line.
    fn next_line(&mut self) -> Result<Option<LinePosition>, Error> {
        loop {
            let place = self.next;
            self.line.clear();
            let read = self.input.by_ref().take(LONGEST).read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| cannot("read", &self.path, &error))? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.next = LinePosition { line: place.line + 1, offset: place.offset + read };
            if read == LONGEST && self.line.last() != Some(&b'\n') {
                let what = format!("the line is longer than {} MiB", LONGEST >> 20);
                return Err(self.mistake(place.line, &what));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(place));
            }
        }
    }

    /// Number of the last line if it is truncated, because the writer was killed.
    pub fn cut_off_at(&self) -> Option<u64> {
        self.cut
    }

    /// Returns the error for a mistake in this line.
    pub fn mistake(&self, line: u64, what: &str) -> Error {
        let (path, what) = (self.path.display(), one_line(what));
        Error::usage(format!("{path}:{line}: {what}; docs/results-format.md describes the format"))
    }
}

fn header(text: &[u8]) -> Result<Header, String> {
    let text = text.trim_ascii_end();
    let Ok(Versioned { format, version }) = serde_json::from_slice(text) else {
        return Err(format!(
            "no header; the first line must be an object with `\"format\":\"{FORMAT}\"`, `version` and `locks`"
        ));
    };
    if format != FORMAT {
        return Err(format!("expected the format `{FORMAT}`, found `{format}`"));
    }
    if version != VERSION {
        return Err(format!("version {version}, but this program reads version {VERSION}"));
    }
    let mut from = serde_json::Deserializer::from_slice(text);
    HeaderLine::deserialize(&mut from).map_err(|error| without_line(&error))?.header()
}

/// Each line is parsed separately, so the error's `at line 1 column 9` would be misleading.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} (column {})", error.column()),
        None => text,
    }
}

/// Maximum length of a line in bytes. A header with thousands of locks fits.
const LONGEST: u64 = 4 << 20;

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
