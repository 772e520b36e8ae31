//! Real ZooKeeper ensembles: started here as child processes, kept between runs, or run by others; and what
//! can be done to those that were started here, so that faults are real ones.

#![expect(
    clippy::disallowed_methods,
    reason = "deadlines of servers, and when they were started: nothing that is measured"
)]

mod clients;
mod compose;
mod counters;
mod directory;
mod external;
pub mod fault;
mod install;
mod kept;
mod links;
mod local;
pub mod log_follower;
mod network;
mod ports;
mod private;
mod processes;
pub mod proxy;
mod server;
mod state;
pub mod transactions;

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;

pub use clients::{OtherClients, other_clients};
pub use compose::{Compose, LeftProject, left_projects, remove_left_projects};
pub use counters::raise as raise_counters;
pub use external::{Hosts, namespace_of, parse_connect, reach_servers};
pub use install::{Installation, Places};
pub use kept::{KeptEnsemble, KeptServer};
pub use links::Links;
pub use local::{Local, LocalSpec, NICER_BY};
pub use network::{leave_for_own_network, links_capability};
pub use processes::Processes;
pub use server::spawn_mortal;
pub use state::{Done, Fact, Leader, Role, eventually, roles};

/// Where the servers' transaction logs lie.
#[derive(Debug)]
pub struct Logs {
    /// The data directory of each server, which may not be there.
    pub directories: Vec<PathBuf>,
    /// Where they were copied to from elsewhere, for as long as this lives.
    _copies: Option<tempfile::TempDir>,
}

/// An ensemble of our own: it may be broken, and what its servers wrote down may be read.
#[async_trait]
pub trait Started: Processes {
    /// What cuts its servers off from each other; `None` where nothing does.
    fn links(&self) -> Option<&dyn Links> {
        None
    }

    /// The servers' transaction logs as they are now.
    async fn logs(&self) -> io::Result<Logs>;

    /// The same where they are files of this host, which can be read while they are written. Elsewhere they are asked for
    /// only where more hangs on it.
    fn logs_at_hand(&self) -> Option<Logs>;

    fn has_logs(&self) -> bool {
        true
    }

    /// The ids of the servers' processes, without those that are down; empty where they don't run on this host.
    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }
}

#[async_trait]
impl Started for Local {
    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }

    async fn logs(&self) -> io::Result<Logs> {
        Ok(Logs { directories: self.data(), _copies: None })
    }

    fn logs_at_hand(&self) -> Option<Logs> {
        Some(Logs { directories: self.data(), _copies: None })
    }

    fn process_ids(&self) -> Vec<u32> {
        self.pids()
    }
}
