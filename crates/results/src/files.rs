//! JSON files of a run directory, with a layout version and digests that reveal later changes. Also reads
//! other versioned JSON files.
//!
//! Durations are integers in microseconds, in fields that end with `_us`. Wall times are RFC 3339 text in
//! UTC. A value that was not measured is `null`, never 0. A new field does not change [`SCHEMA_VERSION`],
//! because readers ignore unknown fields. Removing a field or changing its meaning does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::layout;
use zklockbench_core::disk::{self, MIB, Unreadable};
use zklockbench_core::error::Error;
use zklockbench_core::measure::{Latency, Measure};
use zklockbench_core::units::shown;
use zklockbench_record::{Derived, Judged, Run, Trial};

/// Version of the files that this program writes, and the only version that it reads.
pub const SCHEMA_VERSION: u32 = 2;

/// `trials/NNN.json`: the results of one trial, except the full histograms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFile<'a> {
    /// Version of this layout: 2.
    pub schema_version: u32,
    /// Recorded results.
    #[serde(flatten)]
    pub trial: Cow<'a, Trial>,
    /// Metrics derived from the counts.
    pub derived: Derived,
    /// Statistics of each measure with samples, by its name.
    pub latencies: BTreeMap<Measure, Latency>,
}

impl<'a> From<&'a Trial> for TrialFile<'a> {
    fn from(trial: &'a Trial) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            trial: Cow::Borrowed(trial),
            derived: trial.derived(),
            latencies: trial.latencies(),
        }
    }
}

/// `run.json`: facts about a run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    /// Version of this layout: 2.
    pub schema_version: u32,
    /// Recorded facts.
    #[serde(flatten)]
    pub run: Run,
    /// Verdicts over all trials.
    pub judged: Judged,
    /// Number of trials that ran; `trials/` has a pair of files for each.
    pub trials: usize,
    /// SHA-256 of every other file in the directory, by its relative path.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of this file with 64 zeros in place of the digest.
    pub digest: String,
}

impl std::ops::Deref for RunFile {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    pub run: RunFile,
    /// Trials, from `trials/NNN.json` and `trials/NNN.hlog`, in running order.
    pub trials: Vec<Trial>,
    /// Invalid trials that were rerun; the run's metrics exclude them.
    pub replaced: Vec<Trial>,
}

impl StoredRun {
    pub fn of(run: RunFile, trials: Vec<Trial>) -> Self {
        let numbers = Trial::replaced(&trials);
        let (replaced, trials) = trials.into_iter().partition(|trial| numbers.contains(&trial.spec.index));
        Self { run, trials, replaced }
    }
}

pub fn schemas() -> [(&'static str, Schema); 2] {
    [("run.json", schema_for!(RunFile)), ("trials/NNN.json", schema_for!(TrialFile<'_>))]
}

/// A type of versioned JSON file.
#[derive(Debug, Clone, Copy)]
pub struct VersionedFile {
    /// Kind of directory that contains the file, e.g. `sweep`.
    pub of: &'static str,
    pub name: &'static str,
    pub version: u32,
    /// The likely cause of damage, and the remedy.
    pub remedy: &'static str,
}

/// Maximum size of a versioned file, in bytes.
const AT_MOST: u64 = 16 * MIB;

#[derive(Deserialize)]
struct Header {
    schema_version: u32,
    tool_version: Option<String>,
    tool_commit: Option<String>,
}

impl VersionedFile {
    /// Reads the file from a directory that the user specified.
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

    /// Parses the file's bytes, after checking the version.
    pub fn parse<T: DeserializeOwned>(&self, path: &Path, bytes: &[u8]) -> Result<T, Error> {
        let Header { schema_version, tool_version, tool_commit } = self.parsed(path, bytes)?;
        if schema_version != self.version {
            let writer = tool_version.map_or_else(String::new, |version| {
                let commit = tool_commit.map_or_else(String::new, |commit| format!(" of commit {commit}"));
                format!(": {version}{commit}")
            });
            return Err(Error::usage(format!(
                "{}: schema version {schema_version}, but this program reads version {}; use the program \
                 version that wrote the file{writer}",
                path.display(),
                self.version
            )));
        }
        self.parsed(path, bytes)
    }

    fn parsed<T: DeserializeOwned>(&self, path: &Path, bytes: &[u8]) -> Result<T, Error> {
        let bytes = disk::tame(bytes);
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        let read =
            serde_path_to_error::deserialize(&mut json).map_err(|error| match error.path().to_string() {
                // The error concerns the file as a whole or an unknown field.
                field if field == "." || field.contains('?') => self.broken(path, &error.inner().to_string()),
                field => self.broken(path, &format!("`{}`: {}", shown(&field, 100), error.inner())),
            })?;
        json.end().map_err(|error| self.broken(path, &error.to_string()))?;
        Ok(read)
    }

    /// Returns the error for a file whose contents this program cannot have written.
    pub fn broken(&self, path: &Path, what: &str) -> Error {
        Error::usage(format!("{}: {what}; {}", path.display(), self.remedy))
    }

    pub(super) fn unreadable(&self, path: &Path, why: Unreadable) -> Error {
        match why {
            Unreadable::Failed(error) => layout::cannot("read", path, &error),
            other => self.broken(path, &other.to_string()),
        }
    }
}

/// Placeholder for the digest in `run.json` while that digest is computed.
pub const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

pub fn digest_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub fn digest_of_file(path: &Path) -> io::Result<String> {
    digest_of_all_from(File::open(path)?)
}

/// Digest of a file in a results directory, unless readers would refuse the file.
pub(super) fn digest_in(dir: &Path, name: &str) -> Result<String, Unreadable> {
    Ok(digest_of_all_from(disk::open(dir, Path::new(name), layout::most(name))?)?)
}

fn digest_of_all_from(mut from: impl io::Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Digests of all files below a directory except `run.json`, by relative path with `/` on every system. Hidden
/// files are temporary, and a link or a pipe is not one of the run's files.
pub fn digests_of_all(dir: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{folder}{name}");
            if name.starts_with('.') || path == layout::RUN {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path + "/");
                continue;
            }
            match digest_in(dir, &path) {
                Ok(digest) => drop(digests.insert(path, digest)),
                Err(Unreadable::Missing | Unreadable::Refused(_)) => {}
                Err(Unreadable::Failed(error)) => return Err(error),
            }
        }
    }
    Ok(digests)
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_equals_the_output_of_sha256sum() {
        assert_eq!(digest_of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(BLANK.len(), digest_of(b"").len());
    }

    #[test]
    fn digests_list_every_file_of_a_run_except_run_json() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("trials")).unwrap();
        for name in [layout::RUN, "summary.csv", "trials/000.json", ".DS_Store"] {
            fs::write(dir.path().join(name), "abc").unwrap();
        }
        // Readers refuse a run that lists a link.
        std::os::unix::fs::symlink("summary.csv", dir.path().join("link.csv")).unwrap();
        let digests = digests_of_all(dir.path()).unwrap();
        assert_eq!(digests.keys().collect::<Vec<_>>(), ["summary.csv", "trials/000.json"]);
        assert_eq!(digests["trials/000.json"], digest_of(b"abc"));
    }
}
