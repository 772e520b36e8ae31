//! Child processes that end with this process, however it ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};

type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a child that is killed when this process ends, however it ends.
///
/// Linux kills a child when the *thread* that started it ends, if the child asked for it
/// (`PR_SET_PDEATHSIG`). So children are started from one thread that lives as long as the process, and no
/// JVM survives even a `kill -9` of the suite. Each child gets a process group of its own, so that a Ctrl-C in
/// the terminal reaches the suite alone, which then ends its children in order.
///
/// # Errors
/// Same errors as [`Command::spawn`].
pub fn spawn_mortal(mut command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<io::Result<mpsc::Sender<SpawnRequest>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(start_keeper).as_ref().map_err(|e| io::Error::other(e.to_string()))?;
    command.process_group(0);
    die_with_parent(&mut command);
    let (answer, child) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that keeps child processes has ended");
    keeper.send((command, answer)).map_err(|_| gone(mpsc::RecvError))?;
    child.recv().map_err(gone)?
}

fn start_keeper() -> io::Result<mpsc::Sender<SpawnRequest>> {
    let (requests, inbox) = mpsc::channel::<SpawnRequest>();
    std::thread::Builder::new().name("child-keeper".into()).spawn(move || {
        for (mut command, answer) in inbox {
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(requests)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the only way to run something between fork and exec")]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    let parent = rustix::process::getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the child asked.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `ask` makes two system calls
    // and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_started_from_a_thread_that_ends_lives_on() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("30");
            spawn_mortal(command).unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "it died with the thread that asked for it");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
