//! Real ZooKeeper ensembles: started here as child processes, kept between runs, or somebody else's; and what
//! can be done to those that were started here, so that faults are real ones.

#![expect(
    clippy::disallowed_methods,
    reason = "deadlines of servers, and when they were started: nothing that is measured"
)]

mod compose;
mod config;
mod directory;
mod external;
mod install;
mod kept;
mod leader;
mod links;
mod local;
mod mortal;
mod namespace;
mod network;
mod ports;
mod private;
mod processes;
mod rootless;
mod server;
mod state;
mod subnet;
pub mod transactions;

use std::io;

use async_trait::async_trait;

pub use compose::{Compose, LeftProject, left_projects, remove_left_projects};
pub use external::{External, namespace_of};
pub use install::{Installation, Places};
pub use kept::{Kept, KeptServer};
pub use leader::Leader;
pub use links::Links;
pub use local::{Local, LocalSpec};
pub use mortal::spawn_mortal;
pub use network::links_capability;
pub use processes::Processes;
pub use rootless::leave_for_own_network;
pub use state::{Done, Fact, Role, eventually, roles};

use transactions::{Asked, Told};

/// An ensemble of our own: it may be broken, and what its servers wrote down may be read.
#[async_trait]
pub trait Started: Processes + Links {
    /// What the servers' transaction logs tell of nodes.
    ///
    /// # Errors
    /// When the logs cannot be read.
    async fn tell(&self, asked: &Asked<'_>) -> io::Result<Told>;

    /// Whether that costs no more than reading files. Elsewhere it is asked only where more hangs on it.
    fn has_logs_at_hand(&self) -> bool;
}

#[async_trait]
impl Started for Local {
    async fn tell(&self, asked: &Asked<'_>) -> io::Result<Told> {
        transactions::tell(&self.data(), asked)
    }

    fn has_logs_at_hand(&self) -> bool {
        true
    }
}
