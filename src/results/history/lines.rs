//! Lines of a file, one by one, none longer than it may be; and single lines again by their place.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::super::io_error::cannot;
use crate::error::Error;
use crate::record::history::Place;

/// The longest line that is read, in bytes. A header with thousands of locks fits.
pub const LONGEST: u64 = 4 << 20;

/// One line as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Where it lies.
    pub place: Place,
    /// Its bytes, without the end of the line.
    pub text: &'a [u8],
    /// Whether it has an end: the last line of a file that was cut off has none.
    pub ended: bool,
}

/// Reads line after line into one buffer.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    next: Place,
}

impl<R: BufRead> Lines<R> {
    /// From the beginning of that input.
    pub fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), next: Place { line: 1, offset: 0 } }
    }

    /// The next line that is not empty; `None` after the last.
    ///
    /// # Errors
    /// What reading failed with; `InvalidData` for a line longer than [`LONGEST`].
    pub fn next_line(&mut self) -> io::Result<Option<Found<'_>>> {
        loop {
            let place = self.next;
            self.buffer.clear();
            let read = self.input.by_ref().take(LONGEST).read_until(b'\n', &mut self.buffer)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.next = Place { line: place.line + 1, offset: place.offset + read };
            let ended = self.buffer.last() == Some(&b'\n');
            if !ended && read == LONGEST {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(Some(Found { place, text: self.buffer.trim_ascii_end(), ended }));
            }
        }
    }

    /// The number of the line that comes next.
    pub fn number(&self) -> u64 {
        self.next.line
    }
}

/// The lines at those places, in their order.
///
/// # Errors
/// [`Error::Environment`] when the file can no longer be read.
pub fn lines_at(path: &Path, places: &[Place]) -> Result<Vec<String>, Error> {
    let read = || {
        let mut file = BufReader::new(File::open(path)?);
        let line = |place: &Place| {
            file.seek(SeekFrom::Start(place.offset))?;
            let mut text = Vec::new();
            file.by_ref().take(LONGEST).read_until(b'\n', &mut text)?;
            Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
        };
        places.iter().map(line).collect::<io::Result<_>>()
    };
    read().map_err(|error| cannot("read", path, &error))
}
