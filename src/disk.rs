//! Reading what others may have put on the disk: regular files of a bounded size, and no name that leads elsewhere.
//!
//! A directory of results comes from another machine, from a download or from a colleague. Whatever lies in it, a reader
//! ends: it waits for no pipe, reads no device, follows no link below the directory that somebody named, and never keeps
//! more than a bound for each kind of file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::error::Error;

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not there.
    #[error("is missing")]
    Missing,
    /// It is nothing that this program would have written there.
    #[error("{0}")]
    Refused(String),
    /// The disk refuses it.
    #[error("cannot be read: {0}")]
    Failed(io::Error),
}

impl Unreadable {
    /// As the error of a command that was given it, or the directory that it lies in.
    pub fn of(self, path: &Path) -> Error {
        match self {
            Self::Failed(error) => {
                Error::environment(format!("cannot read {}: {error}; check the disk", path.display()))
            }
            told => Error::usage(format!("{}: {told}; restore it from a copy", path.display())),
        }
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Failed(error),
        }
    }
}

fn refused(why: &str) -> Unreadable {
    Unreadable::Refused(why.to_owned())
}

/// Opens a regular file of at most that size by its name below a directory. The directory may be named by a link; from there
/// on none is followed.
///
/// # Errors
/// Why it is not opened.
pub fn open(dir: &Path, name: &Path, most: u64) -> Result<File, Unreadable> {
    let steps: Option<Vec<&OsStr>> = name
        .components()
        .map(|step| match step {
            Component::Normal(step) => Some(step),
            _ => None,
        })
        .collect();
    let Some((last, folders)) = steps.as_deref().and_then(<[_]>::split_last) else {
        return Err(refused("leads out of its directory"));
    };
    let is_folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let mut at: OwnedFd = openat(rustix::fs::CWD, dir, is_folder, Mode::empty()).map_err(io::Error::from)?;
    for folder in folders {
        at = openat(&at, *folder, is_folder | OFlags::NOFOLLOW, Mode::empty()).map_err(
            |error| match error {
                Errno::LOOP | Errno::NOTDIR => refused("lies behind a link, or behind what is no directory"),
                other => io::Error::from(other).into(),
            },
        )?;
    }
    // Without waiting for somebody who writes into a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&at, *last, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => refused("is a link, and none is followed"),
        Errno::NXIO => refused("is no regular file"),
        other => io::Error::from(other).into(),
    })?;
    regular(file.into(), most)
}

/// That file, if it is a regular one of at most that size.
fn regular(file: File, most: u64) -> Result<File, Unreadable> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("is no regular file"));
    }
    if found.len() > most {
        return Err(too_large(most));
    }
    if found.len() > NEVER_HOLLOW && is_hollow(&file, found.len()) {
        return Err(refused("has holes, so it is not as it was written"));
    }
    Ok(file)
}

/// From this size on it matters whether there is anything in a file: a few bytes on the disk can pretend to be terabytes.
const NEVER_HOLLOW: u64 = 64 * MIB;

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_hollow(file: &File, length: u64) -> bool {
    use rustix::fs::{SeekFrom, seek};
    let hole = seek(file, SeekFrom::Hole(0));
    // Where the file system does not know, there is none.
    let _ = seek(file, SeekFrom::Start(0));
    hole.is_ok_and(|hole| hole < length)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_hollow(_: &File, _: u64) -> bool {
    false
}

fn too_large(most: u64) -> Unreadable {
    Unreadable::Refused(format!("has more than {} MiB, the most that is read of such a file", most / MIB))
}

/// Reads a file by its name below a directory.
///
/// # Errors
/// As [`open`].
pub fn read(dir: &Path, name: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, Unreadable> {
    bounded(open(dir, name.as_ref(), most)?, most)
}

/// Reads a file that somebody named: a link is followed, and a pipe is read, up to that size.
///
/// # Errors
/// Why it is not read.
pub fn read_named(path: &Path, most: u64) -> Result<Vec<u8>, Unreadable> {
    bounded(File::open(path)?, most)
}

/// All that comes from there, if that is at most so much.
///
/// # Errors
/// When it is more, or cannot be read.
pub fn bounded(from: impl io::Read, most: u64) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    // It may grow while it is read.
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

/// Whether something of that name lies in a directory. It may be what no reader takes, which reading it then says.
pub fn has(dir: &Path, name: impl AsRef<Path>) -> bool {
    dir.join(name).symlink_metadata().is_ok()
}

/// The directories in a directory, by their names: none that is hidden, and no link to one.
///
/// # Errors
/// When it cannot be read.
pub fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn told(dir: &Path, name: &str) -> String {
        read(dir, name, MIB).unwrap_err().to_string()
    }

    #[test]
    fn a_regular_file_below_is_read_and_whatever_else_lies_there_is_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path();
        std::fs::create_dir(dir.join("within")).unwrap();
        std::fs::write(dir.join("within/file"), "text").unwrap();
        symlink("/dev/zero", dir.join("endless")).unwrap();
        symlink("within", dir.join("elsewhere")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        File::create(dir.join("large")).unwrap().set_len(MIB + 1).unwrap();
        assert_eq!(read(dir, "within/file", MIB).unwrap(), b"text");
        assert_eq!(told(dir, "absent"), "is missing");
        assert_eq!(told(dir, "endless"), "is a link, and none is followed");
        assert_eq!(told(dir, "elsewhere/file"), "lies behind a link, or behind what is no directory");
        assert_eq!(told(dir, "pipe"), "is no regular file");
        assert_eq!(told(dir, "within"), "is no regular file");
        assert_eq!(told(dir, "large"), "has more than 1 MiB, the most that is read of such a file");
        for name in ["../file", "/etc/passwd", "", "within/../../file"] {
            assert_eq!(told(dir, name), "leads out of its directory", "{name}");
        }
    }

    #[test]
    fn a_file_that_pretends_to_be_large_is_refused_without_reading_it() {
        let place = tempfile::tempdir().unwrap();
        File::create(place.path().join("hollow")).unwrap().set_len(1 << 40).unwrap();
        let found = open(place.path(), Path::new("hollow"), u64::MAX);
        assert!(matches!(&found, Err(Unreadable::Refused(why)) if why.contains("holes")), "{found:?}");
    }

    #[test]
    fn a_device_that_somebody_names_is_read_up_to_the_bound() {
        let told = read_named(Path::new("/dev/zero"), MIB).unwrap_err().to_string();
        assert_eq!(told, "has more than 1 MiB, the most that is read of such a file");
    }
}
