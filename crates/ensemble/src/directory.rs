//! The data directory of a local ensemble, locked while its owner runs and removed afterwards.
//!
//! A directory whose lock is free has no owner, so the next run removes what a killed run left behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::private;
use zklockbench_core::error::Error;

const PREFIX: &str = "zklockbench-ensemble-";
const LOCK: &str = "owner.lock";
/// Name of the file that marks a directory whose servers outlive the process that started them.
const KEPT: &str = "kept";

/// A directory that is removed when dropped, or by the next run if its owner was killed.
#[derive(Debug)]
pub struct EnsembleDir {
    path: PathBuf,
    keep: bool,
    _lock: File,
}

impl EnsembleDir {
    /// Creates a directory below `parent` (by default, the system's temporary directory), and removes
    /// directories whose owners are gone. `parent` must exist, because the suite would never remove it.
    pub fn create(parent: Option<&Path>) -> Result<Self, Error> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        if !parent.is_dir() {
            let what =
                if parent.symlink_metadata().is_ok() { "is not a directory" } else { "does not exist" };
            return Err(Error::usage(format!(
                "cannot keep server data in {}: it {what}. Create it first, or choose another directory with \
                 --data-dir",
                parent.display()
            )));
        }
        let make = || -> io::Result<Self> {
            let parent = parent.canonicalize()?;
            remove_stale(&parent);
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = lock(directory.path())?;
            Ok(Self { path: directory.keep(), keep: false, _lock: lock })
        };
        make().map_err(|error| {
            Error::environment(format!(
                "cannot create a data directory in {}: {error}. Choose another with --data-dir",
                parent.display()
            ))
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }

    /// Leaves the directory behind for servers that outlive this process.
    pub fn leave(mut self) -> io::Result<PathBuf> {
        std::fs::write(self.path.join(KEPT), "")?;
        self.keep = true;
        Ok(self.path.clone())
    }
}

/// Locks a new directory. The lock file is locked before it is renamed into place, so no run finds it unlocked.
fn lock(directory: &Path) -> io::Result<File> {
    let unnamed = directory.join("owner.new");
    let lock = File::create(&unnamed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    std::fs::rename(unnamed, directory.join(LOCK))?;
    Ok(lock)
}

impl Drop for EnsembleDir {
    fn drop(&mut self) {
        if !self.keep {
            self.remove();
        }
    }
}

/// Checks that [`EnsembleDir::leave`] left this directory behind, or that the directory no longer exists.
pub fn check_left(directory: &Path) -> Result<(), String> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    if !directory.is_absolute() || !name.starts_with(PREFIX) {
        return Err(format!("its name does not start with `{PREFIX}`"));
    }
    match directory.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(found) if !found.is_dir() => Err("it is not a directory".into()),
        Ok(_) if !directory.join(KEPT).is_file() => Err(format!("it does not contain the file `{KEPT}`")),
        Ok(_) => Ok(()),
    }
}

/// Removes this user's directories below `parent` whose owners are gone.
fn remove_stale(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for directory in ours.map(|entry| entry.path()).filter(|path| is_stale(path)) {
        let _ = std::fs::remove_dir_all(directory);
    }
}

