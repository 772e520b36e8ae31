//! The proxy's listeners and thread, and the handling of client connections.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};

use super::conversation::Conversation;
use super::pump::{Pump, has_hung_up};
use super::setting::{ConnectionEnd, Orders};
use super::table::{ProxyTable, Registration};
use super::traffic::Direction;
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;

/// Backlog of shared listeners: all contenders of a trial may connect at the same moment.
const BACKLOG: i32 = 4096;
/// Backlog of a client's own listener: a client has one connection and perhaps an abandoned one.
const BACKLOG_OF_ONE: i32 = 16;
/// Pause after a failure to accept a connection, e.g. for lack of file descriptors.
const BREATH: Duration = Duration::from_millis(20);
/// Interval between checks whether the client of a connection that waits for its server has hung up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Listeners and their thread. Dropping this value closes all listeners and connections.
#[derive(Debug)]
pub struct Listening {
    /// Addresses of the shared listeners (`host:port`), in server order.
    pub addresses: Vec<String>,
    servers: Vec<Arc<str>>,
    own: Mutex<BTreeMap<usize, Vec<String>>>,
    runtime: Handle,
    goes_on: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    pub fn start(servers: &[String], table: &Arc<ProxyTable>) -> Result<Self, Error> {
        servers.iter().try_for_each(|server| check(server))?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot("start"))?;
        let handle = runtime.handle().clone();
        let servers: Vec<Arc<str>> = servers.iter().map(|server| Arc::from(server.as_str())).collect();
        let addresses = listen_before(&servers, None, &handle, table)?;
        let (goes_on, ends) = oneshot::channel::<()>();
        let work = move || {
            // Ends when the sender is dropped, because nothing is ever sent.
            let _ = runtime.block_on(ends);
        };
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(work).map_err(cannot("start"))?;
        let own = Mutex::default();
        Ok(Self { addresses, servers, own, runtime: handle, goes_on: Some(goes_on), thread: Some(thread) })
    }

    /// Returns one client's addresses (`host:port`), in server order. The first call opens the listeners.
    pub fn addresses_for(&self, client: usize, table: &Arc<ProxyTable>) -> Result<Vec<String>, Error> {
        let mut own = locked(&self.own);
        if let Some(addresses) = own.get(&client) {
            return Ok(addresses.clone());
        }
        let addresses = listen_before(&self.servers, Some(client), &self.runtime, table)?;
        own.insert(client, addresses.clone());
        Ok(addresses)
    }

    pub fn all_addresses(&self) -> Vec<String> {
        let own = locked(&self.own);
        self.addresses.iter().chain(own.values().flatten()).cloned().collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.goes_on.take());
        if let Some(thread) = self.thread.take() {
            // Even if the thread panicked, everything is closed.
            let _ = thread.join();
        }
    }
}

fn check(server: &str) -> Result<(), Error> {
    let port = server.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(1..) => Ok(()),
        _ => Err(Error::usage(format!("proxy: `{server}` is not a server address; expected `host:port`"))),
    }
}

fn cannot(what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::environment(format!("the proxy in front of the servers cannot {what}: {error}"))
}

/// Listens in front of each server, for one client or for all. Returns the addresses.
fn listen_before(
    servers: &[Arc<str>],
    client: Option<usize>,
    runtime: &Handle,
    table: &Arc<ProxyTable>,
) -> Result<Vec<String>, Error> {
    let listen = |server: &Arc<str>| {
        let (listener, address) =
            listen(client, runtime).map_err(cannot("listen on the loopback interface"))?;
        runtime.spawn(accept(listener, Arc::clone(server), client, Arc::clone(table)));
        Ok(address.to_string())
    };
    servers.iter().map(listen).collect()
}

/// Returns the address of a client's listeners. On Linux, every 127.0.0.0/8 address is local and has its own
/// port range, so thousands of listeners leave enough ports for connections.
fn host_for(client: Option<usize>) -> Ipv4Addr {
    let place = client.filter(|_| cfg!(target_os = "linux")).map_or(0, |client| client % (1 << 16));
    Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + u32::try_from(place).unwrap_or(0))
}

fn listen(client: Option<usize>, runtime: &Handle) -> std::io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((host_for(client), 0)).into())?;
    socket.listen(if client.is_some() { BACKLOG_OF_ONE } else { BACKLOG })?;
    socket.set_nonblocking(true)?;
    let _within = runtime.enter();
    let listener = TcpListener::from_std(socket.into())?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn accept(listener: TcpListener, server: Arc<str>, of: Option<usize>, table: Arc<ProxyTable>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(serve(client, server.clone(), table.join(of)))),
            Err(_) => sleep(BREATH).await,
        }
    }
}

