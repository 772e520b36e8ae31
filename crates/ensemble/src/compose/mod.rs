//! An ensemble of containers, by Docker Compose: brought up for one run and taken down with it. What is done to its
//! servers is done by Docker itself: kill, stop, pause, and taking a container off its network.

mod docker;
mod member;
mod processes;
mod project;
mod running;

pub use project::{LeftProject, left_projects, remove_left_projects};
pub use running::Compose;
