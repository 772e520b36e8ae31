//! One ZooKeeper server as a child process: started, ended, held still, started again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::install::Installation;
use super::mortal::spawn_mortal;
use super::ports::ServerPorts;
use super::{config, namespace};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as this process at most.
    WithUs,
    Lasting,
}

/// Where a server's files lie, in which network it lives, and how much it lets others go first.
#[derive(Debug, Clone)]
pub struct ServerSite<'a> {
    /// Its own directory `server-N` is made in there.
    pub directory: &'a Path,
    /// Its output goes to `server-N.log` in there.
    pub logs: &'a Path,
    /// The network namespace; `None` for that of this process.
    pub namespace: Option<PathBuf>,
    /// By how much its niceness is above that of this process.
    pub nicer_by: u8,
}

/// What a server is meant to do now. An end that was meant is no news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    Run,
    StandStill,
    BeDown,
    BeGone,
}

/// A server that was started. Dropped, it is killed, unless it was let go.
#[derive(Debug)]
pub struct Server {
    /// From 1.
    pub number: usize,
    pub ports: ServerPorts,
    pub log: PathBuf,
    /// The network namespace that it lives in; `None` for that of this process.
    pub namespace: Option<PathBuf>,
    nicer_by: u8,
    own: PathBuf,
    java: PathBuf,
    arguments: Vec<String>,
    life: Lifetime,
    meant: Meant,
    child: Option<Child>,
}

impl Server {
    /// Starts it, after having written its configuration and emptied its log.
    pub fn start(
        installation: &Installation,
        number: usize,
        ports: &[ServerPorts],
        site: &ServerSite<'_>,
        life: Lifetime,
    ) -> io::Result<Self> {
        let own = site.directory.join(format!("server-{number}"));
        config::write(&own, number, ports)?;
        std::fs::create_dir_all(site.logs)?;
        let log = site.logs.join(format!("server-{number}.log"));
        File::create(&log)?;
        let mut server = Self {
            number,
            ports: ports[number - 1],
            log,
            namespace: site.namespace.clone(),
            nicer_by: site.nicer_by,
            arguments: config::java_arguments(installation, &own),
            own,
            java: installation.java.clone(),
            life,
            meant: Meant::BeDown,
            child: None,
        };
        server.launch()?;
        server.meant = Meant::Run;
        Ok(server)
    }

    /// Starts its process. It counts as meant to run only once [`Server::is_up`] has been called: till then its
    /// end is its starter's business.
    pub fn launch(&mut self) -> io::Result<()> {
        if self.meant == Meant::BeGone {
            return Err(io::Error::other("the ensemble is closed"));
        }
        if self.is_running() {
            return Err(io::Error::other("it runs already"));
        }
        let output = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.java);
        command.args(&self.arguments).current_dir(&self.own);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(namespace) = &self.namespace {
            namespace::live_in(&mut command, namespace)?;
        }
        nicer(&mut command, self.nicer_by);
        self.meant = Meant::BeDown;
        self.child = Some(match self.life {
            Lifetime::WithUs => spawn_mortal(command)?,
            Lifetime::Lasting => spawn_lasting(command)?,
        });
        Ok(())
    }

    /// It has been started again; from now on its end is news.
    pub fn is_up(&mut self) {
        if self.meant == Meant::BeDown {
            self.meant = Meant::Run;
        }
    }

    /// `host:port` for clients.
    pub fn address(&self) -> String {
        format!("{}:{}", self.ports.host, self.ports.client)
    }

    pub fn data(&self) -> PathBuf {
        self.own.join("data")
    }

    /// Its process id; `None` once it has ended or been let go.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether its process is there, be it held still.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Whether its process is there and not held still.
    pub fn is_awake(&mut self) -> bool {
        self.meant != Meant::StandStill && self.is_running()
    }

    /// How it ended, if it has ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        if matches!(self.meant, Meant::BeDown | Meant::BeGone) {
            return None;
        }
        self.has_ended()
    }

    /// How it ended, if it has ended, meant or not.
    pub fn has_ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(format!("server {} ended ({status})", self.number))
    }

    /// Asks for its end with a signal: `KILL`, which works on a process that is held still, too, or `TERM`, for
    /// which such a process is woken.
    pub fn end(&mut self, signal: Signal) -> io::Result<()> {
        let was = self.meant;
        self.send(signal)?;
        if self.meant != Meant::BeGone {
            self.meant = Meant::BeDown;
        }
        if was == Meant::StandStill && signal != Signal::KILL {
            self.send(Signal::CONT)?;
        }
        Ok(())
    }

    pub fn pause(&mut self) -> io::Result<()> {
        self.send(Signal::STOP)?;
        self.meant = Meant::StandStill;
        Ok(())
    }

    pub fn resume(&mut self) -> io::Result<()> {
        self.send(Signal::CONT)?;
        if self.meant == Meant::StandStill {
            self.meant = Meant::Run;
        }
        Ok(())
    }

    fn send(&mut self, signal: Signal) -> io::Result<()> {
        // The process is a child that was not awaited yet, so its id belongs to no other.
        let pid = if self.is_running() { self.pid() } else { None };
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(kill_process(pid.ok_or_else(|| io::Error::other("it does not run"))?, signal)?)
    }

    /// Kills it for good and waits for its end. Its data are thrown away, so there is nothing to end in order.
    pub fn kill(&mut self) {
        self.meant = Meant::BeGone;
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Lets it live on; returns its process id.
    pub fn let_go(&mut self) -> Option<u32> {
        if self.meant == Meant::StandStill {
            let _ = self.resume();
        }
        self.child.take().map(|child| child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Lets a child begin its life with a niceness above ours. Set from outside it would reach the first of its threads only, and
/// those that were started later.
#[allow(unsafe_code, reason = "the only way to run something between fork and exec")]
fn nicer(command: &mut Command, by: u8) {
    if by == 0 {
        return;
    }
    let give_way = move || Ok(rustix::process::nice(i32::from(by)).map(drop)?);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `give_way` makes one system call and allocates
    // nothing.
    unsafe { command.pre_exec(give_way) };
}

/// Starts a child that outlives this process, in a process group of its own.
fn spawn_lasting(mut command: Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}