async fn serve(client: TcpStream, server: Arc<str>, registration: Registration) {
    if between(&client, &server, &registration).await == Err(ConnectionEnd::Reset) {
        reset_at_close(&client);
    }
    // Close the socket before leaving the table: a connection that is not in the table must be closed.
    drop(client);
    drop(registration);
}

async fn between(client: &TcpStream, server: &str, registration: &Registration) -> Result<(), ConnectionEnd> {
    let mut orders = registration.orders();
    while_stalled(client, registration.joined_stalled, &mut orders).await?;
    let server = connect(client, server, &mut orders).await?;
    // Requests are small and must not wait for the previous request's acknowledgement.
    for socket in [client, &server] {
        let _ = socket.set_nodelay(true);
    }
    let conversation = Conversation::new(registration);
    let sockets = [client, &server];
    let pump =
        |direction| Pump::new(direction, sockets, &conversation, registration.orders(), registration.number);
    let ended = tokio::try_join!(pump(Direction::ToServer).run(), pump(Direction::ToClient).run());
    if ended == Err(ConnectionEnd::Reset) {
        reset_at_close(&server);
    }
    ended.map(|_| ())
}

/// Waits while the connection is stalled. Fails if the client has hung up by then.
async fn while_stalled(
    client: &TcpStream,
    joined_stalled: bool,
    orders: &mut watch::Receiver<Orders>,
) -> Result<(), ConnectionEnd> {
    let mut now = orders.borrow_and_update().clone();
    let was_stalled = joined_stalled || now.settings.stalled;
    while now.ending().is_none() && now.settings.stalled {
        if orders.changed().await.is_err() {
            return Err(ConnectionEnd::Cut);
        }
        now = orders.borrow_and_update().clone();
    }
    if let Some(ending) = now.ending() {
        return Err(ending);
    }
    if !was_stalled {
        return Ok(());
    }
    // Let the runtime poll the sockets first, so that a client's hang-up is detected.
    tokio::task::yield_now().await;
    if has_hung_up(client) { Err(ConnectionEnd::Cut) } else { Ok(()) }
}

/// Connects to the server. If the server is down, resets the client's connection. Gives up if the client hangs up
/// first: the abandoned connect request would take the session away from a newer connection.
async fn connect(
    client: &TcpStream,
    server: &str,
    orders: &mut watch::Receiver<Orders>,
) -> Result<TcpStream, ConnectionEnd> {
    let told = async {
        let told = orders.wait_for(|orders| orders.ending().is_some()).await;
        told.ok().and_then(|orders| orders.ending()).unwrap_or(ConnectionEnd::Cut)
    };
    let abandoned = async {
        loop {
            sleep(LOOK_EVERY).await;
            if has_hung_up(client) {
                break;
            }
        }
    };
    let begun = Instant::now();
    let connected = tokio::select! {
        ending = told => Err(ending),
        () = abandoned => Err(ConnectionEnd::Cut),
        connected = TcpStream::connect(server) => connected.map_err(|_| ConnectionEnd::Reset),
    };
    // A client may close its sending side right after a four-letter command, so a fast connection is not checked.
    let is_late = connected.is_ok() && begun.elapsed() >= LOOK_EVERY;
    if is_late && has_hung_up(client) { Err(ConnectionEnd::Cut) } else { connected }
}

fn reset_at_close(socket: &TcpStream) {
    // Ignore errors: a socket that is already gone cannot be reset.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn abandoned_connection_does_not_wait_for_its_server() {
        // Given a server whose queue of new connections is full
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        full.listen(1).unwrap();
        let server = full.local_addr().unwrap().as_socket().unwrap();
        let _queued = [TcpStream::connect(server).await.unwrap(), TcpStream::connect(server).await.unwrap()];
        // And a client that has hung up
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let hung_up = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (client, _) = listener.accept().await.unwrap();
        drop(hung_up);
        let (_sender, mut orders) = watch::channel(Orders::default());
        let address = server.to_string();
        let connecting = connect(&client, &address, &mut orders);
        let connected = tokio::time::timeout(Duration::from_secs(5), connecting).await.unwrap();
        assert_eq!(connected.err(), Some(ConnectionEnd::Cut));
    }
}
