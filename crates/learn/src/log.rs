//! The logs of one server, file after file, as a stream of records in bounded memory.

use std::cell::OnceCell;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::files::{name_of, opened};
use zklockbench_core::error::Error;
use zklockbench_core::txn::{self, FRAME, Found, HEADER, Record};

/// Size of a read, in bytes.
const CHUNK: usize = 1 << 20;
/// Number of bytes searched for the next record after a damaged one.
const SEARCHED: usize = 4 * CHUNK;
/// Maximum number of instances of damage to list; the rest are only counted.
const KEPT: usize = 100;

const CUT_OFF: &str = "a truncated record, which was skipped";
const DAMAGED_GZIP: &str = "incomplete or damaged gzip data; the rest of the file was skipped";
const DAMAGED: &str = "a damaged record; the rest of the file was skipped";
/// Damage left by a server that was killed while it wrote to a preallocated file.
const PARTIAL: &str = "a partially written record, which was skipped";

/// Place in a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// Name of the file.
    pub file: String,
    /// Offset of the damage in bytes.
    pub at: u64,
    /// Kind of damage, and what was skipped.
    pub what: String,
}

/// Damage found in all files.
#[derive(Debug, Default)]
pub struct Damages {
    pub kept: Vec<Damage>,
    pub count: u64,
    /// Whether damage is an error.
    pub are_refused: bool,
}

impl Damages {
    pub fn note(&mut self, file: String, at: u64, what: &str) -> Result<(), Error> {
        if self.are_refused {
            return Err(Error::usage(format!(
                "{file}, byte {at}: {what}; omit --strict to continue without it"
            )));
        }
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Damage { file, at, what: what.to_owned() });
        }
        Ok(())
    }
}

/// Records of a server, in ascending order of zxid.
#[derive(Default)]
pub struct LogStream {
    files: Vec<(i64, PathBuf)>,
    /// Index in `files` of the next file to open.
    passed: usize,
    /// Zxid of the server's last record, found on first use.
    last: OnceCell<Option<i64>>,
    open: Option<OpenLog>,
    bytes: Vec<u8>,
    /// Position in `bytes` of the first unread byte.
    at: usize,
    /// Payload of the current record in `bytes`.
    payload: Option<Range<usize>>,
    /// Zxid of the current record.
    pub zxid: Option<i64>,
    /// Zxid of the record before the current one.
    pub before: Option<i64>,
    /// Number of records whose zxid had already been read.
    pub repeated: u64,
}

struct OpenLog {
    file: Box<dyn Read>,
    name: String,
    /// Position in the file of the buffer's first byte.
    from: u64,
    /// Whether the rest of the file is damaged gzip data, which has been reported.
    is_cut: bool,
}

impl LogStream {
    pub fn of(logs: &[(i64, PathBuf)]) -> Self {
        Self { files: logs.to_vec(), ..Self::default() }
    }

    /// Returns the zxid of the server's last record.
    pub fn last(&self) -> Option<i64> {
        let last = |file: &(i64, PathBuf)| {
            let mut stream = Self::of(std::slice::from_ref(file));
            while stream.advance(&mut Damages::default()).ok()? {}
            stream.before
        };
        // The last file may not have a record yet.
        *self.last.get_or_init(|| self.files.iter().rev().find_map(last))
    }