fn is_stale(directory: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_own = directory.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
    if !is_own || directory.join(KEPT).exists() {
        return false;
    }
    // A directory without a lock file may be under construction.
    let Ok(lock) = private::open_lock(&directory.join(LOCK), false) else { return false };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Describes the file system of a directory and the cost of fsync there, e.g. `ext4 on /dev/sda1 (/tmp): …`.
pub fn describe_placement(directory: &Path) -> String {
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match file_system(&mounts, &real) {
        Some((kind, _)) if kind == "tmpfs" || kind == "ramfs" => {
            format!("{kind} ({}): in memory, fsync costs nothing", directory.display())
        }
        Some((kind, source)) => {
            format!("{kind} on {source} ({}): every write waits for an fsync", directory.display())
        }
        None => format!("{}: unknown file system", directory.display()),
    }
}

/// Returns the type and source of the file system with the longest mount point that contains the path.
fn file_system(mountinfo: &str, path: &Path) -> Option<(String, String)> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mount_point = PathBuf::from(left.split(' ').nth(4)?.replace("\\040", " "));
        let mut right = right.split(' ');
        Some((mount_point, right.next()?.to_owned(), right.next()?.to_owned()))
    });
    // If a mount point occurs several times, the last mount hides the others.
    mounts
        .filter(|(mount_point, ..)| path.starts_with(mount_point))
        .max_by_key(|(mount_point, ..)| mount_point.components().count())
        .map(|(_, kind, source)| (kind, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_run_keeps_directories_that_are_in_use_or_marked_as_kept() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join("zklockbench-ensemble-stale");
        let kept = parent.path().join("zklockbench-ensemble-kept");
        for directory in [&stale, &kept] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join(LOCK), "").unwrap();
        }
        std::fs::write(kept.join(KEPT), "").unwrap();
        let in_use = EnsembleDir::create(Some(parent.path())).unwrap();
        let another = EnsembleDir::create(Some(parent.path())).unwrap();
        assert!(!stale.exists() && kept.exists() && in_use.path().exists());
        drop(another);
        assert!(in_use.path().exists());
    }

    #[test]
    fn symbolic_link_and_its_target_are_not_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (elsewhere, link) =
            (parent.path().join("elsewhere"), parent.path().join("zklockbench-ensemble-x"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        remove_stale(parent.path());
        assert!(link.symlink_metadata().is_ok() && elsewhere.join(LOCK).exists());
    }

    #[test]
    fn check_left_accepts_only_directories_left_behind_for_servers() {
        let parent = tempfile::tempdir().unwrap();
        let left = EnsembleDir::create(Some(parent.path())).unwrap().leave().unwrap();
        assert_eq!(check_left(&left), Ok(()));
        let other = parent.path().join("zklockbench-ensemble-other");
        std::fs::create_dir(&other).unwrap();
        let wrong =
            [other, parent.path().to_path_buf(), "/".into(), "".into(), "zklockbench-ensemble-x".into()];
        for wrong in wrong {
            assert!(check_left(&wrong).is_err(), "{}", wrong.display());
        }
        assert_eq!(check_left(&parent.path().join("zklockbench-ensemble-gone")), Ok(()));
    }

    #[test]
    fn parent_that_is_missing_or_not_a_directory_is_rejected() {
        let place = tempfile::tempdir().unwrap();
        let (file, missing) = (place.path().join("file"), place.path().join("no/where"));
        std::fs::write(&file, "").unwrap();
        for (parent, what) in [(&missing, "it does not exist"), (&file, "it is not a directory")] {
            let error = EnsembleDir::create(Some(parent)).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, Error::Usage(_)), "{message}");
            assert!(message.contains(&format!("{}: {what}", parent.display())), "{message}");
            assert!(message.contains("--data-dir"), "{message}");
        }
        assert!(!place.path().join("no").exists());
    }

    #[test]
    fn error_for_an_unwritable_parent_contains_its_path() {
        let message = EnsembleDir::create(Some(Path::new("/proc"))).unwrap_err().to_string();
        assert!(message.contains("in /proc: ") && message.contains("--data-dir"), "{message}");
    }

    const MOUNTS: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
25 22 0:22 / /dev/shm rw,nosuid - tmpfs tmpfs rw
";

    #[test]
    fn longest_matching_mount_point_determines_the_file_system() {
        let kind = |path: &str| file_system(MOUNTS, Path::new(path)).unwrap().0;
        assert_eq!(kind("/dev/shm/zk"), "tmpfs");
        assert_eq!(kind("/dev/shmutter"), "ext4");
        assert_eq!(kind("/tmp"), "ext4");
    }

    #[test]
    fn placement_describes_the_cost_of_fsync() {
        let text = describe_placement(&std::env::temp_dir());
        assert!(text.contains("fsync") || text.contains("unknown"), "{text}");
    }
}
