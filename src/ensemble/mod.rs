//! Real ZooKeeper ensembles: started here as child processes, kept between runs, or somebody else's.

mod config;
mod directory;
mod external;
mod install;
mod kept;
mod local;
mod placement;
mod ports;
mod process;
mod ready;
mod server;

pub use external::{External, namespace_of};
pub use install::{Installation, Places};
pub use kept::{Kept, KeptServer};
pub use local::{Local, LocalSpec};
pub use ready::{Role, roles};
