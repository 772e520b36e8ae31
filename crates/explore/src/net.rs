//! Network between contenders and servers. It hands complete frames to the scheduler, which decides when to deliver
//! each frame.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::wire;
use zklockbench_core::locked::locked;
use zklockbench_zk::SessionKey;

/// Maximum size of a frame.
const LONGEST: usize = 16 << 20;

pub type ConnId = u64;

#[derive(Debug)]
pub enum NetEvent {
    /// A contender's session is established on a new connection.
    Connected {
        conn: ConnId,
        contender: usize,
        session: Option<SessionKey>,
    },
    FromClient {
        conn: ConnId,
        frame: Vec<u8>,
    },
    FromServer {
        conn: ConnId,
        frame: Vec<u8>,
    },
    ClientGone {
        conn: ConnId,
    },
    ServerGone {
        conn: ConnId,
    },
}

/// One listener per contender, in front of a server.
#[derive(Debug)]
pub struct Net {
    /// `host:port` of each contender's listener.
    pub addresses: Vec<String>,
    pub events: UnboundedReceiver<NetEvent>,
    shared: Arc<Shared>,
    accepting: Vec<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    /// Server that each contender's next connection reaches.
    upstream: Vec<Mutex<String>>,
    events: UnboundedSender<NetEvent>,
    /// Whether each contender's connections are refused.
    refused: Vec<AtomicBool>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    all: HashMap<ConnId, Ends>,
}

/// Both ends of a connection. Dropping an end's sender closes the end once everything has been written.
#[derive(Debug)]
struct Ends {
    client: End,
    server: End,
}

#[derive(Debug)]
struct End {
    writes: UnboundedSender<Vec<u8>>,
    reads: AbortHandle,
}

impl Drop for End {
    fn drop(&mut self) {
        self.reads.abort();
    }
}

impl Net {
    /// Opens one listener per contender in front of `server`.
    ///
    /// # Errors
    /// If the loopback interface has no free port.
    pub async fn listen(server: &str, contenders: usize) -> io::Result<Self> {
        let (sender, events) = unbounded_channel();
        let refused = (0..contenders).map(|_| AtomicBool::new(false)).collect();
        let upstream = (0..contenders).map(|_| Mutex::new(server.to_owned())).collect();
        let shared = Arc::new(Shared { upstream, events: sender, refused, open: Mutex::default() });
        let (mut addresses, mut accepting) = (Vec::new(), Vec::new());
        for contender in 0..contenders {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?.to_string());
            accepting.push(tokio::spawn(accept(listener, contender, Arc::clone(&shared))).abort_handle());
        }
        Ok(Self { addresses, events, shared, accepting })
    }

    pub fn to_client(&self, conn: ConnId, frame: Vec<u8>) {
        self.write(conn, |ends| &ends.client, frame);
    }

    pub fn to_server(&self, conn: ConnId, frame: Vec<u8>) {
        self.write(conn, |ends| &ends.server, frame);
    }

    fn write(&self, conn: ConnId, end: impl Fn(&Ends) -> &End, frame: Vec<u8>) {
        if let Some(end) = locked(&self.shared.open).all.get(&conn).map(end) {
            // If the peer is gone, its reader reports the loss.
            let _ = end.writes.send(frame);
        }
    }

    /// Closes both ends. Bytes already written still arrive.
    pub fn cut(&self, conn: ConnId) {
        locked(&self.shared.open).all.remove(&conn);
    }

    /// Refuses or accepts a contender's new connections.
    pub fn refuse(&self, contender: usize, is_refused: bool) {
        self.shared.refused[contender].store(is_refused, Ordering::SeqCst);
    }

    /// Directs a contender's next connection to `server`.
    pub fn lead_to(&self, contender: usize, server: &str) {
        server.clone_into(&mut locked(&self.shared.upstream[contender]));
    }

    /// Returns the server that a contender's next connection reaches.
    pub fn upstream(&self, contender: usize) -> String {
        locked(&self.shared.upstream[contender]).clone()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.accepting.iter().for_each(AbortHandle::abort);
        locked(&self.shared.open).all.clear();
    }
}

async fn accept(listener: TcpListener, contender: usize, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if !shared.refused[contender].load(Ordering::SeqCst) {
            let shared = Arc::clone(&shared);
            // A failed handshake closes both ends, and the client retries.
            tokio::spawn(async move { drop(open(client, contender, &shared).await) });
        }
    }
}

/// Forwards the handshake and registers the connection.
async fn open(client: TcpStream, contender: usize, shared: &Arc<Shared>) -> io::Result<()> {
    let upstream = locked(&shared.upstream[contender]).clone();
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((mut from_client, to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    to_server.write_all(&read_frame(&mut from_client).await?).await?;
    let answer = read_frame(&mut from_server).await?;
    if shared.refused[contender].load(Ordering::SeqCst) {
        return Ok(());
    }
    let session =
        wire::opened_session(&answer).map(|(id, password)| SessionKey::of_another(id, Some(password)));
    let conn = register(shared, (from_client, to_client), (from_server, to_server), &answer);
    let _ = shared.events.send(NetEvent::Connected { conn, contender, session });
    Ok(())
}

type Halves = (OwnedReadHalf, OwnedWriteHalf);

/// Registers a connection. The reply to the handshake is the first frame to the client.
fn register(shared: &Arc<Shared>, client: Halves, server: Halves, answer: &[u8]) -> ConnId {
    let mut open = locked(&shared.open);
    open.count += 1;
    let conn = open.count;
    let client =
        end(client, shared, move |frame| NetEvent::FromClient { conn, frame }, NetEvent::ClientGone { conn });
    let server =
        end(server, shared, move |frame| NetEvent::FromServer { conn, frame }, NetEvent::ServerGone { conn });
    let _ = client.writes.send(answer.to_vec());
    open.all.insert(conn, Ends { client, server });
    conn
}

fn end(
    (mut from, mut to): Halves,
    shared: &Arc<Shared>,
    frame: impl Fn(Vec<u8>) -> NetEvent + Send + 'static,
    gone: NetEvent,
) -> End {
    let (writes, mut frames) = unbounded_channel::<Vec<u8>>();
    tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            if to.write_all(&frame).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    let events = shared.events.clone();
    let reads = tokio::spawn(async move {
        while let Ok(read) = read_frame(&mut from).await {
            let _ = events.send(frame(read));
        }
        let _ = events.send(gone);
    });
    End { writes, reads: reads.abort_handle() }
}

/// Reads a frame, including its length prefix.
async fn read_frame(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let size = usize::try_from(i32::from_be_bytes(length)).ok().filter(|size| *size <= LONGEST);
    let size = size.ok_or(io::ErrorKind::InvalidData)?;
    let mut frame = vec![0; 4 + size];
    frame[..4].copy_from_slice(&length);
    from.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}
