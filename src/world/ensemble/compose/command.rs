//! Running `docker`, and Compose by whichever name this machine has it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use crate::words::error::Error;

/// Compose as a part of `docker`, and by itself as it was before version 2.
const COMPOSE: [&[&str]; 2] = [&["docker", "compose"], &["docker-compose"]];

/// What `docker` said on stdout. Given up, the command is killed.
pub async fn docker(arguments: &[&str]) -> Result<String, String> {
    run(command(&["docker"], arguments)).await
}

/// The same, waiting for it: for the end of a life, when nothing more can be awaited.
pub fn docker_now(arguments: &[&str]) -> Result<String, String> {
    let mut command = command(&["docker"], arguments);
    let output = command.output();
    said(&command, output)
}

/// A command of these words. In a group of its own no Ctrl-C reaches it: what is half made could not be removed.
pub fn command(program: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// What a command said on stdout. Given up, it is killed.
pub async fn run(command: Command) -> Result<String, String> {
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output().await;
    said(command.as_std(), output)
}

pub async fn find_compose() -> Result<&'static [&'static str], Error> {
    docker(&["version", "--format", "{{.Server.Version}}"]).await.map_err(|why| {
        Error::environment(format!("a Compose ensemble needs Docker, but its daemon does not answer: {why}"))
    })?;
    for program in COMPOSE {
        if run(command(program, &["version"])).await.is_ok() {
            return Ok(program);
        }
    }
    Err(Error::environment(
        "there is neither `docker compose` nor `docker-compose`. Install Docker's Compose plugin (Debian, Ubuntu: \
         apt-get install -y docker-compose)",
    ))
}

fn said(command: &Command, output: std::io::Result<Output>) -> Result<String, String> {
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = std::iter::once(command.get_program().to_string_lossy()).chain(arguments).collect();
    let words = words.join(" ");
    let output = output.map_err(|error| {
        format!("`{words}` cannot be run: {error}. Install Docker (Debian: apt-get install -y docker.io)")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("`{words}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_names_the_command_and_what_it_said_or_how_to_get_it() {
        let why = run(command(&["sh", "-c"], &["echo no >&2; exit 7"])).await.unwrap_err();
        assert!(why.contains("`sh -c echo no >&2; exit 7` failed") && why.ends_with(": no"), "{why}");
        let why = run(command(&["zklockbench-no-such-program"], &["x"])).await.unwrap_err();
        assert!(
            why.contains("`zklockbench-no-such-program x` cannot be run") && why.contains("Install"),
            "{why}"
        );
    }

    #[tokio::test]
    async fn what_is_given_up_does_not_go_on() {
        let mark = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 1; rm {}", mark.path().display());
        let work = run(command(&["sh", "-c"], &[&script]));
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(200), work).await;
        assert!(given_up.is_err());
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        assert!(mark.path().exists());
    }
}
