//! Where a server's data lie, and on what: fsync decides how fast a write is.

use std::path::{Path, PathBuf};

/// Says on what a directory lies and what that means for fsync, e.g. `ext4 on /dev/sda1 (/tmp): …`.
#[must_use]
pub fn describe(directory: &Path) -> String {
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match file_system(&mounts, &real) {
        Some((kind, _)) if kind == "tmpfs" || kind == "ramfs" => {
            format!("{kind} ({}): in memory, fsync costs nothing", directory.display())
        }
        Some((kind, source)) => {
            format!("{kind} on {source} ({}): every write waits for an fsync", directory.display())
        }
        None => format!("{}: file system not known", directory.display()),
    }
}

/// Kind and source of the file system with the longest mount point above the path.
fn file_system(mountinfo: &str, path: &Path) -> Option<(String, String)> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mount_point = PathBuf::from(left.split(' ').nth(4)?.replace("\\040", " "));
        let mut right = right.split(' ');
        Some((mount_point, right.next()?.to_owned(), right.next()?.to_owned()))
    });
    // The last of equally long ones is mounted on top.
    mounts
        .filter(|(mount_point, ..)| path.starts_with(mount_point))
        .max_by_key(|(mount_point, ..)| mount_point.components().count())
        .map(|(_, kind, source)| (kind, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
25 22 0:22 / /dev/shm rw,nosuid - tmpfs tmpfs rw
";

    #[test]
    fn the_longest_mount_point_above_the_path_counts() {
        let kind = |path: &str| file_system(MOUNTS, Path::new(path)).unwrap().0;
        assert_eq!(kind("/dev/shm/zk"), "tmpfs");
        assert_eq!(kind("/dev/shmutter"), "ext4");
        assert_eq!(kind("/tmp"), "ext4");
    }

    #[test]
    fn the_description_tells_what_fsync_costs() {
        let text = describe(&std::env::temp_dir());
        assert!(text.contains("fsync") || text.contains("not known"), "{text}");
    }
}
