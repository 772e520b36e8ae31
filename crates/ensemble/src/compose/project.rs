//! The containers, networks and volumes that Compose creates for one run, removed afterwards.
//!
//! Compose labels these objects with the project's name. A run owns a project while it holds the lock on the
//! name. If the lock is free, a killed run left the project behind, and the next run removes it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::docker::docker_now;
use crate::private;

const PREFIX: &str = "zklockbench-";
/// Label that Compose puts on everything that it creates.
const LABEL: &str = "com.docker.compose.project";
/// Maximum number of searches for leftovers. Objects that were being created when a run was killed appear late.
const LOOKS_AT_MOST: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A project owned by this run. Dropping this value removes everything with the project's label.
#[derive(Debug)]
pub struct Project {
    name: String,
    lock: PathBuf,
    removed: AtomicBool,
    _held: File,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftProject {
    /// Project name, which `docker ps` shows as a prefix of container names.
    pub name: String,
    pub in_use: bool,
}

impl Project {
    pub fn create() -> io::Result<Self> {
        Self::create_in(&locks())
    }

    fn create_in(locks: &Path) -> io::Result<Self> {
        private::make(locks)?;
        let name = format!("{PREFIX}{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        // Lock the file before giving it a name, so that no other run finds it unlocked.
        let unnamed = tempfile::NamedTempFile::new_in(locks)?;
        flock(unnamed.as_file(), FlockOperation::NonBlockingLockExclusive)?;
        let lock = locks.join(&name);
        let held = unnamed.persist(&lock)?;
        Ok(Self { name, lock, removed: AtomicBool::new(false), _held: held })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the label for this project's containers that Compose does not create.
    pub fn label(&self) -> String {
        format!("{LABEL}={}", self.name)
    }

    /// Removes everything with the project's label. Idempotent.
    pub fn remove(&self) -> Result<(), String> {
        remove(&self.name)?;
        let _ = std::fs::remove_file(&self.lock);
        self.removed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // Skip a second removal, because it would take Docker a while.
        if !self.removed.load(Ordering::Acquire) {
            let _ = self.remove();
        }
    }
}

pub fn left_projects() -> Vec<LeftProject> {
    // An error means that another user owns the lock directory, so this user has no projects.
    left_in(&locks(), |_| Ok(false)).unwrap_or_default()
}

/// Like [`left_projects`], but also removes projects whose runs have ended.
pub fn remove_left_projects() -> Result<Vec<LeftProject>, String> {
    left_in(&locks(), |name| remove(name).map(|()| true))
}

/// Calls `removing` for each project whose run has ended. `removing` returns whether it removed the project.
fn left_in(
    locks: &Path,
    removing: impl Fn(&str) -> Result<bool, String>,
) -> Result<Vec<LeftProject>, String> {
    if !locks.exists() {
        return Ok(Vec::new());
    }
    // Do not trust files in a directory that other users can write to.
    private::check(locks).map_err(|error| error.to_string())?;
    let entries = std::fs::read_dir(locks).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(PREFIX)).collect();
    names.sort_unstable();
    let mut left = Vec::new();
    for name in names {
        let path = locks.join(&name);
        let Ok(lock) = private::open_lock(&path, false) else { continue };
        let in_use = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err();
        if !in_use && removing(&name)? {
            let _ = std::fs::remove_file(&path);
        }
        left.push(LeftProject { name, in_use });
    }
    Ok(left)
}

/// Returns the directory of the lock files: independent of environment variables and preserved across reboots.
fn locks() -> PathBuf {
    PathBuf::from(format!("/var/tmp/zklockbench-compose-{}", rustix::process::getuid().as_raw()))
}

fn remove(project: &str) -> Result<(), String> {
    let mut failed = Ok(());
    for look in 0..LOOKS_AT_MOST {
        if look > 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        let found = [
            remove_kind(project, &["ps", "--all", "--quiet"], &["rm", "--force", "--volumes"]),
            remove_kind(project, &["network", "ls", "--quiet"], &["network", "rm"]),
            remove_kind(project, &["volume", "ls", "--quiet"], &["volume", "rm", "--force"]),
        ];
        let mut found = found.into_iter();
        match found.try_fold(false, |any, found| found.map(|found| any || found)) {
            // Finish when the second or a later search finds nothing.
            Ok(false) if look > 0 => return Ok(()),
            Ok(_) => {}
            // A network may remain in use for a moment.
            Err(why) => failed = Err(why),
        }
    }
    failed
        .and_then(|()| Err(format!("objects of the project {project} keep reappearing after their removal")))
}

fn remove_kind(project: &str, list: &[&str], remove: &[&str]) -> Result<bool, String> {
    let filter = format!("label={LABEL}={project}");
    let told = docker_now(&[list, &["--filter", &filter]].concat())?;
    let ids: Vec<&str> = told.split_whitespace().collect();
    if ids.is_empty() {
        return Ok(false);
    }
    docker_now(&[remove, &ids[..]].concat()).map(|_| true)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn project_is_removed_only_when_its_lock_is_free() {
        let locks = tempfile::tempdir().unwrap();
        let in_use = std::mem::ManuallyDrop::new(Project::create_in(locks.path()).unwrap());
        std::fs::write(locks.path().join("zklockbench-dead"), "").unwrap();
        std::fs::write(locks.path().join("somebody-elses"), "").unwrap();
        let removed = RefCell::new(Vec::new());
        let removing = |name: &str| {
            removed.borrow_mut().push(name.to_owned());
            Ok(true)
        };
        let left = left_in(locks.path(), removing).unwrap();
        assert_eq!(left.len(), 2);
        assert_eq!(*removed.borrow(), ["zklockbench-dead"]);
        // Then only the project that is still in use remains
        let left = left_in(locks.path(), |_| panic!("must not remove anything")).unwrap();
        assert_eq!(left, [LeftProject { name: in_use.name().into(), in_use: true }]);
    }

    #[test]
    fn lock_directory_writable_by_other_users_is_rejected() {
        use std::os::unix::fs::PermissionsExt;
        let locks = tempfile::tempdir().unwrap();
        std::fs::write(locks.path().join("zklockbench-planted"), "").unwrap();
        std::fs::set_permissions(locks.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = left_in(locks.path(), |_| panic!("must not remove anything")).unwrap_err();
        assert!(refused.contains("is writable by others"), "{refused}");
        assert!(Project::create_in(locks.path()).is_err());
    }

    #[test]
    fn failed_removal_is_retried() {
        let locks = tempfile::tempdir().unwrap();
        std::fs::write(locks.path().join("zklockbench-dead"), "").unwrap();
        assert!(left_in(locks.path(), |_| Err("no daemon".into())).is_err());
        assert_eq!(left_in(locks.path(), |_| Ok(true)).unwrap().len(), 1);
        assert_eq!(left_in(locks.path(), |_| Ok(true)).unwrap(), []);
    }
}
