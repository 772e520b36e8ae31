//! Real ZooKeeper ensembles (started here, kept between runs, or external) and the faults that break them.

#![expect(
    clippy::disallowed_methods,
    reason = "only deadlines and server start times, which are not measurements"
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
mod names;
mod network;
mod ports;
mod private;
mod processes;
pub mod proxy;
mod server;
mod state;
pub mod transactions;

use std::path::PathBuf;

pub use clients::other_clients;
pub use compose::{Compose, LeftProject, left_projects, remove_left_projects};
pub use counters::raise as raise_counters;
pub use external::{CONNECT_VARIABLE, Hosts, namespace_of, parse_connect, reach_servers, source_of_connect};
pub use install::{Installation, Places};
pub use kept::{KeptEnsemble, KeptServer};
pub use links::Links;
pub use local::{Local, LocalSpec, NICER_BY};
pub use names::{expand, servers_of_one_ensemble};
pub use network::{leave_for_own_network, links_capability};
pub use ports::ClaimedPorts;
pub use processes::Processes;
pub use server::spawn_mortal;
pub use state::{Done, Fact, Leader, Role, eventually, roles, voters};

/// Transaction logs of an ensemble's servers.
#[derive(Debug)]
pub struct Logs {
    /// Data directory of each server; a directory may not exist.
    pub directories: Vec<PathBuf>,
    /// Temporary directory with the copied logs, removed when dropped; `None` if no logs were copied.
    _copies: Option<tempfile::TempDir>,
}
