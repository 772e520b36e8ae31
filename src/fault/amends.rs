//! Undoes what was begun by a fault that was cut short in the middle, of which nobody knows how far it had come.
//!
//! What is done to contenders and their connections is undone by itself when it is dropped. Servers have to be
//! started, woken and joined again.

use super::outage::{COMES_BACK, there_and_down};
use super::seen::do_each;
use super::site::Site;
use crate::catalog::fault::Capability;
use crate::ensemble::{Processes, eventually};

/// Undoes all that faults which need this may have done to servers, and waits until the ensemble is whole.
///
/// # Errors
/// What could not be undone; the rest has been tried all the same.
pub async fn make(needs: Capability, site: &Site<'_>) -> Result<(), String> {
    if !needs.reaches_servers() {
        return Ok(());
    }
    let processes = site.processes()?;
    let servers: Vec<usize> = (1..=processes.servers()).collect();
    let joined = if needs == Capability::Processes { Ok(()) } else { site.links()?.heal_all().await };
    // A server that was being ended when the fault was cut short may be there at one look and gone at the next.
    let whole = eventually(COMES_BACK, || wake_and_start(&servers, processes));
    joined.and(whole.await.map(drop))
}

/// Wakes the servers that are there, starts the others, and looks whether they are an ensemble again.
async fn wake_and_start(servers: &[usize], processes: &dyn Processes) -> Result<String, String> {
    let (there, down) = there_and_down(servers, processes).await;
    let woken = do_each(&there, |server| processes.resume(server)).await;
    do_each(&down, |server| processes.start(server)).await?;
    woken?;
    processes.whole().await
}
