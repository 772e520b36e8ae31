//! One ZooKeeper server as a child process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::config;
use super::install::Installation;
use super::ports::ServerPorts;
use super::process;

/// How long a server's life lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// As long as this process at most.
    WithUs,
    /// Until somebody ends it.
    Lasting,
}

/// A server that was started. Dropped, it is killed, unless it was let go.
#[derive(Debug)]
pub struct Server {
    /// From 1.
    pub number: usize,
    /// `127.0.0.1:port` for clients.
    pub address: String,
    /// Where its output goes.
    pub log: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Starts it: writes its configuration into `<directory>/server-N`, and its output to
    /// `<logs>/server-N.log`.
    ///
    /// # Errors
    /// When a file cannot be written or Java cannot be started.
    pub fn start(
        installation: &Installation,
        number: usize,
        ports: &[ServerPorts],
        (directory, logs): (&Path, &Path),
        life: Life,
    ) -> io::Result<Self> {
        let own = directory.join(format!("server-{number}"));
        config::write(&own, number, ports)?;
        std::fs::create_dir_all(logs)?;
        let log = logs.join(format!("server-{number}.log"));
        let output = File::create(&log)?;
        let mut command = Command::new(&installation.java);
        command.args(config::java_arguments(installation, &own)).current_dir(&own);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = match life {
            Life::WithUs => process::spawn_mortal(command)?,
            Life::Lasting => process::spawn_lasting(command)?,
        };
        let address = format!("127.0.0.1:{}", ports[number - 1].client);
        Ok(Self { number, address, log, child: Some(child) })
    }

    /// Its process id; `None` once it has been let go.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// How it ended, if it has ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(format!("server {} ended ({status})", self.number))
    }

    /// Kills it and waits for its end. Its data are thrown away, so there is nothing to end in order.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Lets it live on; returns its process id.
    #[must_use]
    pub fn let_go(mut self) -> Option<u32> {
        self.child.take().map(|child| child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
