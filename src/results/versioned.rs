//! JSON files that carry the version of their layout, and what is told of one that cannot be read.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::layout;
use crate::words::disk::{self, MIB, Unreadable};
use crate::words::error::Error;
use crate::words::units::shown;

/// A kind of file with a version. All are read here.
#[derive(Debug, Clone, Copy)]
pub struct VersionedFile {
    /// What leaves a directory with such a file: `sweep`.
    pub of: &'static str,
    pub name: &'static str,
    /// The version that this program writes, and the only one that it reads.
    pub version: u32,
    /// What to do about one that is damaged, as a clause that begins with what happened.
    pub remedy: &'static str,
}

/// Bytes: more than the findings of any series of runs come to.
const AT_MOST: u64 = 16 * MIB;

#[derive(Deserialize)]
struct Header {
    schema_version: u32,
    tool_version: Option<String>,
    tool_commit: Option<String>,
}

impl VersionedFile {
    /// Reads it from a directory that the user named.
    ///
    /// # Errors
    /// [`Error::Usage`] when it is not there, damaged, or of another version; [`Error::Environment`] when the disk refuses.
    pub fn read<T: DeserializeOwned>(&self, dir: &Path) -> Result<T, Error> {
        match disk::read(dir, self.name, AT_MOST) {
            Ok(bytes) => self.parse(&dir.join(self.name), &bytes),
            Err(Unreadable::Missing) => Err(Error::usage(format!(
                "{} is not the directory of a {}: it has no {}",
                dir.display(),
                self.of,
                self.name
            ))),
            Err(why) => Err(self.unreadable(&dir.join(self.name), why)),
        }
    }

    /// What its bytes say, of which the version is looked at first.
    pub fn parse<T: DeserializeOwned>(&self, path: &Path, bytes: &[u8]) -> Result<T, Error> {
        let Header { schema_version, tool_version, tool_commit } = self.parsed(path, bytes)?;
        if schema_version != self.version {
            let writer = tool_version.map_or_else(String::new, |version| {
                let commit = tool_commit.map_or_else(String::new, |commit| format!(" of commit {commit}"));
                format!(": {version}{commit}")
            });
            return Err(Error::usage(format!(
                "{}: schema version {schema_version}, but this program reads version {}; use the version of the \
                 program that wrote it{writer}",
                path.display(),
                self.version
            )));
        }
        self.parsed(path, bytes)
    }

    fn parsed<T: DeserializeOwned>(&self, path: &Path, bytes: &[u8]) -> Result<T, Error> {
        // The error prints its own line and column.
        let bytes = disk::tame(bytes);
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        let read =
            serde_path_to_error::deserialize(&mut json).map_err(|error| match error.path().to_string() {
                // Of the whole, or of no field that it knows.
                field if field == "." || field.contains('?') => self.broken(path, &error.inner().to_string()),
                field => self.broken(path, &format!("`{}`: {}", shown(&field, 100), error.inner())),
            })?;
        json.end().map_err(|error| self.broken(path, &error.to_string()))?;
        Ok(read)
    }

    /// Of one of these files, or of one beside it, something that this program would not have written.
    pub fn broken(&self, path: &Path, what: &str) -> Error {
        Error::usage(format!("{}: {what}; {}", path.display(), self.remedy))
    }

    pub(super) fn unreadable(&self, path: &Path, why: Unreadable) -> Error {
        match why {
            Unreadable::Failed(error) => layout::cannot("read", path, &error),
            told => self.broken(path, &told.to_string()),
        }
    }
}
