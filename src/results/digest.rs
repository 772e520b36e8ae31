//! Digests: a file of a run that was changed or damaged afterwards is noticed, wherever the change is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::layout;

/// What stands in `run.json` in the place of its own digest while that is computed.
pub const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The digest of some bytes, in hexadecimal digits.
pub fn of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub fn of_file(path: &Path) -> io::Result<String> {
    of_all_from(File::open(path)?)
}

/// The digest of all that can be read from there.
pub fn of_all_from(mut from: impl io::Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// The digests of all files below a directory but `run.json`, by their paths in it, with `/` on every system.
pub fn of_all(dir: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path != Path::new(layout::RUN) {
                let steps: Vec<_> = path.iter().map(|step| step.to_string_lossy()).collect();
                digests.insert(steps.join("/"), of_file(&dir.join(&path))?);
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
    fn the_digest_is_the_one_that_sha256sum_prints() {
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(BLANK.len(), of(b"").len());
    }

    #[test]
    fn every_file_below_is_there_by_its_path_but_the_one_that_holds_them() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("trials")).unwrap();
        for name in [layout::RUN, "summary.csv", "trials/000.json"] {
            fs::write(dir.path().join(name), "abc").unwrap();
        }
        let digests = of_all(dir.path()).unwrap();
        assert_eq!(digests.keys().collect::<Vec<_>>(), ["summary.csv", "trials/000.json"]);
        assert_eq!(digests["trials/000.json"], of(b"abc"));
    }
}
