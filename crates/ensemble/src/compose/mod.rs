//! An ensemble of Docker Compose containers, created for a single run and removed afterwards. Faults use Docker's
//! own commands: kill, stop, pause, and disconnecting a container from its network.

mod docker;
mod member;
mod mounts;
mod processes;
mod project;
mod running;

pub use project::{LeftProject, left_projects, remove_left_projects};
pub use running::Compose;
