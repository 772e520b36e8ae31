//! Safe reading of untrusted directories: only regular files of a bounded size within the directory.
//!
//! Results may come from another machine, a download or a colleague. Reading them always terminates, because
//! pipes, devices, links and oversized files are refused.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::units::{harmless, is_harmless};

pub const MIB: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("is missing")]
    Missing,
    /// The path is not a file that this program would have written.
    #[error("{0}")]
    Refused(String),
    #[error("cannot be read: {0}")]
    Failed(io::Error),
}

impl Unreadable {
    /// Converts the problem to an error for a user who specified this file or its directory.
    pub fn of(self, path: &Path) -> Error {
        match self {
            Self::Failed(error) => {
                Error::environment(format!("cannot read {}: {error}; check the disk", path.display()))
            }
            other => Error::usage(format!("{}: {other}; restore it from a copy", path.display())),
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

/// Opens a regular file of at most `most` bytes by its name relative to `dir`. `dir` itself may be a link;
/// links below `dir` are not followed.
pub fn open(dir: &Path, name: &Path, most: u64) -> Result<File, Unreadable> {
    let steps: Option<Vec<&OsStr>> = name
        .components()
        .map(|step| match step {
            Component::Normal(step) => Some(step),
            _ => None,
        })
        .collect();
    let Some((last, folders)) = steps.as_deref().and_then(<[_]>::split_last) else {
        return Err(refused("points outside its directory"));
    };
    let is_folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let mut at: OwnedFd = openat(rustix::fs::CWD, dir, is_folder, Mode::empty()).map_err(io::Error::from)?;
    for folder in folders {
        at = openat(&at, *folder, is_folder | OFlags::NOFOLLOW, Mode::empty()).map_err(
            |error| match error {
                Errno::LOOP | Errno::NOTDIR => {
                    refused("is below a link, or below a path that is not a directory")
                }
                other => io::Error::from(other).into(),
            },
        )?;
    }
    // NONBLOCK: opening a pipe must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&at, *last, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => refused("is a link, and links are not followed"),
        Errno::NXIO => refused("is not a regular file"),
        other => io::Error::from(other).into(),
    })?;
    regular(file.into(), most)
}

fn regular(file: File, most: u64) -> Result<File, Unreadable> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("is not a regular file"));
    }
    if found.len() > most {
        return Err(too_large(most));
    }
    if found.len() > NEVER_HOLLOW && is_hollow(&file, found.len()) {
        return Err(refused("has holes, so this program did not write it"));
    }
    Ok(file)
}

/// Files larger than this are checked for holes: a file of several terabytes may occupy only a few bytes on disk.
const NEVER_HOLLOW: u64 = 64 * MIB;

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_hollow(file: &File, length: u64) -> bool {
    use rustix::fs::{SeekFrom, seek};
    // On file systems that cannot report holes, a file counts as having none.
    let hole = seek(file, SeekFrom::Hole(0));
    let _ = seek(file, SeekFrom::Start(0));
    hole.is_ok_and(|hole| hole < length)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_hollow(_: &File, _: u64) -> bool {
    false
}

fn too_large(most: u64) -> Unreadable {
    Unreadable::Refused(format!("is larger than {} MiB, the limit for this file", most / MIB))
}

pub fn read(dir: &Path, name: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, Unreadable> {
    bounded(open(dir, name.as_ref(), most)?, most)
}

/// Reads a file of at most `most` bytes that the user specified. Links are followed, and pipes are allowed.
pub fn read_named(path: &Path, most: u64) -> Result<Vec<u8>, Unreadable> {
    bounded(File::open(path)?, most)
}

/// Reads `from` to its end; fails if there are more than `most` bytes.
pub fn bounded(from: impl io::Read, most: u64) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    // The file may have grown since its size was checked.
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

/// Deserialises untrusted JSON after [`tame`] has made its strings safe.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(&tame(json))
}

/// Key of the only multi-line string in results: the scenario as run.
const OF_SEVERAL_LINES: &str = "scenario_text";

/// Escapes harmful characters in JSON strings, so that each string stays on one line and cannot control a
/// terminal. Names and reasons appear in sentences, tables and pages, where they must not start a new line.
/// Invalid JSON is left to the parser.
pub fn tame(json: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(json) else { return Cow::Borrowed(json) };
    // Fast path: most files contain nothing to escape, and some are large.
    let is_read = |c: char| c.is_ascii_whitespace() || is_harmless(c);
    if text.chars().all(is_read)
        && !text.split('\\').skip(1).any(|after| after.starts_with(['n', 'r', 't', 'b', 'f', 'u']))
    {
        return Cow::Borrowed(json);
    }
    let mut tame = String::with_capacity(text.len());
    let (mut rest, mut spared) = (text, false);
    while let Some(begin) = rest.find('"') {
        let (before, string) = rest.split_at(begin + 1);
        let length = length_of_string(string);
        let (string, after) = string.split_at(length);
        tame += before;
        tame += &if spared { Cow::Borrowed(string) } else { tame_string(string) };
        let Some(closed) = after.strip_prefix('"') else { return Cow::Borrowed(json) };
        spared = string == OF_SEVERAL_LINES && closed.trim_start().starts_with(':');
        tame.push('"');
        rest = closed;
    }
    tame += rest;
    Cow::Owned(tame.into_bytes())
}

/// Returns the length of the JSON string at the start of `text`, after its opening quote.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    let ends = |byte: u8| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    text.bytes().position(ends).unwrap_or(text.len())
}

