//! Where the proxy listens, and the one thread on which it does its work.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::relay;
use super::table::Table;
use crate::error::Error;

/// All contenders of a trial may connect at the same moment.
const BACKLOG: i32 = 4096;
/// How long to wait when a connection cannot be accepted, for want of descriptors for example.
const BREATH: Duration = Duration::from_millis(20);

/// The listeners and their thread; dropped, they and all connections are gone.
#[derive(Debug)]
pub struct Listening {
    /// `host:port` of each, in the order of the servers.
    pub addresses: Vec<String>,
    goes_on: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Listens before each of these servers.
    ///
    /// # Errors
    /// Usage when a server's address is none; environment when the system has no port or no thread left.
    pub fn start(servers: &[String], table: &Arc<Table>) -> Result<Self, Error> {
        servers.iter().try_for_each(|server| check(server))?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot("start"))?;
        let mut addresses = Vec::new();
        for server in servers {
            let (listener, address) = listen(&runtime).map_err(cannot("listen on 127.0.0.1"))?;
            runtime.spawn(accept(listener, Arc::from(server.as_str()), Arc::clone(table)));
            addresses.push(address.to_string());
        }
        let (goes_on, ends) = oneshot::channel::<()>();
        let work = move || {
            // The sender is never used: it is dropped.
            let _ = runtime.block_on(ends);
        };
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(work).map_err(cannot("start"))?;
        Ok(Self { addresses, goes_on: Some(goes_on), thread: Some(thread) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.goes_on.take());
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has closed everything as well.
            let _ = thread.join();
        }
    }
}

fn check(server: &str) -> Result<(), Error> {
    let port = server.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(1..) => Ok(()),
        _ => Err(Error::usage(format!("proxy: `{server}` is no server's address; write `host:port`"))),
    }
}

fn cannot(what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::environment(format!("the proxy before the servers cannot {what}: {error}"))
}

fn listen(runtime: &Runtime) -> std::io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let _within = runtime.enter();
    let listener = TcpListener::from_std(socket.into())?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn accept(listener: TcpListener, server: Arc<str>, table: Arc<Table>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(relay::serve(client, server.clone(), table.clone()))),
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}
