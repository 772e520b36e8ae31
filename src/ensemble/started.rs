//! An ensemble that was started for a run, whatever it is made of.

use std::io;
use std::time::SystemTime;

use async_trait::async_trait;

use super::links::Links;
use super::local::Local;
use super::processes::Processes;
use super::transactions::{self, Lives};

/// An ensemble of our own: it may be broken, and what its servers wrote down may be read.
#[async_trait]
pub trait Started: Processes + Links {
    /// The lives of all nodes below a path that did not exist before that time, as the servers' transaction logs tell
    /// them.
    ///
    /// # Errors
    /// When the logs cannot be read.
    async fn lives(&self, below: &str, since: SystemTime) -> io::Result<Lives>;
}

#[async_trait]
impl Started for Local {
    async fn lives(&self, below: &str, since: SystemTime) -> io::Result<Lives> {
        transactions::lives(&self.data(), below, since)
    }
}
