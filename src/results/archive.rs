//! A run kept to be looked at again: its directory packed into one file, as `scripts/articles` keeps it.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use tar::Archive;

use super::files::StoredRun;
use super::{layout, read};
use crate::words::disk::{self, MIB};
use crate::words::error::Error;

/// More than a run leaves that anybody keeps like this.
const PACKED_AT_MOST: u64 = 64 * MIB;
const UNPACKED_AT_MOST: u64 = 1024 * MIB;

/// Reads the run that lies packed in a directory.
///
/// # Errors
/// When the archive is no archive, holds anything but files and folders, or comes to more than 1 GiB; and those of
/// [`read()`].
pub fn read_packed(dir: &Path) -> Result<StoredRun, Error> {
    let path = dir.join(layout::PACKED);
    let packed = disk::open(dir, Path::new(layout::PACKED), PACKED_AT_MOST).map_err(|why| why.of(&path))?;
    let place = tempfile::tempdir().map_err(Error::environment)?;
    unpack(GzDecoder::new(packed).take(UNPACKED_AT_MOST), place.path())
        .map_err(|why| Error::usage(format!("{}: {why}; restore it from a copy", path.display())))?;
    read(place.path())
}

fn unpack(packed: impl Read, into: &Path) -> Result<(), String> {
    let mut archive = Archive::new(packed);
    let told = |error: std::io::Error| format!("not a whole archive: {error}");
    for entry in archive.entries().map_err(told)? {
        let mut entry = entry.map_err(told)?;
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_dir()) || !entry.unpack_in(into).map_err(told)? {
            return Err(format!(
                "holds `{}`, which is not a file or folder of a run",
                String::from_utf8_lossy(&entry.path_bytes())
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_run_is_the_run_and_what_leads_elsewhere_is_refused() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example");
        let packed = |name: &str, kind| {
            let mut archive = tar::Builder::new(Vec::new());
            archive.append_dir_all(".", &example).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o644);
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, std::io::empty()).unwrap();
            archive.into_inner().unwrap()
        };
        let unpacked = |name, kind| {
            let place = tempfile::tempdir().unwrap();
            unpack(&packed(name, kind)[..], place.path())?;
            read(place.path()).map_err(|error| error.to_string())
        };
        // Given the example, packed with one more file
        let whole = unpacked("note", tar::EntryType::Regular).unwrap();
        assert_eq!(whole.trials.len(), read(&example).unwrap().trials.len());
        // Then a way out, a link, and half of it are refused
        assert!(unpacked("../note", tar::EntryType::Regular).unwrap_err().contains("`../note`"));
        assert!(unpacked("link", tar::EntryType::Symlink).unwrap_err().contains("`link`"));
        let half = &packed("note", tar::EntryType::Regular)[..10_000];
        let place = tempfile::tempdir().unwrap();
        assert!(unpack(half, place.path()).is_err() || read(place.path()).is_err());
    }
}
