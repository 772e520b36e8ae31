//! One run of a series, as a process of its own: it ends with this one, and is asked to end when the user stops.

#![expect(
    clippy::disallowed_methods,
    reason = "how long a run takes is only shown, and deadlines are no measurements"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::words::disk;
use crate::words::error::Error;
use crate::world::ensemble::spawn_mortal;

/// Poll interval; long, so that polling does not disturb the run.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a run may take to end in order once it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

pub struct ChildEnd {
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    pub took: Duration,
}

impl ChildEnd {
    pub fn how(&self) -> String {
        self.code.map_or_else(|| "it was killed".to_owned(), |code| format!("exit code {code}"))
    }
}

/// Runs a command to its end; what it says on stderr goes to that file. When `stop` is cancelled it is asked to end.
pub async fn run(mut command: Command, said: &Path, stop: &CancellationToken) -> Result<ChildEnd, Error> {
    let program = command.get_program().to_owned();
    let cannot =
        |error: std::io::Error| Error::environment(format!("cannot run {}: {error}", program.display()));
    let said = disk::create_anew(said).map_err(Error::cannot("write", said))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let began = Instant::now();
    let mut running = Running(spawn_mortal(command).map_err(cannot)?);
    let mut asked_at: Option<Instant> = None;
    loop {
        if let Some(status) = running.0.try_wait().map_err(cannot)? {
            return Ok(ChildEnd { code: status.code(), took: began.elapsed() });
        }
        match asked_at {
            None if stop.is_cancelled() => {
                running.ask_to_end();
                asked_at = Some(Instant::now());
            }
            Some(asked) if asked.elapsed() > ENDS_WITHIN => drop(running.0.kill()),
            None => drop(tokio::time::timeout(LOOK_EVERY, stop.cancelled()).await),
            Some(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// A process that is killed when its handle is dropped.
struct Running(Child);

impl Running {
    fn ask_to_end(&self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may just have ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn its_exit_code_and_what_it_said_are_kept() {
        let said = tempfile::NamedTempFile::new().unwrap();
        let ended = run(shell("echo why >&2; exit 4"), said.path(), &CancellationToken::new()).await.unwrap();
        assert_eq!(ended.code, Some(4));
        assert_eq!(std::fs::read_to_string(said.path()).unwrap(), "why\n");
    }

    #[tokio::test]
    async fn it_is_asked_to_end_when_the_user_stops_and_may_do_so_in_its_own_way() {
        let (said, stop) = (tempfile::NamedTempFile::new().unwrap(), CancellationToken::new());
        let script = "trap 'echo tidied >&2; exit 130' TERM; echo ready >&2; while :; do sleep 0.05; done";
        let running = run(shell(script), said.path(), &stop);
        let path = said.path().to_owned();
        let stopping = async {
            while !std::fs::read_to_string(&path).unwrap().contains("ready") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(running, stopping);
        assert_eq!(ended.unwrap().code, Some(130));
        assert!(std::fs::read_to_string(said.path()).unwrap().ends_with("tidied\n"));
    }

    #[tokio::test]
    async fn when_nobody_waits_any_more_it_is_killed() {
        let said = tempfile::NamedTempFile::new().unwrap();
        let stop = CancellationToken::new();
        let running = run(shell("echo $$ >&2; exec sleep 60"), said.path(), &stop);
        assert!(tokio::time::timeout(Duration::from_millis(500), running).await.is_err());
        let pid = std::fs::read_to_string(said.path()).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone");
    }
}
