//! The servers' transaction logs, copied out of their containers.

use std::io;
use std::time::SystemTime;

use async_trait::async_trait;

use super::command::docker;
use super::running::Compose;
use crate::ensemble::Started;
use crate::ensemble::transactions::{self, Lives};

#[async_trait]
impl Started for Compose {
    async fn lives(&self, below: &str, since: SystemTime) -> io::Result<Lives> {
        // Elsewhere the containers live in a virtual machine, whose clock is not that of the contenders.
        if !cfg!(target_os = "linux") {
            return Err(io::Error::other("the servers' clock is not this machine's"));
        }
        let copies = tempfile::tempdir()?;
        let mut directories = Vec::new();
        for member in &self.members {
            let directory = copies.path().join(format!("server-{}", member.number));
            std::fs::create_dir(&directory)?;
            let from = format!("{}:{}/version-2", member.id(), member.log_dir());
            match docker(&["cp", &from, &directory.to_string_lossy()]).await {
                Ok(_) => directories.push(directory),
                // Wiped, and not started since; or in memory, where Docker copies nothing from.
                Err(why) if why.contains("Could not find the file") || why.contains("No such") => {}
                Err(why) => return Err(io::Error::other(why)),
            }
        }
        transactions::lives(&directories, below, since)
    }
}
