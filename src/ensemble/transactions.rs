//! What the servers wrote down of their own: creates and deletes, read off their transaction logs.
//!
//! The log is the ensemble's own order of events, whatever the clients believe. It also tells which nodes went with
//! their session, which no client is told of.
//!
//! Format: ZooKeeper's `FileTxnLog` (magic `ZKLG`, version 2, then records of checksum, length, header, body, and an
//! end mark; zeroes fill the file). Types: `ZooDefs.OpCode`; bodies: `zookeeper.jute`, package `org.apache.zookeeper.txn`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use crate::jute::Reader;

const MAGIC: &[u8] = b"ZKLG";
/// Magic, version, database id.
const HEADER: usize = 16;
/// By how much a file's time may lag behind the clock.
const TIMES_LAG: Duration = Duration::from_secs(2);

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const MULTI: i32 = 14;
const CREATE_2: i32 = 15;
const CREATE_CONTAINER: i32 = 19;
const DELETE_CONTAINER: i32 = 20;
const CREATE_TTL: i32 = 21;
const CLOSE_SESSION: i32 = -11;

/// A node's life, as the ensemble wrote it down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Life {
    /// The transaction that created it.
    pub created: i64,
    /// The transaction that deleted it; `None` while it is there.
    pub deleted: Option<i64>,
    /// When that was proposed, in milliseconds of the leader's wall clock since 1970.
    pub deleted_at_ms: Option<i64>,
    /// It went with its session.
    pub with_its_session: bool,
}

/// The lives of nodes, by the transaction that created each.
pub type Lives = BTreeMap<i64, Life>;

/// What one transaction did to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Created(String),
    Deleted(String),
    GoneWithItsSession(String),
}

impl Change {
    fn path(&self) -> &str {
        match self {
            Self::Created(path) | Self::Deleted(path) | Self::GoneWithItsSession(path) => path,
        }
    }
}

/// The lives of all nodes below a path that did not exist before that time. Reads the logs below all of these servers'
/// data directories: each server may lack what came before it was wiped, or after it was stopped. Logs that have not
/// been written to since are left out, so that a long run does not read all that came before again and again.
///
/// # Errors
/// When a log cannot be read, or is none.
pub fn lives(directories: &[PathBuf], below: &str, since: SystemTime) -> io::Result<Lives> {
    let mut transactions = BTreeMap::new();
    for directory in directories {
        for log in logs(directory, since)? {
            read(&written(&log)?, below, &mut transactions).map_err(|what| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", log.display()))
            })?;
        }
    }
    Ok(lives_of(&transactions))
}

/// The transaction logs below a server's data directory that were written to since, oldest first.
fn logs(directory: &Path, since: SystemTime) -> io::Result<Vec<PathBuf>> {
    let version = directory.join("version-2");
    let mut logs = Vec::new();
    match fs::read_dir(&version) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(logs),
        entries => {
            for entry in entries? {
                let entry = entry?;
                let is_log = entry.file_name().to_string_lossy().starts_with("log.");
                if is_log && entry.metadata()?.modified()? + TIMES_LAG >= since {
                    logs.push(entry.path());
                }
            }
        }
    }
    logs.sort();
    Ok(logs)
}

/// How much is read at a time.
const CHUNK: u64 = 1 << 20;

/// A log as far as it was written: servers reserve 64 MiB ahead, filled with zeroes.
fn written(log: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(log)?;
    let mut content = Vec::new();
    loop {
        let before = content.len();
        file.by_ref().take(CHUNK).read_to_end(&mut content)?;
        if content[before..].iter().all(|byte| *byte == 0) {
            content.truncate(before);
            return Ok(content);
        }
    }
}

/// By zxid: when it was proposed, and what it changed.
type Transactions = BTreeMap<i64, (i64, Vec<Change>)>;

fn lives_of(transactions: &Transactions) -> Lives {
    let mut lives = BTreeMap::new();
    let mut present: BTreeMap<&str, i64> = BTreeMap::new();
    for (zxid, (at_ms, changes)) in transactions {
        for change in changes {
            match change {
                Change::Created(path) => {
                    present.insert(path, *zxid);
                    lives.insert(*zxid, Life { created: *zxid, ..Life::default() });
                }
                Change::Deleted(path) | Change::GoneWithItsSession(path) => {
                    let Some(life) = present.remove(path.as_str()).and_then(|czxid| lives.get_mut(&czxid))
                    else {
                        continue;
                    };
                    life.deleted = Some(*zxid);
                    life.deleted_at_ms = Some(*at_ms);
                    life.with_its_session = matches!(change, Change::GoneWithItsSession(_));
                }
            }
        }
    }
    lives
}

/// Adds the transactions of one log that changed something below a path. A record that was being written when its
/// server was killed does not fit its checksum and ends the log, as it does for the server.
fn read(log: &[u8], below: &str, into: &mut Transactions) -> Result<(), &'static str> {
    if log.is_empty() {
        return Ok(());
    }
    if log.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("no transaction log of ZooKeeper");
    }
    let mut rest = Reader(log.get(HEADER..).unwrap_or_default());
    while let Some(record) = whole_record(&mut rest) {
        if let Some((zxid, at_ms, mut changes)) = transaction(&mut Reader(record)) {
            changes.retain(|change| change.path().starts_with(below));
            if !changes.is_empty() {
                into.entry(zxid).or_insert((at_ms, changes));
            }
        }
    }
    Ok(())
}

