//! A process and all that it has started, whatever these did to leave: another process group, another parent.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that all of them inherit.
pub(super) const MARKER: &str = "ZKLOCKBENCH_CHECK";

/// Who belongs to a process that was started here.
#[derive(Debug)]
pub(super) struct ProcessFamily {
    group: i32,
    marker: String,
    /// All that were ever seen of it, each with when it was started: a number is given away again.
    known: BTreeSet<(i32, u64)>,
}

#[derive(Debug)]
struct Running {
    pid: i32,
    parent: i32,
    group: i32,
    began: u64,
    name: String,
}

impl ProcessFamily {
    pub fn of(group: Pid, marker: &str) -> Self {
        let marker = format!("{MARKER}={marker}");
        Self { group: group.as_raw_nonzero().get(), marker, known: BTreeSet::new() }
    }

    /// Those that run now, by number and name; also one that left group, parent and environment, if it was seen before.
    pub fn look(&mut self) -> Vec<(i32, String)> {
        let mut rest = running();
        let mut found = Vec::new();
        loop {
            let is_one = |one: &Running| {
                one.group == self.group
                    || self.known.contains(&(one.pid, one.began))
                    || self.known.iter().any(|(pid, _)| *pid == one.parent)
                    || has_variable(one.pid, &self.marker)
            };
            let (more, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_one);
            if more.is_empty() {
                return found;
            }
            rest = others;
            self.known.extend(more.iter().map(|one| (one.pid, one.began)));
            found.extend(more.into_iter().map(|one| (one.pid, one.name)));
        }
    }

    /// Kills those that run, each by its number.
    pub fn kill(&mut self) {
        for (pid, _) in self.look() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn running() -> Vec<Running> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter_map(of).collect()
}

fn of(pid: i32) -> Option<Running> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and parentheses of its own.
    let (front, back) = stat.rsplit_once(')')?;
    let name = front.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = back.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let is_over = matches!(fields.first(), Some(&"Z" | &"X"));
    let (parent, group) = (i32::try_from(number(1)?).ok()?, i32::try_from(number(2)?).ok()?);
    let began = u64::try_from(number(19)?).ok()?;
    (!is_over).then_some(Running { pid, parent, group, began, name })
}

fn has_variable(pid: i32, variable: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|one| one == std::ffi::OsStr::new(variable).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn whoever_left_the_group_and_the_parent_is_found_and_killed() {
        let marker = uuid::Uuid::new_v4().to_string();
        let mut shell = Command::new("sh");
        // The one in the background loses its parent, and is in a session of its own.
        shell.args(["-c", "setsid sleep 60 & exec sleep 0.2"]).env(MARKER, &marker).process_group(0);
        let mut shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
        shell.wait().unwrap();
        let mut family = ProcessFamily::of(group, &marker);
        let left = family.look();
        assert!(matches!(left.as_slice(), [(_, name)] if name == "sleep"), "{left:?}");
        family.kill();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(family.look(), []);
    }
}