    pub fn record(&self) -> Option<Record<'_>> {
        Record::of(self.bytes.get(self.payload.clone()?)?)
    }

    /// Advances to the next record; returns `false` at the end of the last file.
    pub fn advance(&mut self, damages: &mut Damages) -> Result<bool, Error> {
        if let Some(payload) = self.payload.take() {
            self.at = payload.end + 1;
            self.before = self.zxid;
        }
        loop {
            if self.open.is_none() && !self.open_next(damages)? {
                self.zxid = None;
                return Ok(false);
            }
            match txn::look(&self.bytes[self.at..]) {
                Found::Record { record, length, is_marked } => {
                    let zxid = record.zxid;
                    if !is_marked {
                        self.note(damages, "a record with an invalid end mark, which was used anyway")?;
                    }
                    if self.before.is_none_or(|before| zxid > before) {
                        self.payload = Some(self.at + FRAME..self.at + length - 1);
                        self.zxid = Some(zxid);
                        return Ok(true);
                    }
                    self.repeated += 1;
                    self.at += length;
                }
                Found::End => self.open = None,
                Found::Incomplete(length) => self.need(length, damages)?,
                Found::Damaged => self.skip(DAMAGED, damages)?,
            }
        }
    }

    fn open_next(&mut self, damages: &mut Damages) -> Result<bool, Error> {
        let Some((_, path)) = self.files.get(self.passed).cloned() else { return Ok(false) };
        self.passed += 1;
        // A server may purge a log at any time.
        let file = match opened(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.open_next(damages),
            opened => opened.map_err(Error::cannot("read", &path))?,
        };
        self.open = Some(OpenLog { file, name: name_of(&path), from: 0, is_cut: false });
        self.bytes.clear();
        self.at = 0;
        self.fill(HEADER, damages)?;
        match txn::begins(&self.bytes) {
            // The server did not finish creating the file.
            Ok(None) => self.open = None,
            Ok(Some(())) => self.at = HEADER,
            Err(what) => {
                self.open = None;
                damages.note(name_of(&path), 0, &format!("{what}: the file was skipped"))?;
            }
        }
        Ok(true)
    }

    /// Reads until the buffer has `length` unread bytes. Reports a damaged record if the file ends first.
    fn need(&mut self, length: usize, damages: &mut Damages) -> Result<(), Error> {
        match self.fill(length, damages)? {
            true => Ok(()),
            false if self.at == self.bytes.len() => {
                self.open = None;
                Ok(())
            }
            false => self.skip(CUT_OFF, damages),
        }
    }

    /// Fills the buffer; returns whether it has at least `length` unread bytes.
    fn fill(&mut self, length: usize, damages: &mut Damages) -> Result<bool, Error> {
        let Some(open) = &mut self.open else { return Ok(false) };
        self.bytes.drain(..self.at);
        open.from += self.at as u64;
        self.at = 0;
        while self.bytes.len() < length {
            let missing = CHUNK.max(length - self.bytes.len()) as u64;
            match open.file.by_ref().take(missing).read_to_end(&mut self.bytes) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if is_damaged_gzip(&error) => {
                    damages.note(open.name.clone(), open.from + self.bytes.len() as u64, DAMAGED_GZIP)?;
                    open.file = Box::new(io::empty());
                    open.is_cut = true;
                }
                Err(error) => {
                    return Err(Error::environment(format!("cannot read {}: {error}", open.name)));
                }
            }
        }
        Ok(true)
    }

    /// Skips to the next undamaged record. `if_last` describes the damage if no record follows.
    fn skip(&mut self, if_last: &str, damages: &mut Damages) -> Result<(), Error> {
        self.fill(SEARCHED, damages)?;
        let Some(next) = txn::resume(&self.bytes, self.at + 1) else {
            let is_padded = self.bytes[self.at..].iter().rev().take(FRAME).all(|byte| *byte == 0);
            let is_partial = is_padded && if_last == DAMAGED;
            if !self.open.as_ref().is_some_and(|open| open.is_cut) {
                self.note(damages, if is_partial { PARTIAL } else { if_last })?;
            }
            self.open = None;
            return Ok(());
        };
        let skipped = next - self.at;
        self.note(damages, &format!("{skipped} damaged bytes, which were skipped"))?;
        self.at = next;
        Ok(())
    }

    fn note(&self, damages: &mut Damages, what: &str) -> Result<(), Error> {
        let Some(open) = &self.open else { return Ok(()) };
        damages.note(open.name.clone(), open.from + self.at as u64, what)
    }
}

