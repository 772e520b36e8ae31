//! A local ensemble that keeps running between runs: `ensemble up`, `status`, `down`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use super::directory::check_left;
use super::install::Installation;
use super::local::{Local, LocalSpec};
use super::private;
use super::server::{Lifetime, Server, is_server_of};
use zklockbench_core::error::Error;

/// Interval and number of the checks whether the servers have ended after a signal, 5 s in total.
const BETWEEN_CHECKS: Duration = Duration::from_millis(50);
const CHECKS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptServer {
    pub pid: u32,
    /// Client address, `127.0.0.1:port`.
    pub address: String,
    pub log: PathBuf,
}

/// Record of a kept ensemble, saved in the state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptEnsemble {
    pub connect: String,
    pub servers: Vec<KeptServer>,
    /// Data directory; removed with the ensemble.
    pub directory: PathBuf,
    /// File system of the data directory, and the cost of fsync there; see `describe_placement`.
    pub placement: String,
    pub config: Vec<(String, String)>,
    /// Start time (RFC 3339, UTC).
    pub since: String,
}

impl KeptEnsemble {
    /// Returns the path of the state file that records the user's kept ensemble.
    pub fn state_file() -> Result<PathBuf, Error> {
        let directory = private::state_directory().map_or_else(private::directory, Ok).map_err(|error| {
            Error::environment(format!(
                "found no directory in which to record the ensemble ({error}): set ZKLOCKBENCH_STATE_DIR"
            ))
        })?;
        Ok(directory.join("ensemble.json"))
    }

    pub fn load(state: &Path) -> Result<Option<Self>, Error> {
        let text = match std::fs::read_to_string(state) {
            Ok(text) => text,
            // HOME may be a file, such as /dev/null.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(inaccessible(state, &error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| about(state, &error))
    }

    /// Starts an ensemble that outlives this process. If its record cannot be saved, stops the ensemble.
    pub async fn up(spec: &LocalSpec, installation: &Installation, state: &Path) -> Result<Self, Error> {
        let local = Local::start_for(spec, installation, Lifetime::Lasting).await?;
        let kept = Self {
            connect: local.connect(),
            servers: local.each().filter_map(|server| KeptServer::of(&server)).collect(),
            directory: local.directory().to_path_buf(),
            placement: local.placement().to_owned(),
            config: local.config(),
            since: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        };
        kept.save(state).and_then(|()| local.leave()).map_err(|error| {
            let _ = std::fs::remove_file(state);
            inaccessible(state, &error)
        })?;
        Ok(kept)
    }

    fn save(&self, state: &Path) -> std::io::Result<()> {
        let directory = state.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.persist(state)?;
        Ok(())
    }

    pub fn lies_below(&self, directory: &Path) -> bool {
        let own = self.directory.parent().and_then(|above| above.canonicalize().ok());
        own.is_some() && own == directory.canonicalize().ok()
    }

    /// Returns the running servers. Checks their command lines, too, because a process ID may have been reused.
    pub fn alive(&self) -> Vec<&KeptServer> {
        let mut system = System::new();
        let pids: Vec<_> = self.servers.iter().map(|server| sysinfo::Pid::from_u32(server.pid)).collect();
        let what = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, what);
        let is_ours = |server: &&KeptServer| {
            let process = system.process(sysinfo::Pid::from_u32(server.pid));
            process.is_some_and(|process| is_server_of(process.cmd(), &self.directory))
        };
        self.servers.iter().filter(is_ours).collect()
    }

