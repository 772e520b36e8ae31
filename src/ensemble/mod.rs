//! Real ZooKeeper ensembles: started here as child processes, kept between runs, or somebody else's; and what
//! can be done to those that were started here, so that faults are real ones.

mod compose;
mod config;
mod directory;
mod ending;
mod external;
mod fact;
mod install;
mod ip;
mod kept;
mod leader;
mod links;
mod local;
mod namespace;
mod network;
mod pause;
mod placement;
mod ports;
mod process;
mod processes;
mod reach;
mod ready;
mod restart;
mod rootless;
mod server;
mod started;
mod state;
mod subnet;
pub mod transactions;

pub use compose::{Compose, LeftProject, left_projects, remove_left_projects};
pub use external::{External, namespace_of};
pub use fact::{Done, Fact, eventually};
pub use install::{Installation, Places};
pub use kept::{Kept, KeptServer};
pub use leader::Leader;
pub use links::Links;
pub use local::{Local, LocalSpec};
pub use network::links_capability;
pub use processes::Processes;
pub use ready::{Role, roles};
pub use rootless::leave_for_own_network;
pub use started::Started;