fn tame_string(string: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte != b'\\' && (b' '..0x7f).contains(&byte);
    if string.bytes().all(is_plain) {
        return Cow::Borrowed(string);
    }
    let mut tame = String::with_capacity(string.len());
    let mut rest = string.chars();
    while let Some(letter) = rest.next() {
        // The text as written, and the character it represents.
        let (written, meant) = match letter {
            '\\' => {
                let mut written = String::from('\\');
                let kind = rest.next();
                written.extend(kind);
                let meant = match kind {
                    Some('u') => {
                        let digits: String = rest.by_ref().take(4).collect();
                        written += &digits;
                        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)
                    }
                    Some('n') => Some('\n'),
                    Some('r') => Some('\r'),
                    Some('t') => Some('\t'),
                    Some('b') => Some('\u{8}'),
                    Some('f') => Some('\u{c}'),
                    // A quote, a slash, a backslash, or an invalid escape.
                    _ => None,
                };
                (written, meant)
            }
            // Control characters are invalid in JSON; the parser reports them.
            '\0'..'\u{20}' => (letter.to_string(), None),
            _ => (letter.to_string(), Some(letter)),
        };
        match meant {
            Some(meant) if !is_harmless(meant) => {
                tame += &harmless(meant).replace('\\', "\\\\");
            }
            _ => tame += &written,
        }
    }
    Cow::Owned(tame)
}

/// Creates a file in an untrusted directory, replacing any existing file. The old file is removed first, so
/// nothing is written through a link, a pipe or another hard link.
pub fn create_anew(path: &Path) -> io::Result<File> {
    remove(path)?;
    File::create_new(path)
}

/// Removes a file if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether the directory has an entry with this name, readable or not.
pub fn has(dir: &Path, name: impl AsRef<Path>) -> bool {
    dir.join(name).symlink_metadata().is_ok()
}

/// Returns the subdirectories sorted by name, excluding hidden directories and links.
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
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn error_of_read(dir: &Path, name: &str) -> String {
        read(dir, name, MIB).unwrap_err().to_string()
    }

    #[test]
    fn read_accepts_regular_files_and_refuses_links_pipes_and_devices() {
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
        assert_eq!(error_of_read(dir, "absent"), "is missing");
        assert_eq!(error_of_read(dir, "endless"), "is a link, and links are not followed");
        let found = error_of_read(dir, "elsewhere/file");
        assert_eq!(found, "is below a link, or below a path that is not a directory");
        assert_eq!(error_of_read(dir, "pipe"), "is not a regular file");
        assert_eq!(error_of_read(dir, "within"), "is not a regular file");
        assert_eq!(error_of_read(dir, "large"), "is larger than 1 MiB, the limit for this file");
        for name in ["../file", "/etc/passwd", "", "within/../../file"] {
            assert_eq!(error_of_read(dir, name), "points outside its directory", "{name}");
        }
    }

    #[test]
    fn open_refuses_sparse_files_without_reading_them() {
        let place = tempfile::tempdir().unwrap();
        File::create(place.path().join("hollow")).unwrap().set_len(1 << 40).unwrap();
        let found = open(place.path(), Path::new("hollow"), u64::MAX);
        assert!(matches!(&found, Err(Unreadable::Refused(why)) if why.contains("holes")), "{found:?}");
    }

    fn is_tame(text: &str) -> bool {
        text.chars().all(is_harmless)
    }

    proptest! {
        #[test]
        fn from_json_returns_harmless_single_line_strings(name: String, text: String, plain in "[ -~é✓]*") {
            // The random name is in a separate object, because it may equal one of the other keys.
            let written = json!({ "named": { &name: [text] }, "plain": plain, "scenario_text": text, "n": 1.5 });
            for json in [written.to_string(), serde_json::to_string_pretty(&written).unwrap()] {
                let read: serde_json::Map<String, Value> = from_json(json.as_bytes()).unwrap();
                let text_of = |value: &Value| value.as_str().unwrap().to_owned();
                prop_assert_eq!(text_of(&read["plain"]), plain.clone());
                prop_assert_eq!(text_of(&read["scenario_text"]), text.clone());
                let named = read["named"].as_object().unwrap();
                prop_assert!(read.keys().chain(named.keys()).all(|key| is_tame(key)));
                let shown = text_of(&named.values().next().unwrap()[0]);
                prop_assert!(is_tame(&shown));
                if is_tame(&text) {
                    prop_assert_eq!(&shown, &text);
                }
            }
        }

        #[test]
        fn from_json_accepts_exactly_the_json_that_serde_accepts(text: String, bytes: Vec<u8>) {
            for text in [text.as_bytes(), &bytes] {
                prop_assert_eq!(from_json::<Value>(text).is_ok(), serde_json::from_slice::<Value>(text).is_ok());
            }
        }
    }

    #[test]
    fn from_json_leaves_only_the_scenario_text_unescaped() {
        let json = br#"["scenario_text", "a\nb", "\u009b", "\ud83d\ude00", "\"\\n"]"#;
        let read: Vec<String> = from_json(json).unwrap();
        assert_eq!(read, ["scenario_text", "a\\u{a}b", "\\u{9b}", "😀", "\"\\n"]);
    }

    #[test]
    fn new_file_replaces_a_link_but_not_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (link, far) = (place.path().join("link"), place.path().join("far"));
        std::fs::write(&far, "precious").unwrap();
        symlink("far", &link).unwrap();
        for text in ["first", "second"] {
            create_anew(&link).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&link).unwrap(), text);
        }
        assert_eq!(std::fs::read_to_string(&far).unwrap(), "precious");
        std::fs::create_dir(place.path().join("folder")).unwrap();
        assert!(create_anew(&place.path().join("folder")).is_err());
    }

    #[test]
    fn read_named_fails_if_a_device_exceeds_the_size_limit() {
        let error = read_named(Path::new("/dev/zero"), MIB).unwrap_err().to_string();
        assert_eq!(error, "is larger than 1 MiB, the limit for this file");
    }
}