    /// Stops the servers, and removes their data and the state file. Returns the number of servers stopped.
    ///
    /// # Errors
    /// Fails if a server does not end, if the data cannot be removed, or if the directory in the state file is not a
    /// kept ensemble's. In the last case, nothing is stopped or removed.
    pub async fn down(&self, state: &Path) -> Result<usize, Error> {
        check_left(&self.directory).map_err(|why| {
            Error::environment(format!(
                "{}: its data directory {} does not belong to a kept ensemble: {why}. Nothing \
                 was stopped or deleted. If the file is wrong, delete it",
                state.display(),
                self.directory.display()
            ))
        })?;
        let alive = self.alive().len();
        let signal = |signal| self.signal(signal);
        if !end(signal, || !self.alive().is_empty()).await {
            let still =
                "nothing was removed, because a server is still running after SIGKILL: try again later";
            return Err(about(&self.directory, &still));
        }
        match std::fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(about(&self.directory, &error));
            }
            _ => {}
        }
        std::fs::remove_file(state).map_err(|error| about(state, &error))?;
        Ok(alive)
    }

    fn signal(&self, signal: Signal) {
        let pids =
            self.alive().into_iter().filter_map(|server| Pid::from_raw(i32::try_from(server.pid).ok()?));
        for pid in pids {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Ends processes with SIGTERM and, if necessary, with SIGKILL. Returns whether the processes have ended.
async fn end(signal: impl Fn(Signal), are_alive: impl Fn() -> bool) -> bool {
    for which in [Signal::TERM, Signal::KILL] {
        signal(which);
        for _ in 0..CHECKS {
            if !are_alive() {
                return true;
            }
            tokio::time::sleep(BETWEEN_CHECKS).await;
        }
    }
    false
}

impl KeptServer {
    fn of(server: &Server) -> Option<Self> {
        Some(Self { pid: server.pid()?, address: server.address(), log: server.log.clone() })
    }
}

fn about(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::environment(format!("{}: {error}", path.display()))
}

/// Returns the error for a state file that this user cannot read or write, e.g. because HOME is another user's.
fn inaccessible(state: &Path, error: &std::io::Error) -> Error {
    about(state, &format!("{error}; set ZKLOCKBENCH_STATE_DIR to a directory that you can write to"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(directory: PathBuf) -> KeptEnsemble {
        KeptEnsemble {
            connect: "127.0.0.1:1".into(),
            servers: vec![KeptServer {
                pid: std::process::id(),
                address: String::new(),
                log: PathBuf::new(),
            }],
            directory,
            placement: String::new(),
            config: Vec::new(),
            since: String::new(),
        }
    }

    #[test]
    fn lies_below_compares_canonical_paths() {
        let place = tempfile::tempdir().unwrap();
        let kept = of(place.path().join("zklockbench-ensemble-x"));
        assert!(kept.lies_below(place.path()) && kept.lies_below(&place.path().join(".")));
        assert!(!kept.lies_below(Path::new("/")) && !kept.lies_below(&place.path().join("nowhere")));
    }

    #[tokio::test]
    async fn down_rejects_a_state_file_with_a_foreign_directory() {
        let place = tempfile::tempdir().unwrap();
        let (state, precious) = (place.path().join("ensemble.json"), place.path().join("precious"));
        std::fs::create_dir(&precious).unwrap();
        for named in [precious.clone(), PathBuf::new()] {
            of(named.clone()).save(&state).unwrap();
            let refused =
                KeptEnsemble::load(&state).unwrap().unwrap().down(&state).await.unwrap_err().to_string();
            assert!(refused.contains("ensemble.json"), "{refused}");
            assert!(refused.contains("does not start with"), "{refused}");
        }
        assert!(precious.is_dir() && state.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn end_waits_for_killed_processes() {
        use std::cell::Cell;
        // Given a process that ignores SIGTERM and takes several checks to end after SIGKILL
        for (lasts, has_ended) in [(3, true), (usize::MAX, false)] {
            let (sent, left) = (Cell::new(Signal::CONT), Cell::new(lasts));
            let are_alive = || {
                let is_killed = sent.get() == Signal::KILL;
                left.set(left.get() - usize::from(is_killed && left.get() > 0));
                left.get() > 0
            };
            assert_eq!(end(|signal| sent.set(signal), are_alive).await, has_ended);
            assert_eq!(left.get() == 0, has_ended);
        }
    }

    #[test]
    fn reused_process_id_is_not_mistaken_for_a_server() {
        assert!(of("/nowhere/zklockbench-ensemble-x".into()).alive().is_empty());
        // A process that only reads a server's file is not a server.
        let place = tempfile::tempdir().unwrap();
        let cfg = place.path().join("server-1").join("zoo.cfg");
        std::fs::create_dir(cfg.parent().unwrap()).unwrap();
        std::fs::write(&cfg, "").unwrap();
        let mut looking = std::process::Command::new("tail").arg("-f").arg(&cfg).spawn().unwrap();
        let mut kept = of(place.path().to_owned());
        kept.servers[0].pid = looking.id();
        let alive = kept.alive().len();
        looking.kill().unwrap();
        looking.wait().unwrap();
        assert_eq!(alive, 0);
    }

    #[test]
    fn missing_state_file_is_accepted_but_a_broken_file_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("ensemble.json");
        assert_eq!(KeptEnsemble::load(&state).unwrap(), None);
        std::fs::write(&state, "{").unwrap();
        assert!(KeptEnsemble::load(&state).unwrap_err().to_string().contains("ensemble.json"));
        assert_eq!(KeptEnsemble::load(&state.join("below a file")).unwrap(), None);
        let unreadable = KeptEnsemble::load(directory.path()).unwrap_err().to_string();
        assert!(
            unreadable.ends_with("set ZKLOCKBENCH_STATE_DIR to a directory that you can write to"),
            "{unreadable}"
        );
    }
}
