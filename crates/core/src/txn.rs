//! Parser for ZooKeeper's transaction logs, shared by all readers in the workspace.
//!
//! The format is that of `FileTxnLog`, with magic `ZKLG` and version 2. A record consists of a checksum, a
//! length, a header, a body and an end mark; zeros fill the rest of the file. ZooKeeper defines the record types
//! in `ZooDefs.OpCode`, and the bodies in `zookeeper.jute`, package `org.apache.zookeeper.txn`. A failed multi
//! is also logged, and its operations before the failed one look as if they had succeeded. Since 3.6.0, the
//! record that closes a session lists the session's nodes, unless `zookeeper.closeSessionTxn.enabled=false`.

use serde::{Deserialize, Serialize};

use crate::jute::Reader;

pub const MAGIC: &[u8] = b"ZKLG";
/// Length of a log's header.
pub const HEADER: usize = 16;
pub const END_MARK: u8 = b'B';

pub const CREATE: i32 = 1;
pub const DELETE: i32 = 2;
pub const SET_DATA: i32 = 5;
pub const MULTI: i32 = 14;
pub const CREATE_2: i32 = 15;
pub const CREATE_CONTAINER: i32 = 19;
pub const DELETE_CONTAINER: i32 = 20;
pub const CREATE_TTL: i32 = 21;
pub const CREATE_SESSION: i32 = -10;
pub const CLOSE_SESSION: i32 = -11;
pub const ERROR: i32 = -1;

/// Length of the two fields before a payload: its checksum and its length.
pub const FRAME: usize = 12;
/// Length of a transaction's header.
const TRANSACTION: usize = 32;
/// Maximum length of a record. By default, servers accept requests of up to 1 MiB (`jute.maxbuffer`).
const LARGEST: usize = 64 << 20;
/// Length in bytes of the digest that follows most bodies since 3.6.0.
const DIGEST: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Happened {
    Created,
    Written,
    /// Deleted by a request or with its session.
    Deleted,
}

/// A logged transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub session: i64,
    /// The client's number for the request; reads are numbered, too.
    pub cxid: i32,
    pub zxid: i64,
    /// Time of the proposal, in ms since 1970 by the leader's wall clock.
    pub at_ms: i64,
    pub kind: i32,
    body: &'a [u8],
}

/// A change of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    pub path: &'a [u8],
    pub happened: Happened,
    pub with_its_session: bool,
    /// Whether the transaction created an ephemeral node.
    pub ephemeral: bool,
    /// Number that the create appended, if the node is sequential; `None` if the record does not contain it, as
    /// in logs of versions before 3.4.
    pub sequence: Option<i32>,
}

/// Content at the start of the unread part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    Record {
        record: Record<'a>,
        /// Length of the record in the log.
        length: usize,
        /// Whether the end mark is correct.
        is_marked: bool,
    },
    /// Zeros, which fill the file after the last record.
    End,
    /// The start of a record of this length.
    Incomplete(usize),
    Damaged,
}

/// Checks a log's magic number. `None` if the header is incomplete.
pub fn begins(log: &[u8]) -> Result<Option<()>, &'static str> {
    match log.get(..MAGIC.len()) {
        None | Some([0, 0, 0, 0]) => Ok(None),
        Some(MAGIC) => Ok((log.len() >= HEADER).then_some(())),
        Some(_) => Err("not a ZooKeeper transaction log"),
    }
}

/// Parses the start of the unread part of a log. A record is incomplete or damaged while it is being written,
/// or if the server was killed during the write. Servers stop reading at such a record.
pub fn look(log: &[u8]) -> Found<'_> {
    let mut fields = Reader(log);
    let (Some(checksum), Some(length)) = (fields.long(), fields.int()) else {
        return Found::Incomplete(FRAME);
    };
    let length = match usize::try_from(length) {
        Ok(0) if checksum == 0 => return Found::End,
        Ok(length) if (TRANSACTION..=LARGEST).contains(&length) => length,
        _ => return Found::Damaged,
    };
    let (Some(payload), Some(mark)) = (fields.bytes(length), fields.bytes(1)) else {
        return Found::Incomplete(FRAME + length + 1);
    };
    if checksum != i64::from(adler2::adler32_slice(payload)) {
        return Found::Damaged;
    }
    match Record::of(payload) {
        Some(record) => Found::Record { record, length: FRAME + length + 1, is_marked: mark == [END_MARK] },
        None => Found::Damaged,
    }
}

