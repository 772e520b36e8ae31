//! Raises the sequence counters of directories in the stored data of stopped servers.
//!
//! A logged create contains its directory's counter (`CreateTxn.parentCVersion`), and a server restores the
//! counter when it replays its log. `raise` adds a log with one create and one delete per directory to the
//! data of the server with the newest transaction. That server must be started first: it is then elected, and
//! the other servers fetch the added transactions.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use zklockbench_core::txn::{self, CREATE, DELETE, HEADER, MAGIC, begins, buffer, next};

use super::transactions::SERVERS_OWN;

/// Name of the child that is created and deleted in each directory.
const CHILD: &str = "counter-near-end";
const VERSION: i32 = 2;
/// Permission bits of `ZooDefs.Perms.ALL`.
const ALL: i32 = 31;

/// Raises the counters of these directories to `number`, the number of the next sequential child. Never
/// lowers a counter. Returns the number (from 1) of the server whose data was changed.
pub fn raise(data: &[PathBuf], directories: &[String], number: i32) -> io::Result<usize> {
    let mut newest: Option<(i64, &PathBuf, usize)> = None;
    for (data, server) in data.iter().zip(1..) {
        let last = last_zxid(data)?;
        if newest.is_none_or(|(newest, ..)| last > newest) {
            newest = Some((last, data, server));
        }
    }
    let (last, data, server) =
        newest.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "no server has data"))?;
    std::fs::write(stored(data).join(format!("log.{:x}", last + 1)), log(last + 1, directories, number))?;
    Ok(server)
}

fn stored(data: &Path) -> PathBuf {
    data.join("version-2")
}

/// Returns the newest zxid in a server's snapshots and logs, or 0 if there is none.
fn last_zxid(data: &Path) -> io::Result<i64> {
    let (mut snapshot, mut logs) = (0, Vec::new());
    for entry in std::fs::read_dir(stored(data))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let of = |kind| name.strip_prefix(kind).and_then(|zxid| i64::from_str_radix(zxid, 16).ok());
        snapshot = of("snapshot.").map_or(snapshot, |zxid| snapshot.max(zxid));
        logs.extend(of("log.").map(|zxid| (zxid, path.clone())));
    }
    logs.sort_unstable();
    for (_, path) in logs.into_iter().rev() {
        if let Some(last) = last_in(&std::fs::read(path)?) {
            return Ok(last.max(snapshot));
        }
    }
    Ok(snapshot)
}

fn last_in(log: &[u8]) -> Option<i64> {
    begins(log).ok().flatten()?;
    let mut rest = log.get(HEADER..)?;
    let mut last = None;
    while let Some((record, taken)) = next(rest) {
        last = Some(record.zxid);
        rest = rest.get(taken..)?;
    }
    last
}

#[expect(clippy::disallowed_methods, reason = "servers timestamp their transactions with the wall clock")]
fn log(first: i64, directories: &[String], number: i32) -> Vec<u8> {
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
    let mut log = [MAGIC, &VERSION.to_be_bytes(), &0_i64.to_be_bytes()].concat();
    let bodies = directories.iter().flat_map(|directory| {
        let path = format!("{directory}/{CHILD}");
        [(CREATE, create(&path, number)), (DELETE, buffer(path.as_bytes()))]
    });
    for ((kind, body), zxid) in bodies.zip(first..) {
        log.extend(txn::written(txn::header(SERVERS_OWN, 0, zxid, at_ms, kind), &body));
    }
    log
}

fn create(path: &str, parent_cversion: i32) -> Vec<u8> {
    let (acls, is_ephemeral) = (1_i32, [0]);
    [
        &buffer(path.as_bytes())[..],
        &buffer(&[]),
        &acls.to_be_bytes(),
        &ALL.to_be_bytes(),
        &buffer(b"world"),
        &buffer(b"anyone"),
        &is_ephemeral,
        &parent_cversion.to_be_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::txn::Happened;

    #[test]
    fn written_log_contains_a_create_and_a_delete_per_directory() {
        let written = log(0x1_0000_0008, &["/l/a".into(), "/l/b".into()], i32::MAX - 5);
        let mut rest = &written[HEADER..];
        let mut read = Vec::new();
        while let Some((record, taken)) = next(rest) {
            let zxid = record.zxid - 0x1_0000_0000;
            record.changes(&mut |one| read.push((zxid, one.path.to_owned(), one.happened)));
            rest = &rest[taken..];
        }
        let change = |zxid, of: &str, happened| (zxid, format!("/l/{of}/{CHILD}").into_bytes(), happened);
        assert_eq!(
            read,
            [
                change(8, "a", Happened::Created),
                change(9, "a", Happened::Deleted),
                change(10, "b", Happened::Created),
                change(11, "b", Happened::Deleted)
            ]
        );
    }

    #[test]
    fn raise_adds_the_log_to_the_server_with_the_newest_transaction() {
        let root = tempfile::tempdir().unwrap();
        let data: Vec<PathBuf> = [3, 9, 7]
            .iter()
            .zip(1..)
            .map(|(last, server)| {
                let data = root.path().join(format!("server-{server}"));
                std::fs::create_dir_all(stored(&data)).unwrap();
                let delete = txn::written(txn::header(0, 0, *last, 5, DELETE), &buffer(b"/x"));
                let records = [log(*last, &[], 0), delete, vec![0; 64]].concat();
                std::fs::write(stored(&data).join(format!("log.{last:x}")), records).unwrap();
                std::fs::write(stored(&data).join("snapshot.2"), "").unwrap();
                data
            })
            .collect();
        assert_eq!(raise(&data, &["/l".into()], 7).unwrap(), 2);
        assert_eq!(last_zxid(&data[1]).unwrap(), 11);
        assert_eq!(raise(&data, &["/l".into()], 9).unwrap(), 2, "server 2 still has the newest transaction");
    }
}
