//! What the servers wrote down of their own: creates, writes and deletes, read off their transaction logs.
//!
//! The log is the ensemble's own order of events, whatever the clients believe. It also tells which nodes went with
//! their session, which no client is told of.
//!
//! Format: ZooKeeper's `FileTxnLog` (magic `ZKLG`, version 2, then records of checksum, length, header, body, and an
//! end mark; zeroes fill the file). Types: `ZooDefs.OpCode`; bodies: `zookeeper.jute`, package `org.apache.zookeeper.txn`.

use std::collections::{BTreeMap, BTreeSet};
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
const SET_DATA: i32 = 5;
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

/// The lives of nodes, by the transaction that created each. Nodes that one transaction created are one: they end with
/// the first of them that goes.
pub type Lives = BTreeMap<i64, Life>;

/// What the logs are asked for.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The lives of all nodes below that path, which ends with a slash and was not there before.
    pub below: &'a str,
    /// No log that was last written to before that needs to be read.
    pub since: SystemTime,
    /// The nodes there of which more is to be told, by their paths.
    pub named: &'a BTreeSet<String>,
    /// The sessions of which it is known what they did there.
    pub own: &'a BTreeSet<i64>,
}

impl Asked<'_> {
    fn wants(&self, change: &Change) -> bool {
        let path = change.path();
        path.starts_with(self.below) && (change.happened() != Happened::Written || self.named.contains(path))
    }
}

/// What the logs tell.
#[derive(Debug, Default)]
pub struct Told {
    /// Of all nodes.
    pub lives: Lives,
    /// Of those that were named, by their paths: in which transactions what happened to each, in order.
    pub named: BTreeMap<String, Vec<(i64, Happened)>>,
    /// What other sessions did there, in order; the first of it.
    pub foreign: Foreign,
}

/// What a session did that was not known: by the transaction, the session, what, and to which node.
pub type Foreign = BTreeMap<i64, (i64, Happened, String)>;

/// So much of it is told at most.
const FOREIGN_KEPT: usize = 100;

impl Told {
    /// The transaction that created the node of that path; `None` where several did, one after the other, or none.
    pub fn created(&self, path: &str) -> Option<i64> {
        let mut created = self.of(path).filter(|(_, happened)| *happened == Happened::Created);
        let (zxid, _) = created.next()?;
        created.next().is_none().then_some(zxid)
    }

    /// The first transaction after that one in which that happened to the node of a path.
    pub fn first_after(&self, zxid: i64, path: &str, happened: Happened) -> Option<i64> {
        self.of(path).find(|(at, what)| *at > zxid && *what == happened).map(|(at, _)| at)
    }

    fn of(&self, path: &str) -> impl Iterator<Item = (i64, Happened)> {
        self.named.get(path).into_iter().flatten().copied()
    }
}

/// What can happen to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It was created.
    Created,
    /// Its data was written.
    Written,
    /// It was deleted, by whomever: by a request, or with its session.
    Deleted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Created(String),
    Written(String),
    Deleted(String),
    GoneWithItsSession(String),
}

impl Change {
    fn path(&self) -> &str {
        match self {
            Self::Created(path)
            | Self::Written(path)
            | Self::Deleted(path)
            | Self::GoneWithItsSession(path) => path,
        }
    }

    fn happened(&self) -> Happened {
        match self {
            Self::Created(_) => Happened::Created,
            Self::Written(_) => Happened::Written,
            Self::Deleted(_) | Self::GoneWithItsSession(_) => Happened::Deleted,
        }
    }
}

/// Reads the logs below all of these servers' data directories: each server may lack what came before it was wiped, or
/// after it was stopped. Logs that have not been written to since are left out, so that a long run does not read all that
/// came before again and again.
///
/// # Errors
/// When a log cannot be read, or is none.
pub fn tell(directories: &[PathBuf], asked: &Asked<'_>) -> io::Result<Told> {
    let (mut transactions, mut foreign) = (BTreeMap::new(), Foreign::new());
    for directory in directories {
        for log in logs(directory, asked.since)? {
            read(&written(&log)?, asked, &mut transactions, &mut foreign).map_err(|what| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", log.display()))
            })?;
        }
    }
    Ok(Told { foreign, ..told(&transactions, asked) })
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

