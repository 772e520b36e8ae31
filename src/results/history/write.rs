//! Writing a history while it happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::super::io_error::cannot;
use super::wire::{EventLine, HeaderLine};
use crate::error::Error;
use crate::record::history::{Event, Header};

/// How long an event is kept back, so that one of another thread with an earlier stamp can still go before it.
const KEPT_BACK_US: u64 = 1_000_000;

/// A history that is being written: the events of one clock.
///
/// Threads stamp events before they hand them over, so they come a little out of order; the file has them in order.
/// The header says that the history is not complete until [`HistoryWriter::finish`]. Dropped before, it leaves what
/// it was given.
#[derive(Debug)]
pub struct HistoryWriter {
    path: PathBuf,
    out: BufWriter<File>,
    /// Where the header says `false`.
    complete_at: u64,
    waiting: BinaryHeap<Reverse<(u64, u64, String)>>,
    given: u64,
    newest_us: u64,
    written_us: u64,
}

impl HistoryWriter {
    /// Begins a file that must not exist yet.
    ///
    /// # Errors
    /// [`Error::Environment`] when the disk refuses.
    pub fn create(path: &Path, header: &Header) -> Result<Self, Error> {
        Self::begin(path, header).map_err(|error| cannot("write", path, &error))
    }

    fn begin(path: &Path, header: &Header) -> io::Result<Self> {
        let unfinished = Header { complete: Some(false), ..header.clone() };
        let line = serde_json::to_string(&HeaderLine::from(&unfinished))?;
        let key = "\"complete\":";
        let complete_at = line.find(key).map(|at| at + key.len());
        let complete_at = complete_at.ok_or_else(|| io::Error::other("a header without `complete`"))? as u64;
        let mut out = BufWriter::new(File::create_new(path)?);
        writeln!(out, "{line}")?;
        out.flush()?; // A reader of a file without events yet finds a header.
        let path = path.to_owned();
        let waiting = BinaryHeap::new();
        Ok(Self { path, out, complete_at, waiting, given: 0, newest_us: 0, written_us: 0 })
    }

    /// Writes one event. Events may come in any order within one second of their clock.
    ///
    /// # Errors
    /// [`Error::Environment`] when the disk refuses, or when an event with a much later time was written already.
    pub fn write(&mut self, event: &Event<'_>) -> Result<(), Error> {
        if event.t_us < self.written_us {
            let late = self.newest_us - event.t_us;
            return Err(Error::environment(format!(
                "{}: an event came {late} µs after a later one; {KEPT_BACK_US} µs is the most",
                self.path.display()
            )));
        }
        self.keep(event).map_err(|error| cannot("write", &self.path, &error))
    }

    fn keep(&mut self, event: &Event<'_>) -> io::Result<()> {
        let line = serde_json::to_string(&EventLine::from(event))?;
        self.waiting.push(Reverse((event.t_us, self.given, line)));
        self.given += 1;
        self.newest_us = self.newest_us.max(event.t_us);
        self.write_until(self.newest_us.saturating_sub(KEPT_BACK_US))
    }

    fn write_until(&mut self, until_us: u64) -> io::Result<()> {
        while self.waiting.peek().is_some_and(|Reverse((t_us, ..))| *t_us <= until_us) {
            let Some(Reverse((t_us, _, line))) = self.waiting.pop() else { break };
            self.written_us = t_us;
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Writes what was kept back, and into the header that the history is complete.
    ///
    /// # Errors
    /// [`Error::Environment`] when the disk refuses.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end().map_err(|error| cannot("write", &self.path, &error))
    }

    fn end(&mut self) -> io::Result<()> {
        self.write_until(u64::MAX)?;
        self.out.flush()?;
        let file = self.out.get_mut();
        file.seek(SeekFrom::Start(self.complete_at))?;
        file.write_all(b"true ")
    }
}

impl Drop for HistoryWriter {
    fn drop(&mut self) {
        // What can't be written now is missing from a history that says that it is not complete.
        let _ = self.write_until(u64::MAX).and_then(|()| self.out.flush());
    }
}