fn is_damaged_gzip(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | InvalidData | InvalidInput)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::written::{BEGIN, log, record};

    /// Returns the zxids and the damage of these files.
    fn read(files: &[Vec<u8>]) -> (Vec<i64>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = |at: usize| directory.path().join(format!("log.{at}"));
        let files: Vec<(i64, PathBuf)> = files
            .iter()
            .enumerate()
            .map(|(at, bytes)| {
                fs::write(path(at), bytes).unwrap();
                (at as i64, path(at))
            })
            .collect();
        let (mut stream, mut damages) = (LogStream::of(&files), Damages::default());
        let mut zxids = Vec::new();
        while stream.advance(&mut damages).unwrap() {
            assert_eq!(stream.record().unwrap().zxid, stream.zxid.unwrap());
            zxids.extend(stream.zxid);
        }
        (zxids, damages.kept.into_iter().map(|damage| damage.what).collect())
    }

    fn create(zxid: i64) -> Vec<u8> {
        record(zxid, txn::CREATE, &txn::buffer(format!("/l/{zxid}").as_bytes()))
    }

    fn creates(zxids: impl IntoIterator<Item = i64>) -> Vec<Vec<u8>> {
        zxids.into_iter().map(create).collect()
    }

    #[test]
    fn files_are_read_in_order_and_repeated_records_are_skipped() {
        let files = [log(&creates(1..=3)), log(&creates(3..=5)), Vec::new(), b"ZKLG\0".to_vec()];
        assert_eq!(read(&files), ((1..=5).collect(), Vec::new()));
    }

    #[test]
    fn log_truncated_within_its_last_record_loses_only_that_record() {
        let whole = [BEGIN, &creates(1..=3).concat()].concat();
        let last = create(3).len();
        for left in 1..last {
            let cut = whole[..whole.len() - left].to_vec();
            let (zxids, damage) = read(&[cut, log(&creates(4..=4))]);
            assert_eq!(zxids, [1, 2, 4], "{left} bytes missing");
            assert_eq!(damage, [CUT_OFF], "{left} bytes missing");
        }
        assert_eq!(read(&[whole]).0, [1, 2, 3]);
    }

    #[test]
    fn flipped_bit_damages_only_the_record_that_contains_it() {
        let records = creates(1..=3);
        let from = HEADER + records[0].len();
        for bit in 8 * from..8 * (from + records[1].len()) {
            let mut bytes = log(&records);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (zxids, damage) = read(&[bytes]);
            assert!(zxids == [1, 3] || zxids == [1, 2, 3], "bit {bit}: {zxids:?}");
            assert_eq!(damage.len(), 1, "bit {bit}");
        }
    }

    #[test]
    fn compressed_log_is_read_up_to_its_damage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.1.gz");
        let gz = |level| {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), level);
            gz.write_all(&log(&creates(1..=3))).unwrap();
            gz.finish().unwrap()
        };
        let (whole, stored) = (gz(flate2::Compression::fast()), gz(flate2::Compression::none()));
        // The third file ends within its last record.
        let within = stored.len() - 8 - 64 - create(3).len() / 2;
        let files = [(&whole[..], 3, 0), (&whole[..whole.len() - 4], 3, 1), (&stored[..within], 2, 1)];
        for (bytes, last, damaged) in files {
            fs::write(&path, bytes).unwrap();
            let (mut stream, mut damages) = (LogStream::of(&[(1, path.clone())]), Damages::default());
            let mut zxids = Vec::new();
            while stream.advance(&mut damages).unwrap() {
                zxids.extend(stream.zxid);
            }
            assert_eq!((zxids, damages.count), ((1..=last).collect(), damaged));
        }
    }

    #[test]
    fn damage_is_an_error_in_strict_mode() {
        let mut damages = Damages { are_refused: true, ..Damages::default() };
        let refused = damages.note("log.1".into(), 16, "a damaged record").unwrap_err().to_string();
        assert_eq!(refused, "log.1, byte 16: a damaged record; omit --strict to continue without it");
    }

    #[test]
    fn record_larger_than_a_chunk_is_read() {
        let large = record(2, txn::CREATE, &[txn::buffer(b"/l/b"), vec![7; CHUNK + 5]].concat());
        assert_eq!(read(&[log(&[create(1), large, create(3)])]), (vec![1, 2, 3], Vec::new()));
    }

    #[test]
    fn file_in_an_unknown_format_is_skipped_and_reported() {
        let (zxids, damage) = read(&[b"something else entirely".to_vec(), log(&creates(1..=1))]);
        assert_eq!(zxids, [1]);
        assert_eq!(damage, ["not a ZooKeeper transaction log: the file was skipped"]);
    }
}
