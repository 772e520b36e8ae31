//! Drivers: external programs that take locks for contenders, over a protocol on standard streams.

mod process;
pub mod processes;
pub mod protocol;

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;

use rustix::process::Pid;

use protocol::LONGEST_LINE;
use zklockbench_core::locked::locked;

pub use process::{DriverError, Mishap, Parameters, Process, READY_WITHIN};
pub use processes::{Granted, Link, PipeEchoes, Processes, Wanted};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverCommand {
    pub name: String,
    pub program: String,
    pub arguments: Vec<String>,
}

impl DriverCommand {
    /// Starts the process and returns its pipes. The process leads a process group, so that one signal reaches
    /// all its children.
    fn spawn(&self) -> Result<(Child, Pid, ChildStdin, ChildStdout, ChildStderr), String> {
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env("ZKLOCKBENCH_DRIVER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let program = &self.program;
        let mut child = child.map_err(|error| format!("{program}: {error}{}", advice(program, &error)))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        match (group, child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(group), Some(input), Some(output), Some(errors)) => {
                Ok((child, group, input, output, errors))
            }
            _ => Err("the process has no pipes".into()),
        }
    }
}

/// Returns advice to append to the error of a program that did not start; empty if there is none.
fn advice(program: &str, error: &io::Error) -> String {
    let path = Path::new(program);
    match error.kind() {
        ErrorKind::NotFound if !program.contains('/') && path.exists() => format!("; write ./{program}"),
        ErrorKind::PermissionDenied if path.is_dir() => "; name a program, not a directory".to_owned(),
        ErrorKind::PermissionDenied if path.is_file() => format!("; make it executable: chmod +x {program}"),
        _ => String::new(),
    }
}

pub fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("killed by signal {signal}"),
        _ => "for an unknown reason".into(),
    }
}

/// Last lines of a process's standard error; long lines are truncated.
#[derive(Debug, Default)]
struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    /// Maximum number of lines, and of characters per line.
    const COUNT: usize = 32;
    const LONGEST: usize = 500;

    fn read(&self, errors: impl Read) {
        let mut errors = BufReader::new(errors);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut errors).take(LONGEST_LINE as u64).read_until(b'\n', &mut line) {
                Ok(length) if length > 0 => {}
                _ => return,
            }
            let text = String::from_utf8_lossy(&line).trim_end().chars().take(Self::LONGEST).collect();
            let mut lines = locked(&self.0);
            lines.push_back(text);
            while lines.len() > Self::COUNT {
                lines.pop_front();
            }
        }
    }

    /// Returns the lines as text to append to a failure; empty if there are none.
    fn text(&self) -> String {
        let lines = locked(&self.0);
        if lines.is_empty() {
            return String::new();
        }
        lines.iter().fold("; its last output:".to_owned(), |text, line| format!("{text}\n    {line}"))
    }
}
