//! Starting a server again, with or without what it knew.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::ending;
use super::fact::{Done, Fact, eventually};
use super::local::{Local, TAKEN, tail};
use super::namespace::inside;
use super::ports;

/// How long a server may take until it listens. Alone on two cores it takes half a second.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);
/// How long ports that are still taken are waited for.
const FREE_WITHIN: Duration = Duration::from_secs(10);
/// What opening a port of this machine may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Starts a server that is down, and waits until it listens for clients.
///
/// # Errors
/// When it runs already, its ports stay taken, or it ends again; shows the end of its log then.
pub async fn start(local: &Local, number: usize) -> Done {
    let deadline = Instant::now() + FREE_WITHIN;
    loop {
        eventually(deadline - Instant::now(), || async { is_free(local, number) }).await?;
        let after = launch(local, number)?;
        let Err(why) = listens(local, number).await else { return Ok(()) };
        // What does not listen in time is of no use, and would be in the way of the next attempt.
        let _ = ending::end(local, number, Signal::KILL).await;
        let tail = tail(&local.server(number)?.log, after);
        // The port was taken between the look and the bind.
        if !tail.contains(TAKEN) || Instant::now() >= deadline {
            return Err(format!("server {number} did not start again: {why}\n{tail}"));
        }
    }
}

/// Throws a server's data away; its `myid` stays.
///
/// # Errors
/// When the server runs, or a file cannot be removed.
pub fn wipe(local: &Local, number: usize) -> Done {
    let mut server = local.server(number)?;
    if server.is_running() {
        return Err(format!("cannot wipe server {number} while it runs"));
    }
    let data = server.data();
    let wipe = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(&data)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                std::fs::remove_dir_all(entry.path())?;
            } else if entry.file_name() != "myid" {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    wipe().map_err(|error| format!("cannot wipe server {number} in {}: {error}", data.display()))
}

fn is_free(local: &Local, number: usize) -> Done {
    let mut server = local.server(number)?;
    // Its own process is no reason to wait; the launch says so.
    if server.is_running() {
        return Ok(());
    }
    let is_free = inside(server.namespace.as_deref(), || ports::is_free(server.ports));
    match is_free {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("a port of server {number} is taken: {:?}", server.ports)),
        Err(error) => Err(format!("the ports of server {number} cannot be looked at: {error}")),
    }
}

/// Returns how long the log was before.
fn launch(local: &Local, number: usize) -> Result<u64, String> {
    let mut server = local.server(number)?;
    let length = std::fs::metadata(&server.log).map_or(0, |log| log.len());
    server.launch().map_err(|error| format!("cannot start server {number}: {error}"))?;
    Ok(length)
}

async fn listens(local: &Local, number: usize) -> Done {
    let seen = eventually(LISTENS_WITHIN, || async {
        let mut server = local.server(number)?;
        if !server.is_running() {
            // Nothing more is to come.
            return Ok(Err(server.has_ended().unwrap_or_else(|| "it was ended meanwhile".into())));
        }
        accepts(&server)?;
        server.is_up();
        Ok(Ok(()))
    });
    seen.await?
}

/// Its process is gone, and its port refuses.
pub fn is_down(local: &Local, number: usize) -> Fact {
    let mut server = local.server(number)?;
    if server.is_running() {
        return Err(format!("the process of server {number} is there"));
    }
    match accepts(&server) {
        Ok(()) => Err(format!("somebody listens on {} though server {number} is gone", server.address())),
        Err(why) => Ok(format!("the process of server {number} is gone ({why})")),
    }
}

/// Whether a server listens for clients, asked from where it lives: a cut is no matter here.
///
/// # Errors
/// Why not: when it refuses, that it does.
fn accepts(server: &super::server::Server) -> Done {
    let address = SocketAddr::from((server.ports.host, server.ports.client));
    let connect = || TcpStream::connect_timeout(&address, PATIENCE).map(drop);
    inside(server.namespace.as_deref(), connect)
        .and_then(|connected| connected)
        .map_err(|error| format!("{address}: {error}"))
}
