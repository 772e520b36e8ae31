//! An ensemble of Docker Compose containers, brought up for one run and removed with it. Docker itself breaks
//! the servers: kill, stop, pause, and taking a container off its network.

mod docker;
mod member;
mod processes;
mod project;
mod running;

pub use project::{LeftProject, left_projects, remove_left_projects};
pub use running::Compose;
