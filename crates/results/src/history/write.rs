//! Writes a history: live, from a complete trial, or merged from several workers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::super::layout::cannot;
use super::read::HistoryReader;
use super::wire::{EventLine, HeaderLine};
use zklockbench_core::error::Error;
use zklockbench_record::Trial;
use zklockbench_record::history::{Event, Header, What};

/// Time for which an event is buffered, so that an earlier event of another thread can be written first.
const KEPT_BACK_US: u64 = 1_000_000;

/// A writer for a history with events on one clock.
///
/// Threads stamp events before passing them on, so events arrive slightly out of order and are sorted. The
/// header declares the history incomplete until [`HistoryWriter::finish`]. Dropping the writer earlier keeps
/// the events so far.
#[derive(Debug)]
pub struct HistoryWriter {
    path: PathBuf,
    out: BufWriter<File>,
    /// File offset of the header's `complete` value, which is `false` until the history is finished.
    complete_at: u64,
    waiting: BinaryHeap<Reverse<(u64, u64, String)>>,
    given: u64,
    newest_us: u64,
    written_us: u64,
}

impl HistoryWriter {
    /// Creates a file that must not exist yet.
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
        out.flush()?; // Readers find a header even before the first event.
        let path = path.to_owned();
        let waiting = BinaryHeap::new();
        Ok(Self { path, out, complete_at, waiting, given: 0, newest_us: 0, written_us: 0 })
    }

    /// Writes one event. Events may be out of order by up to one second.
    ///
    /// # Errors
    /// [`Error::Environment`] if writing fails, or if a later event was already written.
    pub fn write(&mut self, event: &Event<'_>) -> Result<(), Error> {
        if event.t_us < self.written_us {
            let late = self.newest_us - event.t_us;
            return Err(Error::environment(format!(
                "{}: an event is {late} µs older than the newest event; the limit is {KEPT_BACK_US} µs",
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

    /// Writes the buffered events, and declares the history complete in the header.
    pub fn finish(self) -> Result<(), Error> {
        self.close(true)
    }

    fn close(mut self, is_complete: bool) -> Result<(), Error> {
        self.end(is_complete).map_err(|error| cannot("write", &self.path, &error))
    }

    fn end(&mut self, is_complete: bool) -> io::Result<()> {
        self.write_until(u64::MAX)?;
        self.out.flush()?;
        if !is_complete {
            return Ok(());
        }
        let file = self.out.get_mut();
        file.seek(SeekFrom::Start(self.complete_at))?;
        file.write_all(b"true ")
    }
}

impl Drop for HistoryWriter {
    fn drop(&mut self) {
        // Lost events are acceptable here, because the history is declared incomplete.
        let _ = self.write_until(u64::MAX).and_then(|()| self.out.flush());
    }
}

/// Writes the history of a trial, sorted by time, if it was requested.
pub fn write_trial(path: &Path, trial: &Trial) -> Result<(), Error> {
    let Some(facts) = &trial.history else { return Ok(()) };
    let header = facts.header(trial);
    let mut writer = HistoryWriter::create(path, &header)?;
    facts.each_event(trial, |error| cannot("write", path, &error), |event| writer.write(event))?;
    writer.close(header.complete == Some(true))
}

struct WorkerHistory {
    process: String,
    reader: HistoryReader,
    /// Latest transaction in the history so far.
    latest: i64,
}

impl WorkerHistory {
    /// Returns the next event as a line, with the latest known transaction, which determines the event's
    /// order. Writes to resources are skipped, because each worker has its own resources.
    fn next(&mut self) -> Result<Option<(i64, String)>, Error> {
        loop {
            let Some(line) = self.reader.next_event()? else { return Ok(None) };
            let number = line.place.line;
            let event = match line.event() {
                Ok(event) => Event { process: &self.process, ..event },
                Err(what) => return Err(self.reader.mistake(number, &what)),
            };
            let zxid = match &event.what {
                What::Write(_) => continue,
                What::Acquire(acquire) => acquire.zxid.max(acquire.token),
                What::Release(release) => release.deleted_from(),
                What::Session | What::Trace(_) => None,
            };
            self.latest = self.latest.max(zxid.unwrap_or(0));
            let text = serde_json::to_string(&EventLine::from(&event)).map_err(Error::environment)?;
            return Ok(Some((self.latest, text)));
        }
    }
}

/// Merges the histories of numbered workers into a new file. Events are ordered by the ensemble's
/// transactions, because workers share no clock. A hold whose end is not recorded is not compared with those of other
/// workers, so an incomplete part does not affect the others.
pub fn merge_histories(parts: &[(usize, PathBuf)], to: &Path) -> Result<(), Error> {
    let open = |(worker, path): &(usize, PathBuf)| {
        Ok(WorkerHistory {
            process: format!("worker-{worker}"),
            reader: HistoryReader::open(path)?,
            latest: 0,
        })
    };
    let mut parts: Vec<WorkerHistory> = parts.iter().map(open).collect::<Result<_, Error>>()?;
    let headers = || parts.iter().map(|part| part.reader.header());
    let header = Header {
        complete: Some(headers().all(|own| own.complete == Some(true))),
        locks: headers().flat_map(|own| own.locks.clone()).collect(),
        interference: headers().flat_map(|own| own.interference.clone()).collect(),
    };
    let failed = |error: io::Error| cannot("write", to, &error);
    let mut out = BufWriter::new(File::create_new(to).map_err(failed)?);
    let header =
        serde_json::to_string(&HeaderLine::from(&header)).map_err(io::Error::other).map_err(failed)?;
    writeln!(out, "{header}").map_err(failed)?;
    let mut waiting = BinaryHeap::new();
    for (place, part) in parts.iter_mut().enumerate() {
        waiting.extend(part.next()?.map(|(zxid, line)| Reverse((zxid, place, line))));
    }
    while let Some(Reverse((_, place, line))) = waiting.pop() {
        writeln!(out, "{line}").map_err(failed)?;
        waiting.extend(parts[place].next()?.map(|(zxid, line)| Reverse((zxid, place, line))));
    }
    out.flush().map_err(failed)
}