/// Returns the next record of a log and its length. `None` at the end, or if the record is incomplete or
/// damaged.
pub fn next(log: &[u8]) -> Option<(Record<'_>, usize)> {
    match look(log) {
        Found::Record { record, length, .. } => Some((record, length)),
        Found::End | Found::Incomplete(_) | Found::Damaged => None,
    }
}

/// Returns the position of the first intact record at or after `from`, if any.
pub fn resume(log: &[u8], from: usize) -> Option<usize> {
    // Limit the time of the search, in case every byte looks like the start of a long record.
    let mut budget = RESUMES_WITHIN;
    for at in from..log.len() {
        let Some(length) = seemingly_complete(&log[at..]) else { continue };
        budget = budget.checked_sub(length)?;
        if matches!(look(&log[at..]), Found::Record { is_marked: true, .. }) {
            return Some(at);
        }
    }
    None
}

/// Maximum number of bytes to checksum while searching for a record.
const RESUMES_WITHIN: usize = 1 << 28;

/// Returns the length of a possible record: the checksum fits into 32 bits, and the end mark is in place.
fn seemingly_complete(log: &[u8]) -> Option<usize> {
    let mut fields = Reader(log);
    if fields.int()? != 0 {
        return None;
    }
    let _checksum = fields.int()?;
    let length = usize::try_from(fields.int()?).ok().filter(|length| *length >= TRANSACTION)?;
    (log.get(FRAME + length) == Some(&END_MARK)).then_some(length)
}

impl<'a> Record<'a> {
    /// Parses the payload of a record; `None` if it is too short.
    pub fn of(payload: &'a [u8]) -> Option<Self> {
        let mut fields = Reader(payload);
        Some(Self {
            session: fields.long()?,
            cxid: fields.int()?,
            zxid: fields.long()?,
            at_ms: fields.long()?,
            kind: fields.int()?,
            body: fields.0,
        })
    }

    /// Returns whether the transaction ended its session. This deletes all ephemeral nodes of the session,
    /// listed or not.
    pub fn ends_session(&self) -> bool {
        self.kind == CLOSE_SESSION
    }

    /// Returns the error code if the request failed.
    pub fn error(&self) -> Option<i32> {
        (self.kind == ERROR).then(|| Reader(self.body).int()).flatten()
    }

    /// Returns the session timeout in ms if the transaction created a session.
    pub fn session_timeout(&self) -> Option<i32> {
        (self.kind == CREATE_SESSION).then(|| Reader(self.body).int()).flatten()
    }

    /// Passes each change to `note`. A failed multi changes nothing. A malformed body yields the changes
    /// before the first error.
    pub fn changes(&self, note: &mut dyn FnMut(Change<'a>)) {
        let _ = changes(self.kind, Reader(self.body), note);
    }
}

fn changes<'a>(kind: i32, mut fields: Reader<'a>, note: &mut dyn FnMut(Change<'a>)) -> Option<()> {
    let of =
        |path, happened| Change { path, happened, with_its_session: false, ephemeral: false, sequence: None };
    match kind {
        CREATE | CREATE_2 => {
            let path = fields.buffer()?;
            let ephemeral = is_ephemeral(&mut fields).unwrap_or(false);
            // The appended number is the parent's version before the create; the record contains the version
            // after it.
            let sequence = fields.int().map(|parent| parent.wrapping_sub(1));
            note(Change { ephemeral, sequence, ..of(path, Happened::Created) });
        }
        CREATE_CONTAINER | CREATE_TTL => note(of(fields.buffer()?, Happened::Created)),
        SET_DATA => note(of(fields.buffer()?, Happened::Written)),
        DELETE | DELETE_CONTAINER => note(of(fields.buffer()?, Happened::Deleted)),
        CLOSE_SESSION => {
            if !lists_paths(fields) {
                return None;
            }
            for _ in 0..fields.int()? {
                note(Change { with_its_session: true, ..of(fields.buffer()?, Happened::Deleted) });
            }
        }
        MULTI => {
            let failed = parts(fields).any(|(kind, _)| kind == ERROR);
            for (kind, body) in parts(fields).filter(|(kind, _)| !failed && *kind != MULTI) {
                let _ = changes(kind, Reader(body), note);
            }
        }
        _ => {}
    }
    Some(())
}

/// Returns whether a created node is ephemeral, based on the fields after its path.
fn is_ephemeral(fields: &mut Reader<'_>) -> Option<bool> {
    fields.skip_data_and_acls()?;
    fields.bool()
}

/// Returns whether the body of a close-session record lists paths. The body may also be empty or a digest.
fn lists_paths(mut fields: Reader<'_>) -> bool {
    match fields.0.len() {
        0 => false,
        // A list of one four-byte path has the same length, but a digest starts with a version above 1.
        DIGEST => fields.int() == Some(1) && fields.int() == Some(4),
        _ => true,
    }
}

/// Returns the kinds and bodies of a multi's operations.
fn parts<'a>(mut fields: Reader<'a>) -> impl Iterator<Item = (i32, &'a [u8])> {
    let count = fields.int().unwrap_or(0);
    (0..count).map_while(move |_| Some((fields.int()?, fields.buffer()?)))
}