fn told(transactions: &Transactions, asked: &Asked<'_>) -> Told {
    let mut named: BTreeMap<String, Vec<(i64, Happened)>> = BTreeMap::new();
    for (zxid, (_, changes)) in transactions {
        for change in changes.iter().filter(|change| asked.named.contains(change.path())) {
            named.entry(change.path().to_owned()).or_default().push((*zxid, change.happened()));
        }
    }
    Told { lives: lives_of(transactions), named, ..Told::default() }
}

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
                Change::Written(_) => {}
                Change::Deleted(path) | Change::GoneWithItsSession(path) => {
                    let life = present.remove(path.as_str()).and_then(|czxid| lives.get_mut(&czxid));
                    let Some(life) = life.filter(|life| life.deleted.is_none()) else { continue };
                    life.deleted = Some(*zxid);
                    life.deleted_at_ms = Some(*at_ms);
                    life.with_its_session = matches!(change, Change::GoneWithItsSession(_));
                }
            }
        }
    }
    lives
}

/// Adds the transactions of one log that tell something of what was asked for. A record that was being written when its
/// server was killed does not fit its checksum and ends the log, as it does for the server.
fn read(
    log: &[u8],
    asked: &Asked<'_>,
    into: &mut Transactions,
    foreign: &mut Foreign,
) -> Result<(), &'static str> {
    if log.is_empty() {
        return Ok(());
    }
    if log.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("no transaction log of ZooKeeper");
    }
    let mut rest = Reader(log.get(HEADER..).unwrap_or_default());
    while let Some(record) = whole_record(&mut rest) {
        if let Some((session, zxid, at_ms, mut changes)) = transaction(&mut Reader(record)) {
            let is_foreign = session != SERVERS_OWN && !asked.own.contains(&session);
            if let Some(first) =
                changes.iter().find(|change| is_foreign && change.path().starts_with(asked.below))
            {
                foreign.insert(zxid, (session, first.happened(), first.path().to_owned()));
                if foreign.len() > FOREIGN_KEPT {
                    foreign.pop_last();
                }
            }
            changes.retain(|change| asked.wants(change));
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

/// The session in whose name servers remove containers that are empty, and nodes whose time is over.
const SERVERS_OWN: i64 = 0;

/// One transaction: its session, its number, its time, what it changed.
fn transaction(fields: &mut Reader<'_>) -> Option<(i64, i64, i64, Vec<Change>)> {
    let session = fields.long()?;
    let _request = fields.int()?;
    let zxid = fields.long()?;
    let at_ms = fields.long()?;
    let kind = fields.int()?;
    Some((session, zxid, at_ms, changes(kind, fields)))
}

fn changes(kind: i32, fields: &mut Reader<'_>) -> Vec<Change> {
    match kind {
        CREATE | CREATE_2 | CREATE_CONTAINER | CREATE_TTL => {
            fields.string().map(Change::Created).into_iter().collect()
        }
        SET_DATA => fields.string().map(Change::Written).into_iter().collect(),
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

    const OWN: i64 = 7;

    fn record(zxid: i64, kind: i32, body: &[u8]) -> Vec<u8> {
        record_of(OWN, zxid, kind, body)
    }

    fn record_of(session: i64, zxid: i64, kind: i32, body: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(session.to_be_bytes());
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

    fn read_of(log: &[u8], named: &[&str]) -> Result<Told, &'static str> {
        let named = named.iter().map(|path| (*path).to_owned()).collect();
        let own = BTreeSet::from([OWN]);
        let asked = Asked { below: "/l/", since: SystemTime::UNIX_EPOCH, named: &named, own: &own };
        let (mut transactions, mut foreign) = (Transactions::new(), Foreign::new());
        read(log, &asked, &mut transactions, &mut foreign)?;
        Ok(Told { foreign, ..told(&transactions, &asked) })
    }

    fn read_lives(log: &[u8]) -> Lives {
        read_of(log, &[]).unwrap().lives
    }

    fn multi(parts: &[(i32, Vec<u8>)]) -> Vec<u8> {
        let part = |(kind, body): &(i32, Vec<u8>)| {
            [kind.to_be_bytes().to_vec(), (body.len() as i32).to_be_bytes().to_vec(), body.clone()].concat()
        };
        let count = (parts.len() as i32).to_be_bytes().to_vec();
        [count, parts.iter().flat_map(part).collect()].concat()
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
        let body = multi(&[(CREATE, text("/l/x")), (DELETE, text("/l/a"))]);
        let lives = read_lives(&log(&[record(1, CREATE, &text("/l/a")), record(2, MULTI, &body)]));
        assert_eq!((lives[&1].deleted, lives[&2].created), (Some(2), 2));
    }

    #[test]
    fn nodes_that_one_transaction_created_end_with_the_first_of_them_that_goes() {
        let body = multi(&[(CREATE, text("/l/x")), (CREATE, text("/l/y"))]);
        let gone = [record(2, DELETE, &text("/l/y")), record(3, DELETE, &text("/l/x"))];
        let lives = read_lives(&log(&[vec![record(1, MULTI, &body)], gone.to_vec()].concat()));
        assert_eq!((lives.len(), lives[&1].deleted), (1, Some(2)));
    }

    #[test]
    fn of_a_node_that_is_named_it_is_told_what_happened_to_it_and_when() {
        let hand_over = multi(&[(SET_DATA, text("/l/b")), (DELETE, text("/l/a"))]);
        let written = [
            record(1, CREATE, &text("/l/a")),
            record(2, MULTI, &multi(&[(CREATE, text("/l/b"))])),
            record(3, SET_DATA, &text("/l/a")),
            record(4, MULTI, &hand_over),
            record(5, SET_DATA, &text("/l/b")),
        ];
        let told = read_of(&log(&written), &["/l/b"]).unwrap();
        assert_eq!((told.created("/l/b"), told.created("/l/a")), (Some(2), None), "the other was not named");
        let written_after = |zxid| told.first_after(zxid, "/l/b", Happened::Written);
        assert_eq!((written_after(2), written_after(4), written_after(5)), (Some(4), Some(5), None));
        assert_eq!(told.first_after(2, "/l/b", Happened::Deleted), None);
        assert_eq!(told.lives[&1].deleted, Some(4));
    }

    #[test]
    fn what_other_sessions_did_below_is_told_and_what_servers_did_themselves_is_not() {
        let ends = [1_i32.to_be_bytes().to_vec(), text("/l/c")].concat();
        let written = [
            record(1, CREATE, &text("/l/a")),
            record_of(8, 2, CREATE, &text("/elsewhere")),
            record_of(8, 3, DELETE, &text("/l/a")),
            record_of(9, 4, MULTI, &multi(&[(SET_DATA, text("/other")), (SET_DATA, text("/l/b"))])),
            record_of(10, 5, CLOSE_SESSION, &ends),
            record_of(SERVERS_OWN, 6, DELETE_CONTAINER, &text("/l/d")),
            record(7, DELETE, &text("/l/b")),
        ];
        let foreign = read_of(&log(&written), &[]).unwrap().foreign;
        let expected = [
            (3, (8, Happened::Deleted, "/l/a".to_owned())),
            (4, (9, Happened::Written, "/l/b".to_owned())),
            (5, (10, Happened::Deleted, "/l/c".to_owned())),
        ];
        assert_eq!(foreign, Foreign::from(expected));
    }

    #[test]
    fn of_a_path_that_was_taken_twice_nobody_can_say_which_create_was_meant() {
        let taken = |zxid| [record(zxid, CREATE, &text("/l/a")), record(zxid + 1, DELETE, &text("/l/a"))];
        let twice = read_of(&log(&[taken(1), taken(5)].concat()), &["/l/a"]).unwrap();
        assert_eq!(twice.created("/l/a"), None);
        assert_eq!(twice.first_after(3, "/l/a", Happened::Deleted), Some(6));
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
        assert!(read_of(b"no log", &[]).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_read_without_a_panic(garbage in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_of(&log(&[garbage.clone(), record(1, MULTI, &garbage)]), &["/l/a"]);
        }
    }
}
