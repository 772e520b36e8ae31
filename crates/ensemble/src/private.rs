//! Files with well-known names, in directories that no other user can write to.
//!
//! In the shared temporary directory, another user could create these names first, as files or as links to a
//! victim's files. The suite therefore uses a directory that only this user can write to, checks it before
//! use, and does not follow links.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Name of the suite's directory inside the user's directories.
const NAME: &str = "zklockbench";
/// Permissions for the owner only.
const OWN: u32 = 0o700;
const WRITABLE: u32 = 0o022;

/// Returns the user's directory for files that are needed only while processes run: below `XDG_RUNTIME_DIR`,
/// else `XDG_CACHE_HOME` or `~/.cache`, else the temporary directory.
pub fn directory() -> io::Result<PathBuf> {
    first_of(candidates(|name| std::env::var_os(name), &std::env::temp_dir()))
}

/// Returns the directory of the suite's state between runs: `ZKLOCKBENCH_STATE_DIR`, else
/// `XDG_STATE_HOME/zklockbench`, else `~/.local/state/zklockbench`. Keep in sync with `state_directory` in
/// `scripts/common.bash`.
pub fn state_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ZKLOCKBENCH_STATE_DIR")
        .or_else(|| variable("XDG_STATE_HOME").map(|state| state.join("zklockbench")))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/zklockbench")))
}

/// Returns the candidate directories, best first.
fn candidates(variable: impl Fn(&str) -> Option<OsString>, temporary: &Path) -> Vec<PathBuf> {
    let place = |name: &str| variable(name).map(PathBuf::from).filter(|place| place.is_absolute());
    let homes =
        [place("XDG_RUNTIME_DIR"), place("XDG_CACHE_HOME"), place("HOME").map(|home| home.join(".cache"))];
    let own = homes.into_iter().flatten().map(|place| place.join(NAME));
    own.chain([temporary.join(format!("{NAME}-{}", user()))]).collect()
}

fn first_of(candidates: Vec<PathBuf>) -> io::Result<PathBuf> {
    let mut why = io::Error::other("no suitable directory found");
    for directory in candidates {
        match make(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Creates a private directory and its parent if they are missing, and checks the directory.
pub fn make(directory: &Path) -> io::Result<()> {
    let make = || DirBuilder::new().mode(OWN).create(directory);
    let made = match (make(), directory.parent()) {
        (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().mode(OWN).create(above).and_then(|()| make())
        }
        (made, _) => made,
    };
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(about(directory, &error.to_string()))
        }
        _ => check(directory),
    }
}

/// Checks that a directory belongs to this user and that no other user can write to it.
pub fn check(directory: &Path) -> io::Result<()> {
    // `symlink_metadata` describes the link itself, not its target.
    let found = directory.symlink_metadata()?;
    let wrong = if !found.is_dir() {
        "is not a directory"
    } else if found.uid() != user() {
        "belongs to another user"
    } else if found.mode() & WRITABLE != 0 {
        "is writable by others"
    } else {
        return if found.mode() & 0o077 == 0 {
            Ok(())
        } else {
            std::fs::set_permissions(directory, Permissions::from_mode(OWN))
        };
    };
    Err(about(directory, &format!("it {wrong}: remove it or ask its owner to do so")))
}

/// Opens a lock file, creating it if `make` is set. Does not follow links or block on pipes.
pub fn open_lock(path: &Path, make: bool) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().write(true).create(make).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn about(directory: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn runtime_directory_is_preferred_and_temporary_directory_is_last() {
        let set = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some("/run/user/7".into()),
            "XDG_CACHE_HOME" => Some("relative".into()),
            "HOME" => Some("/home/x".into()),
            _ => None,
        };
        let last = PathBuf::from(format!("/tmp/zklockbench-{}", user()));
        let expected = ["/run/user/7/zklockbench", "/home/x/.cache/zklockbench"].map(PathBuf::from);
        let [runtime, cache] = expected;
        assert_eq!(candidates(set, Path::new("/tmp")), [runtime, cache, last.clone()]);
        assert_eq!(candidates(|_| None, Path::new("/tmp")), [last]);
    }

    #[test]
    fn paths_that_another_user_could_have_planted_are_rejected_or_skipped() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("open")).unwrap();
        std::fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
        std::fs::create_dir(at("elsewhere")).unwrap();
        symlink(at("elsewhere"), at("link")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        for (name, why) in [
            ("open", "is writable by others"),
            ("link", "is not a directory"),
            ("file", "is not a directory"),
        ] {
            let told = make(&at(name)).unwrap_err().to_string();
            assert!(told.contains(name) && told.contains(why), "{told}");
        }
        let found = first_of(vec![at("file/below"), at("link"), at("open"), at("new/own")]).unwrap();
        assert_eq!(found, at("new/own"));
        assert_eq!(found.metadata().unwrap().mode() & 0o777, OWN);
    }

    #[test]
    fn user_directory_readable_by_others_is_made_private() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
        make(&own).unwrap();
        assert_eq!(own.metadata().unwrap().mode() & 0o777, OWN);
    }

    #[test]
    fn opening_a_symbolic_link_as_a_lock_does_not_create_its_target() {
        let place = tempfile::tempdir().unwrap();
        let (link, target) = (place.path().join("21000"), place.path().join("target"));
        symlink(&target, &link).unwrap();
        assert!(open_lock(&link, true).is_err());
        assert!(!target.exists());
        open_lock(&target, true).unwrap();
        assert_eq!(target.metadata().unwrap().mode() & 0o777, 0o600);
    }
}
