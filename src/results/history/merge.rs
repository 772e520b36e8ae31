//! The histories of several workers as one: in the order of the ensemble's transactions, since no two of them share a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::super::layout::cannot;
use super::read::HistoryReader;
use super::wire::{EventLine, HeaderLine};
use crate::record::history::{Event, Header, What};
use crate::words::error::Error;

struct WorkerHistory {
    process: String,
    reader: HistoryReader,
    /// The latest transaction that it has told of.
    latest: i64,
}

impl WorkerHistory {
    /// Its next event as a line, with the transaction by which it is put in order: that of the latest event that told one. What
    /// contenders wrote to resources is left out, because each worker has resources of its own.
    fn next(&mut self) -> Result<Option<(i64, String)>, Error> {
        loop {
            let Some(line) = self.reader.next_event()? else { return Ok(None) };
            let number = line.place.line;
            let event = match line.event() {
                Ok(event) => Event { process: &self.process, ..event },
                Err(what) => return Err(self.reader.mistake(number, &what)),
            };
            let told = match &event.what {
                What::Write(_) => continue,
                What::Acquire(acquire) => acquire.zxid.max(acquire.token),
                What::Release(release) => release.deleted_from(),
                What::Session => None,
            };
            self.latest = self.latest.max(told.unwrap_or(0));
            let text = serde_json::to_string(&EventLine::from(&event)).map_err(Error::environment)?;
            return Ok(Some((self.latest, text)));
        }
    }
}

/// Writes the histories of these workers, each with its number, into one file that must not exist yet.
///
/// # Errors
/// Same errors as [`HistoryReader::open`], and when the disk refuses.
pub fn merge_histories(parts: &[(usize, PathBuf)], to: &Path) -> Result<(), Error> {
    let open = |(worker, path): &(usize, PathBuf)| {
        Ok(WorkerHistory {
            process: format!("worker-{worker}"),
            reader: HistoryReader::open(path)?,
            latest: 0,
        })
    };
    let parts: Vec<WorkerHistory> = parts.iter().map(open).collect::<Result<_, Error>>()?;
    write_all(parts, to).map_err(|error| match error {
        Failed::Reading(error) => error,
        Failed::Writing(error) => cannot("write", to, &error),
    })
}

enum Failed {
    Reading(Error),
    Writing(io::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Reading(error)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

fn write_all(mut parts: Vec<WorkerHistory>, to: &Path) -> Result<(), Failed> {
    let mut out = BufWriter::new(File::create_new(to)?);
    let mut header = Header { complete: Some(true), ..Header::default() };
    for part in &parts {
        let own = part.reader.header();
        header.complete = header.complete.filter(|_| own.complete == Some(true)).or(Some(false));
        header.locks.extend(own.locks.clone());
    }
    writeln!(out, "{}", serde_json::to_string(&HeaderLine::from(&header)).map_err(io::Error::other)?)?;
    let mut waiting = BinaryHeap::new();
    for (place, part) in parts.iter_mut().enumerate() {
        waiting.extend(part.next()?.map(|(zxid, line)| Reverse((zxid, place, line))));
    }
    while let Some(Reverse((_, place, line))) = waiting.pop() {
        writeln!(out, "{line}")?;
        waiting.extend(parts[place].next()?.map(|(zxid, line)| Reverse((zxid, place, line))));
    }
    Ok(out.flush()?)
}