/// Serialises a buffer: its length and its contents.
pub fn buffer(bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Serialises a record with this header and body, as servers write it.
pub fn written(header: Record<'_>, body: &[u8]) -> Vec<u8> {
    let fields = [
        &header.session.to_be_bytes()[..],
        &header.cxid.to_be_bytes(),
        &header.zxid.to_be_bytes(),
        &header.at_ms.to_be_bytes(),
        &header.kind.to_be_bytes(),
        body,
    ];
    let payload = fields.concat();
    let checksum = i64::from(adler2::adler32_slice(&payload)).to_be_bytes();
    [&checksum[..], &buffer(&payload), &[END_MARK]].concat()
}

/// Returns a record with these fields and an empty body.
pub fn header(session: i64, cxid: i32, zxid: i64, at_ms: i64, kind: i32) -> Record<'static> {
    Record { session, cxid, zxid, at_ms, kind, body: &[] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delete(zxid: i64) -> Vec<u8> {
        written(header(7, 1, zxid, 1_000 + zxid, DELETE), &buffer(b"/l/a"))
    }

    #[test]
    fn look_finds_the_end_of_a_log_and_the_length_of_an_incomplete_record() {
        let log = [delete(1), vec![0; 64]].concat();
        let Found::Record { record, length, is_marked } = look(&log) else { panic!("no record") };
        assert_eq!((record.zxid, record.session, length, is_marked), (1, 7, delete(1).len(), true));
        assert_eq!(look(&log[length..]), Found::End);
        assert_eq!(look(&log[..length - 1]), Found::Incomplete(length));
        assert_eq!(look(&log[..5]), Found::Incomplete(FRAME));
    }

    #[test]
    fn resume_finds_the_next_record_after_a_flipped_bit() {
        let (first, second) = (delete(1), delete(2));
        for bit in 0..8 * first.len() {
            let mut log = [first.clone(), second.clone()].concat();
            log[bit / 8] ^= 1 << (bit % 8);
            let is_intact = matches!(look(&log), Found::Record { is_marked: true, .. });
            assert!(!is_intact, "bit {bit}");
            assert_eq!(resume(&log, 1), Some(first.len()), "bit {bit}");
        }
    }

    #[test]
    fn create_yields_the_number_of_a_sequential_node_except_in_the_oldest_format() {
        let sequence = |parent: &[u8]| {
            let acl = [&31_i32.to_be_bytes()[..], &buffer(b"world"), &buffer(b"anyone")].concat();
            let lists = [&(-1_i32).to_be_bytes()[..], &1_i32.to_be_bytes(), &acl].concat();
            let body = [&buffer(b"/l/a")[..], &lists, &[1], parent].concat();
            let mut found = None;
            let log = written(header(7, 1, 1, 5, CREATE_2), &body);
            next(&log).unwrap().0.changes(&mut |change| found = Some((change.ephemeral, change.sequence)));
            found
        };
        assert_eq!(sequence(&8_i32.to_be_bytes()), Some((true, Some(7))));
        assert_eq!(sequence(&i32::MIN.to_be_bytes()), Some((true, Some(i32::MAX))));
        assert_eq!(sequence(&[]), Some((true, None)));
    }

    #[test]
    fn records_return_their_error_code_or_session_timeout() {
        let body = (-110_i32).to_be_bytes();
        let failed = written(header(7, 3, 1, 5, ERROR), &body);
        assert_eq!(next(&failed).unwrap().0.error(), Some(-110));
        let begun = written(header(7, 0, 1, 5, CREATE_SESSION), &10_000_i32.to_be_bytes());
        let record = next(&begun).unwrap().0;
        assert_eq!((record.session_timeout(), record.error()), (Some(10_000), None));
    }

    proptest! {
        #[test]
        fn changes_never_panics_on_arbitrary_bodies(body in proptest::collection::vec(any::<u8>(), 0..200), kind in -12..25_i32) {
            let log = written(header(1, 1, 1, 1, kind), &body);
            let (record, _) = next(&log).unwrap();
            record.changes(&mut |_| {});
        }
    }
}
