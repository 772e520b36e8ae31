//! What can be done to the processes of an ensemble that the suite has started, and what can be seen of them.

use async_trait::async_trait;
use rustix::process::Signal;

use super::fact::{Done, Fact};
use super::leader::{self, Leader};
use super::local::Local;
use super::{ending, pause, restart, state};

/// Servers that can be ended, started, held still and looked at. They are numbered from 1.
///
/// What is done says why it could not be done. What is seen is one look of three seconds at most; look again with
/// [`eventually`](super::eventually). `Ok` tells what was seen, `Err` why it is not so or could not be seen:
/// only an `Ok` proves anything.
#[async_trait]
pub trait Processes: Send + Sync {
    /// How many servers there are, be they up or down.
    fn servers(&self) -> usize;

    /// Kills a server, as a crash would, and waits for its end.
    async fn kill(&self, server: usize) -> Done;

    /// Asks a server to end and waits for it; kills it when it takes longer than 10 s.
    async fn stop(&self, server: usize) -> Done;

    /// Starts a server that is down: same ports, same data, its log goes on. Returns once it listens; it is part
    /// of the ensemble only when [`Processes::serves`] says so.
    async fn start(&self, server: usize) -> Done;

    /// Holds a server still: the system keeps its connections, and it answers nothing. Returns once it stands.
    async fn pause(&self, server: usize) -> Done;

    /// Lets a server that was held still go on.
    async fn resume(&self, server: usize) -> Done;

    /// Throws the data of a server away that is down. Started again, it fetches all from the leader. Who wipes a
    /// majority loses what was written.
    async fn wipe(&self, server: usize) -> Done;

    /// Whether a server's process is there, be it held still.
    async fn is_running(&self, server: usize) -> bool;

    /// A server's process is gone, and its client port refuses.
    async fn is_down(&self, server: usize) -> Fact;

    /// A server serves: as leader, follower, or alone.
    async fn serves(&self, server: usize) -> Fact;

    /// A server is held still: its port is open, and it did not answer within 300 ms.
    async fn is_silent(&self, server: usize) -> Fact;

    /// No server serves: each is down, held still, or says so itself.
    async fn nobody_serves(&self) -> Fact;

    /// Every server serves, one leads, and all others are in step with it.
    async fn whole(&self) -> Fact;

    /// Who leads, and since which election. For a moment two servers may both say that they lead: it is the one of
    /// the later epoch that counts, and only if a majority is in step with it.
    ///
    /// # Errors
    /// When nobody leads, or nobody who leads could be asked.
    async fn leader_and_epoch(&self) -> Result<Leader, String>;

    /// The number of the server that leads.
    ///
    /// # Errors
    /// As [`Processes::leader_and_epoch`].
    async fn leader(&self) -> Result<usize, String> {
        Ok(self.leader_and_epoch().await?.server)
    }

    /// The numbers of the servers that follow now.
    ///
    /// # Errors
    /// When none does.
    async fn followers(&self) -> Result<Vec<usize>, String>;

    /// The numbers of as many servers as it takes to stop the rest, drawn by the seed.
    fn majority(&self, seed: u64) -> Vec<usize> {
        leader::majority(self.servers(), seed)
    }
}

#[async_trait]
impl Processes for Local {
    fn servers(&self) -> usize {
        self.addresses().len()
    }

    async fn kill(&self, server: usize) -> Done {
        ending::end(self, server, Signal::KILL).await
    }

    async fn stop(&self, server: usize) -> Done {
        ending::end(self, server, Signal::TERM).await
    }

    async fn start(&self, server: usize) -> Done {
        restart::start(self, server).await
    }

    async fn pause(&self, server: usize) -> Done {
        pause::pause(self, server).await
    }

    async fn resume(&self, server: usize) -> Done {
        pause::resume(self, server).await
    }

    async fn wipe(&self, server: usize) -> Done {
        restart::wipe(self, server)
    }

    async fn is_running(&self, server: usize) -> bool {
        self.server(server).is_ok_and(|mut server| server.is_running())
    }

    async fn is_down(&self, server: usize) -> Fact {
        restart::is_down(self, server)
    }

    async fn serves(&self, server: usize) -> Fact {
        let address = self.server(server)?.address();
        state::serves(&(server, address)).await
    }

    async fn is_silent(&self, server: usize) -> Fact {
        pause::is_silent(self, server).await
    }

    async fn nobody_serves(&self) -> Fact {
        state::nobody_serves(&self.awake(), self.servers()).await
    }

    async fn whole(&self) -> Fact {
        state::whole(&self.addresses()).await
    }

    async fn leader_and_epoch(&self) -> Result<Leader, String> {
        leader::of(&self.awake(), self.servers()).await
    }

    async fn followers(&self) -> Result<Vec<usize>, String> {
        leader::followers(&self.awake()).await
    }
}
