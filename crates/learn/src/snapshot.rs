//! Reads the nodes of a snapshot.
//!
//! Format: `FileSnap` (magic `ZKSN`, version 2), sessions with their timeouts, a table of ACLs, then the
//! nodes, each with path, data, ACL and statistics. The path `/` marks the end; a checksum of all preceding bytes
//! follows. Since 3.6, the file may be compressed.

use std::io::{self, BufReader, Read};
use std::path::Path;

use adler2::Adler32;

use crate::files::{name_of, opened};
use zklockbench_zk::session_of;

const MAGIC: [u8; 4] = *b"ZKSN";
/// Maximum accepted length of a path or data, in bytes.
const LONGEST: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredNode {
    pub path: Vec<u8>,
    pub created: i64,
    /// Time of creation in ms since 1970.
    pub created_ms: i64,
    /// Session that owns the node; `None` unless the node is ephemeral.
    pub owner: Option<i64>,
}

/// Passes every node of a snapshot to `pass`. Returns the sessions with their timeouts in ms.
pub fn read(path: &Path, pass: &mut dyn FnMut(StoredNode)) -> io::Result<Vec<(i64, i32)>> {
    let mut file = BufReader::with_capacity(1 << 20, opened(path)?);
    if name_of(path).ends_with(".snappy") {
        return Err(io::Error::other("compressed with Snappy, which is not supported"));
    }
    nodes(&mut file, pass).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "incomplete or damaged"),
        _ => error,
    })
}

/// Computes the checksum of all bytes read.
struct Checked<R> {
    from: R,
    checksum: Adler32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.checksum.write_slice(&into[..read]);
        Ok(read)
    }
}

fn nodes(from: &mut impl Read, pass: &mut dyn FnMut(StoredNode)) -> io::Result<Vec<(i64, i32)>> {
    let from = &mut Checked { from, checksum: Adler32::new() };
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    if bytes::<4>(from)? != MAGIC {
        return Err(wrong("not a ZooKeeper snapshot"));
    }
    let _version_and_database = bytes::<12>(from)?;
    let mut timeouts = Vec::new();
    for _ in 0..int(from)? {
        timeouts.push((i64::from_be_bytes(bytes(from)?), int(from)?));
    }
    for _ in 0..int(from)? {
        let _number = bytes::<8>(from)?;
        for _ in 0..int(from)? {
            let _permissions = int(from)?;
            skip(from)?;
            skip(from)?;
        }
    }
    loop {
        let path = buffer(from)?;
        if path == b"/" {
            let checksum = i64::from(from.checksum.checksum());
            return match i64::from_be_bytes(bytes(from)?) == checksum {
                true => Ok(timeouts),
                false => Err(wrong("damaged (wrong checksum)")),
            };
        }
        skip(from)?;
        let _acl = bytes::<8>(from)?;
        let created = i64::from_be_bytes(bytes(from)?);
        let _modified = bytes::<8>(from)?;
        let created_ms = i64::from_be_bytes(bytes(from)?);
        let _modified_and_versions = bytes::<20>(from)?;
        let owner = i64::from_be_bytes(bytes(from)?);
        let _children_changed = bytes::<8>(from)?;
        pass(StoredNode { path, created, created_ms, owner: session_of(owner) });
    }
}

fn bytes<const COUNT: usize>(from: &mut impl Read) -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn int(from: &mut impl Read) -> io::Result<i32> {
    bytes(from).map(i32::from_be_bytes)
}

/// Reads the length of a buffer; a null buffer is empty.
fn length(from: &mut impl Read) -> io::Result<u64> {
    let length = u64::try_from(int(from)?).unwrap_or(0);
    match length {
        0..=LONGEST => Ok(length),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an invalid length")),
    }
}

fn buffer(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (length, mut read) = (length(from)?, Vec::new());
    from.take(length).read_to_end(&mut read)?;
    if read.len() as u64 == length { Ok(read) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn skip(from: &mut impl Read) -> io::Result<()> {
    let length = length(from)?;
    let skipped = io::copy(&mut from.take(length), &mut io::sink())?;
    if skipped == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes snapshots in the servers' format, for tests.
#[cfg(test)]
pub mod written {
    use zklockbench_core::txn::buffer;

    fn node((path, created, owner): &(&str, i64, i64)) -> Vec<u8> {
        let acl = [&buffer(path.as_bytes())[..], &(-1_i32).to_be_bytes(), &1_i64.to_be_bytes()].concat();
        let (zxid, ms) = (created.to_be_bytes(), (1_000 + created).to_be_bytes());
        [&acl[..], &zxid, &zxid, &ms, &[0; 20], &owner.to_be_bytes(), &zxid].concat()
    }

    /// The session in each snapshot, with a timeout of 4 s.
    pub const SESSION: i64 = 77;

    /// Returns a snapshot of nodes with these paths, zxids and owners.
    pub fn snapshot(nodes: &[(&str, i64, i64)]) -> Vec<u8> {
        let acl = [&1_i64.to_be_bytes()[..], &1_i32.to_be_bytes(), &31_i32.to_be_bytes()].concat();
        let (one, nodes) = (1_i32.to_be_bytes(), nodes.iter().flat_map(node).collect::<Vec<_>>());
        let acl = [&acl[..], &buffer(b"world"), &buffer(b"anyone")].concat();
        let session = [&SESSION.to_be_bytes()[..], &4_000_i32.to_be_bytes()].concat();
        let content =
            [&super::MAGIC[..], &[0; 12], &one, &session, &one, &acl, &nodes, &buffer(b"/")].concat();
        let checksum = i64::from(adler2::adler32_slice(&content)).to_be_bytes();
        [&content[..], &checksum, &buffer(b"/")].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn snapshot() -> Vec<u8> {
        written::snapshot(&[("", 0, 0), ("/l", 3, i64::MIN), ("/l/a", 4, 77)])
    }

    fn paths(name: &str, bytes: &[u8]) -> io::Result<Vec<(String, Option<i64>)>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut found = Vec::new();
        read(&path, &mut |node| found.push((String::from_utf8_lossy(&node.path).into_owned(), node.owner)))?;
        Ok(found)
    }

    #[test]
    fn snapshots_are_read_with_and_without_compression() {
        let expected =
            [("", None), ("/l", None), ("/l/a", Some(77))].map(|(path, owner)| (path.to_owned(), owner));
        assert_eq!(paths("snapshot.7", &snapshot()).unwrap(), expected);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&snapshot()).unwrap();
        assert_eq!(paths("snapshot.7.gz", &gz.finish().unwrap()).unwrap(), expected);
    }

    #[test]
    fn snapshot_contains_the_timeouts_of_sessions() {
        let timeouts = nodes(&mut &snapshot()[..], &mut |_| {}).unwrap();
        assert_eq!(timeouts, [(written::SESSION, 4_000)]);
    }

    #[test]
    fn incomplete_or_damaged_snapshot_is_an_error() {
        let whole = snapshot();
        // The reader stops at the checksum, before the final `/`.
        let length = whole.len() - 5;
        for length in 0..length {
            assert!(paths("snapshot.7", &whole[..length]).is_err(), "{length} bytes");
        }
        for at in 0..length {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(paths("snapshot.7", &damaged).is_err(), "byte {at}");
        }
        assert!(paths("snapshot.7", b"something else").is_err());
    }
}