/// The next record, where it is there and fits its checksum.
fn whole_record<'a>(log: &mut Reader<'a>) -> Option<&'a [u8]> {
    let checksum = log.long()?;
    let record = log.buffer().filter(|record| !record.is_empty())?;
    let _end_mark = log.bytes(1);
    (checksum == i64::from(adler2::adler32_slice(record))).then_some(record)
}

/// One transaction: its number, its time, what it changed.
fn transaction(fields: &mut Reader<'_>) -> Option<(i64, i64, Vec<Change>)> {
    let _session = fields.long()?;
    let _request = fields.int()?;
    let zxid = fields.long()?;
    let at_ms = fields.long()?;
    let kind = fields.int()?;
    Some((zxid, at_ms, changes(kind, fields)))
}

fn changes(kind: i32, fields: &mut Reader<'_>) -> Vec<Change> {
    match kind {
        CREATE | CREATE_2 | CREATE_CONTAINER | CREATE_TTL => {
            fields.string().map(Change::Created).into_iter().collect()
        }
        DELETE | DELETE_CONTAINER => fields.string().map(Change::Deleted).into_iter().collect(),
        CLOSE_SESSION => {
            let count = fields.int().unwrap_or(0);
            (0..count).map_while(|_| fields.string()).map(Change::GoneWithItsSession).collect()
        }
        MULTI => {
            let count = fields.int().unwrap_or(0);
            let parts = (0..count).map_while(|_| Some((fields.int()?, fields.buffer()?)));
            parts
                .collect::<Vec<_>>()
                .into_iter()
                .flat_map(|(kind, body)| changes(kind, &mut Reader(body)))
                .collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [(text.len() as i32).to_be_bytes().as_slice(), text.as_bytes()].concat()
    }

    fn record(zxid: i64, kind: i32, body: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(7_i64.to_be_bytes());
        record.extend(1_i32.to_be_bytes());
        record.extend(zxid.to_be_bytes());
        record.extend((1_000 + zxid).to_be_bytes());
        record.extend(kind.to_be_bytes());
        record.extend(body);
        let mut whole = i64::from(adler2::adler32_slice(&record)).to_be_bytes().to_vec();
        whole.extend((record.len() as i32).to_be_bytes());
        whole.extend(record);
        whole.push(b'B');
        whole
    }

    fn log(records: &[Vec<u8>]) -> Vec<u8> {
        let mut log = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
        records.iter().for_each(|record| log.extend(record));
        log.extend([0; 64]);
        log
    }

    fn read_lives(log: &[u8]) -> Lives {
        let mut transactions = Transactions::new();
        read(log, "/l/", &mut transactions).unwrap();
        lives_of(&transactions)
    }

    #[test]
    fn a_node_lives_from_its_create_to_its_delete_or_to_the_end_of_its_session() {
        let ends = [2_i32.to_be_bytes().to_vec(), text("/l/b"), text("/other")].concat();
        let written = [
            record(1, CREATE, &text("/l/a")),
            record(2, CREATE_2, &text("/l/b")),
            record(3, CREATE, &text("/elsewhere")),
            record(4, DELETE, &text("/l/a")),
            record(5, CLOSE_SESSION, &ends),
            record(6, CREATE, &text("/l/a")),
        ];
        let lives = read_lives(&log(&written));
        assert_eq!(
            lives[&1],
            Life { created: 1, deleted: Some(4), deleted_at_ms: Some(1_004), with_its_session: false }
        );
        assert_eq!((lives[&2].deleted, lives[&6].deleted), (Some(5), None));
        assert!(lives[&2].with_its_session);
        assert_eq!(lives.len(), 3);
    }

    #[test]
    fn a_multi_is_its_parts() {
        let part = |kind: i32, body: Vec<u8>| {
            [kind.to_be_bytes().to_vec(), (body.len() as i32).to_be_bytes().to_vec(), body].concat()
        };
        let parts = [part(CREATE, text("/l/x")), part(DELETE, text("/l/a"))].concat();
        let body = [2_i32.to_be_bytes().to_vec(), parts].concat();
        let lives = read_lives(&log(&[record(1, CREATE, &text("/l/a")), record(2, MULTI, &body)]));
        assert_eq!((lives[&1].deleted, lives[&2].created), (Some(2), 2));
    }

    #[test]
    fn what_was_being_written_when_the_server_was_killed_is_left_out() {
        let mut cut = log(&[record(1, CREATE, &text("/l/a"))]);
        let (checksum, length) = (8, 4);
        cut.truncate(HEADER + checksum + length + 20);
        assert!(read_lives(&cut).is_empty());
        // The system had made the file longer already: what is missing of the record is zeroes
        let mut torn = log(&[record(1, CREATE, &text("/l/a")), record(2, DELETE, &text("/l/a"))]);
        let deletion = torn.len() - 64 - 10;
        torn[deletion..].fill(0);
        assert_eq!(read_lives(&torn)[&1].deleted, None);
        assert!(read(b"no log", "/", &mut Transactions::new()).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_read_without_a_panic(garbage in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&log(&[garbage.clone(), record(1, MULTI, &garbage)]), "/", &mut Transactions::new());
        }
    }
}
