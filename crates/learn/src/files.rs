//! A server's files: transaction logs and snapshots, ordered by the zxids in their names.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use zklockbench_core::error::Error;

const VERSION: &str = "version-2";
const LOG: &str = "log.";
const SNAPSHOT: &str = "snapshot.";
/// Prefix of ClickHouse Keeper's logs, which use a different format.
const KEEPER: &str = "changelog_";

/// Logs and snapshots, in order of their zxids.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    pub logs: Vec<(i64, PathBuf)>,
    pub snapshots: Vec<(i64, PathBuf)>,
}

impl ServerFiles {
    /// Lists the files in a data or log directory, its `version-2` directory, or a tarball. A tarball is unpacked
    /// below `scratch`.
    pub fn of(path: &Path, scratch: &Path) -> Result<Self, Error> {
        if !path.is_file() {
            return Self::of_directory(path);
        }
        let into = tempfile::Builder::new().prefix("unpacked-").tempdir_in(scratch);
        let into = into.map_err(Error::cannot("create a directory in", scratch))?.keep();
        unpack(path, &into).map_err(|error| {
            // The original messages may quote the file's content, so replace them.
            let what = match error.kind() {
                _ if error.to_string().starts_with("unexpected EOF") => "an incomplete tarball".to_owned(),
                io::ErrorKind::Unsupported => {
                    let what = error.to_string();
                    return Error::usage(format!("{}: {what}", path.display()));
                }
                io::ErrorKind::Other | io::ErrorKind::InvalidData => {
                    "neither a directory nor a plain or gzipped tarball".to_owned()
                }
                _ => error.to_string(),
            };
            Error::usage(format!(
                "{}: {what}; specify a server's directory or a tarball of its version-2 directory",
                path.display()
            ))
        })?;
        Self::within(&into).map_err(Error::cannot("read", &into))?.and_then(|found| found.or_refuse(path))
    }

    fn of_directory(directory: &Path) -> Result<Self, Error> {
        let below = directory.join(VERSION);
        let within = if below.is_dir() { below.as_path() } else { directory };
        let unreadable = |error| {
            let within = within.display();
            Error::usage(format!("cannot read {within}: {error}; specify a server's dataDir or dataLogDir"))
        };
        Self::within(within).map_err(unreadable)?.and_then(|found| found.or_refuse(directory))
    }

    fn or_refuse(self, path: &Path) -> Result<Self, Error> {
        match self.logs.is_empty() && self.snapshots.is_empty() {
            false => Ok(self),
            true => Err(Error::usage(format!(
                "{}: not a ZooKeeper transaction log; specify a server's dataDir or dataLogDir, which has \
                 log.… files in \
                 {VERSION}",
                path.display()
            ))),
        }
    }

    fn within(directory: &Path) -> io::Result<Result<Self, Error>> {
        let mut found = Self::default();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            // Opening a pipe would block until a writer opens it.
            if !path.is_file() {
                continue;
            }
            if name.starts_with(KEEPER) {
                return Ok(Err(Error::usage(format!(
                    "{}: a ClickHouse Keeper log; only ZooKeeper's transaction logs can be read",
                    path.display()
                ))));
            }
            if let Some(zxid) = zxid_of(name, LOG) {
                found.logs.push((zxid, path));
            } else if let Some(zxid) = zxid_of(name, SNAPSHOT) {
                found.snapshots.push((zxid, path));
            }
        }
        found.logs.sort_unstable();
        found.snapshots.sort_unstable();
        Ok(Ok(found))
    }
}

/// Unpacks the logs and snapshots in a plain or gzipped tarball.
fn unpack(tarball: &Path, into: &Path) -> io::Result<()> {
    let mut file = BufReader::new(File::open(tarball)?);
    let is_compressed = file.fill_buf()?.starts_with(&GZIP);
    let bytes: Box<dyn Read> = if is_compressed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    for entry in tar::Archive::new(bytes).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = name_of(&path);
        let kind = entry.header().entry_type();
        if !kind.is_file() && !kind.is_gnu_sparse() {
            continue;
        }
        if zxid_of(&name, LOG).is_some() || zxid_of(&name, SNAPSHOT).is_some() || name.starts_with(KEEPER) {
            let extensions = entry.pax_extensions()?.into_iter().flatten();
            if extensions.flatten().any(|extension| extension.key_bytes().starts_with(SPARSE)) {
                let sparse = format!("{name} is in the sparse pax format; create the tarball without -S");
                return Err(io::Error::new(io::ErrorKind::Unsupported, sparse));
            }
            let to = into.join(&name);
            if to.exists() {
                let several =
                    format!("contains several files named {name}; create one tarball for each server");
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, several));
            }
            copy_sparsely(&mut entry, &to)?;
        }
    }
    Ok(())
}

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Prefix of the pax headers of a sparse file, whose content may start with a map of its holes.
const SPARSE: &[u8] = b"GNU.sparse.";

/// Copies a file, and leaves holes in place of the zeros that pad a log.
fn copy_sparsely(from: &mut impl Read, to: &Path) -> io::Result<()> {
    let (mut to, mut bytes, mut length) = (File::create(to)?, vec![0; 64 << 10], 0);
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            return to.set_len(length);
        }
        length += read as u64;
        if bytes[..read].iter().all(|byte| *byte == 0) {
            to.seek(io::SeekFrom::Start(length))?;
        } else {
            to.write_all(&bytes[..read])?;
        }
    }
}

/// Returns the zxid in the name of a log or snapshot, which may be compressed.
fn zxid_of(name: &str, kind: &str) -> Option<i64> {
    let zxid = name.strip_prefix(kind)?;
    let zxid = zxid.strip_suffix(".gz").or_else(|| zxid.strip_suffix(".snappy")).unwrap_or(zxid);
    u64::from_str_radix(zxid, 16).ok().map(u64::cast_signed)
}

/// Opens a log or snapshot, which may be gzipped.
pub fn opened(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    Ok(match path.extension().is_some_and(|extension| extension == "gz") {
        true => Box::new(GzDecoder::new(BufReader::new(file))),
        false => Box::new(file),
    })
}

pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(names: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(VERSION)).unwrap();
        for name in names {
            fs::write(directory.path().join(VERSION).join(name), "").unwrap();
        }
        directory
    }

    fn files_of(path: &Path) -> Result<ServerFiles, Error> {
        ServerFiles::of(path, &std::env::temp_dir())
    }

    fn zxids(files: &[(i64, PathBuf)]) -> Vec<i64> {
        files.iter().map(|file| file.0).collect()
    }

    #[test]
    fn files_are_sorted_by_zxid() {
        let names = ["log.a00000001", "log.9", "snapshot.8", "snapshot.10.gz", "acceptedEpoch", "log.x"];
        let files = files_of(directory(&names).path()).unwrap();
        assert_eq!((zxids(&files.logs), zxids(&files.snapshots)), (vec![9, 0xa_0000_0001], vec![8, 0x10]));
    }

    #[test]
    fn tarball_yields_the_same_files_as_its_directory() {
        let original = directory(&["snapshot.8"]);
        let log = [&b"ZKLG"[..], &[0; 200_000], b"end", &[0; 70_000]].concat();
        fs::write(original.path().join(VERSION).join("log.9"), &log).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let tarball = scratch.path().join("zk1.tar");
        let mut builder = tar::Builder::new(File::create(&tarball).unwrap());
        builder.append_dir_all("zk1", original.path()).unwrap();
        builder.finish().unwrap();
        let files = ServerFiles::of(&tarball, scratch.path()).unwrap();
        assert_eq!((zxids(&files.logs), zxids(&files.snapshots)), (vec![9], vec![8]));
        assert_eq!(fs::read(&files.logs[0].1).unwrap(), log);
    }

    #[test]
    fn tarball_in_the_sparse_pax_format_is_rejected_with_a_remedy() {
        let scratch = tempfile::tempdir().unwrap();
        let tarball = scratch.path().join("zk1.tar");
        let mut builder = tar::Builder::new(File::create(&tarball).unwrap());
        let extensions = [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.name", b"log.1")];
        builder.append_pax_extensions(extensions).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(3);
        header.set_cksum();
        builder.append_data(&mut header, "GNUSparseFile.7/log.1", &b"0\n\n"[..]).unwrap();
        builder.finish().unwrap();
        let refused = ServerFiles::of(&tarball, scratch.path()).unwrap_err().to_string();
        let expected = "zk1.tar: log.1 is in the sparse pax format; create the tarball without -S";
        assert!(refused.ends_with(expected), "{refused}");
    }

    #[test]
    fn incomplete_tarball_is_reported_as_incomplete() {
        let scratch = tempfile::tempdir().unwrap();
        let servers = directory(&["log.1"]);
        fs::write(servers.path().join(VERSION).join("log.1"), [7; 5_000]).unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_dir_all("zk1", servers.path()).unwrap();
        let bytes = builder.into_inner().unwrap();
        let tarball = scratch.path().join("zk1.tar");
        fs::write(&tarball, &bytes[..bytes.len() / 2]).unwrap();
        let refused = ServerFiles::of(&tarball, scratch.path()).unwrap_err().to_string();
        assert!(refused.contains("zk1.tar: an incomplete tarball"), "{refused}");
    }

    #[test]
    fn tarball_with_several_servers_or_only_links_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let refused = |write: &dyn Fn(&mut tar::Builder<File>)| {
            let tarball = scratch.path().join("zk.tar");
            let mut builder = tar::Builder::new(File::create(&tarball).unwrap());
            write(&mut builder);
            builder.finish().unwrap();
            ServerFiles::of(&tarball, scratch.path()).unwrap_err().to_string()
        };
        let servers = directory(&["log.1"]);
        let several = refused(&|builder| {
            ["zk1", "zk2"].iter().for_each(|name| builder.append_dir_all(name, servers.path()).unwrap());
        });
        let expected = "several files named log.1; create one tarball for each server";
        assert!(several.contains(expected), "{several}");
        let link = refused(&|builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, "log.1", "/etc/passwd").unwrap();
        });
        assert!(link.contains("not a ZooKeeper transaction log"), "{link}");
    }

    #[test]
    fn directories_without_logs_are_rejected_with_a_suggestion() {
        let empty = files_of(directory(&[]).path()).unwrap_err().to_string();
        assert!(empty.contains("not a ZooKeeper transaction log; specify a server's dataDir"), "{empty}");
        let keeper = files_of(directory(&["changelog_1_100.bin"]).path()).unwrap_err().to_string();
        assert!(keeper.contains("a ClickHouse Keeper log"), "{keeper}");
        let missing = files_of(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(missing.contains("cannot read /nowhere"), "{missing}");
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("notes.txt");
        fs::write(&file, "no tarball").unwrap();
        let refused = ServerFiles::of(&file, place.path()).unwrap_err().to_string();
        let expected = "notes.txt: neither a directory nor a plain or gzipped tarball";
        assert!(refused.contains(expected), "{refused}");
        assert!(!refused.contains("no tarball"), "the message quotes the file: {refused}");
    }
}
