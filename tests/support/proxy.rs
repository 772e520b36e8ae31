//! A proxy between a session and a server. A test can mute it, cut it, or make it lose a request.
//!
//! The proxy forwards complete packets and recognises each request. It counts only a lock's requests, not connects,
//! pings, restored watches, or closes of sessions.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Maximum number of polls for replies to earlier requests, before the proxy loses a request. Enough for a minute.
const LOOKS_FOR_REPLIES: u32 = 12_000;
const LOOK_EVERY: Duration = Duration::from_millis(5);
const SYNC: i32 = 9;

/// Forwards packets in both directions until a test interferes.
pub struct Proxy {
    /// Address to connect to.
    pub connect: String,
    state: Arc<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server answers the request, but the connection breaks before the client gets the reply.
    ReplyLost,
    /// The connection breaks before the server gets the request.
    RequestLost,
    /// Like [`Fate::ReplyLost`], but new connections are refused until [`Proxy::mend`].
    CutOff,
    /// The reply is held back until [`Proxy::let_go`].
    ReplyHeld,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    xid: i32,
    /// Opcode.
    pub kind: i32,
    /// Path, the first field of most requests. Meaningless for a multi.
    pub path: String,
    /// Whether a read sets a watch. Meaningless for other requests.
    pub watches: bool,
    /// Planned fate, if any.
    pub fate: Option<Fate>,
}

impl Request {
    pub fn is_multi(&self) -> bool {
        self.kind == 14
    }

    /// Returns whether this is a create, or a multi, which may contain a create.
    pub fn may_create(&self) -> bool {
        self.is_multi() || matches!(self.kind, 1 | 15)
    }
}

/// A planned fate, and the requests to which it applies.
struct Doom {
    fate: Fate,
    is: Box<dyn Fn(&Request) -> bool + Send>,
    /// Number of matching requests to forward first.
    before: usize,
}

#[derive(Default)]
struct Journal {
    sent: Vec<Request>,
    unanswered: Vec<i32>,
    /// Number of the latest connection. Only its requests can still be answered.
    connection: usize,
    /// Pending fates, in order.
    dooms: VecDeque<Doom>,
    /// Request with a fate that applies when the reply arrives.
    doomed: Option<(i32, Fate)>,
    /// Whether a request has met its fate.
    struck: bool,
}

/// Number of the connection with an accepted session; 0 if there is none.
type Live = AtomicUsize;

/// Changes a packet of the connection with this number: a request (`false`) or a reply (`true`).
type Tamper = Box<dyn Fn(&mut [u8], usize, bool) + Send + Sync>;

#[derive(Default)]
struct State {
    tamper: Option<Tamper>,
    muted: AtomicBool,
    /// Whether the current connection must not forward replies because the proxy has ended the session.
    ended: AtomicBool,
    cut: AtomicBool,
    held: AtomicBool,
    over: AtomicBool,
    server: Mutex<String>,
    live: Live,
    to_server: AtomicU64,
    to_client: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
    servers: Mutex<Vec<TcpStream>>,
    journal: Mutex<Journal>,
}

impl Proxy {
    pub fn before(servers: &str) -> Self {
        Self::with(servers, None)
    }

    /// A proxy that passes every packet through `tamper`, with the number of its connection and whether it is a reply.
    pub fn tampering(servers: &str, tamper: impl Fn(&mut [u8], usize, bool) + Send + Sync + 'static) -> Self {
        Self::with(servers, Some(Box::new(tamper)))
    }

    fn with(servers: &str, tamper: Option<Tamper>) -> Self {
        let server = servers.split([',', '/']).next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State { server: Mutex::new(server), tamper, ..State::default() });
        let of_listener = Arc::clone(&state);
        thread::spawn(move || listen(&listener, &of_listener));
        Self { connect, state }
    }

    /// Drops all further replies and events.
    pub fn mute(&self) {
        self.state.muted.store(true, Ordering::SeqCst);
    }

    /// Holds back replies and events until [`Proxy::let_go`].
    pub fn hold_back(&self) {
        self.state.held.store(true, Ordering::SeqCst);
    }

    /// Breaks the connection, and refuses new connections.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        self.state.break_off();
    }

    /// Breaks the connection, and forwards later connections to this server.
    pub fn move_to(&self, server: &str) {
        server.clone_into(&mut self.state.server.lock().unwrap());
        self.state.break_off();
    }

    pub fn is_cut(&self) -> bool {
        self.state.cut.load(Ordering::SeqCst)
    }

    /// Returns whether the client has a connection with an accepted session.
    pub fn is_connected(&self) -> bool {
        self.state.live.load(Ordering::SeqCst) != 0
    }

    /// Numbers of bytes received from the client and from the server.
    pub fn passed(&self) -> (u64, u64) {
        let State { to_server, to_client, .. } = &*self.state;
        (to_server.load(Ordering::SeqCst), to_client.load(Ordering::SeqCst))
    }

    pub fn mend(&self) {
        self.state.muted.store(false, Ordering::SeqCst);
        self.state.cut.store(false, Ordering::SeqCst);
    }

    /// Plans a fate for the `n`-th request of a kind, counted from 1. The count starts now or after the previously
    /// planned fate.
    pub fn strike(&self, fate: Fate, kind: i32, n: usize) {
        self.strike_where(fate, n, move |request| request.kind == kind);
    }

    /// Like [`Proxy::strike`], for the `n`-th matching request.
    pub fn strike_where(&self, fate: Fate, n: usize, is: impl Fn(&Request) -> bool + Send + 'static) {
        self.state.journal().dooms.push_back(Doom { fate, is: Box::new(is), before: n - 1 });
    }

    pub fn has_struck(&self) -> bool {
        self.state.journal().struck
    }

    /// Returns whether no fate is pending.
    pub fn is_done_striking(&self) -> bool {
        let journal = self.state.journal();
        journal.dooms.is_empty() && journal.doomed.is_none()
    }

    /// Returns whether every request was answered or lost with its connection.
    pub fn is_answered(&self) -> bool {
        !self.is_connected() || self.state.journal().unanswered.is_empty()
    }

    /// Forwards replies and events that were held back.
    pub fn let_go(&self) {
        self.state.held.store(false, Ordering::SeqCst);
    }

    /// All requests, in the order of sending.
    pub fn requests(&self) -> Vec<Request> {
        self.state.journal().sent.clone()
    }

    /// Closes the client's session on the server. The client is notified when it reconnects.
    pub fn end_session(&self) {
        /// Length, xid and opcode of a closeSession.
        const CLOSE: [u8; 12] = [0, 0, 0, 8, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf5];
        self.state.ended.store(true, Ordering::SeqCst);
        self.state.live.store(0, Ordering::SeqCst);
        for mut server in self.state.servers.lock().unwrap().drain(..) {
            server.write_all(&CLOSE).unwrap();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the listener, which then exits.
        let _ = TcpStream::connect(&self.connect);
    }
}

fn listen(listener: &TcpListener, state: &Arc<State>) {
    for (number, client) in (1..).zip(listener.incoming()) {
        let client = client.unwrap();
        if state.over.load(Ordering::SeqCst) {
            return;
        }
        if state.cut.load(Ordering::SeqCst) {
            continue;
        }
        let server = state.server.lock().unwrap().clone();
        let server = TcpStream::connect(server).unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
        state.streams.lock().unwrap().extend(both);
        *state.servers.lock().unwrap() = vec![server.try_clone().unwrap()];
        // A client that reconnects after its session has ended must get the server's reply.
        state.ended.store(false, Ordering::SeqCst);
        state.journal().begin(number);
        let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (replies, requests) = (Arc::clone(state), Arc::clone(state));
        thread::spawn(move || {
            let passes = |packet: &mut [u8], first| {
                replies.tamper(packet, number, true);
                let passes = replies.replied(packet, first);
                if first && passes {
                    replies.live.store(number, Ordering::SeqCst);
                }
                passes
            };
            pass(server, to_client, passes);
            let _ = replies.live.compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst);
        });
        thread::spawn(move || {
            pass(client, to_server, |packet, first| {
                requests.tamper(packet, number, false);
                requests.requested(packet, first, number)
            });
        });
    }
}

impl State {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap()
    }

    fn tamper(&self, packet: &mut [u8], connection: usize, is_reply: bool) {
        self.tamper.iter().for_each(|tamper| tamper(packet, connection, is_reply));
    }

    fn break_off(&self) {
        self.live.store(0, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn replied(&self, packet: &[u8], is_first: bool) -> bool {
        self.to_client.fetch_add(packet.len() as u64, Ordering::SeqCst);
        let is_silent = || self.muted.load(Ordering::SeqCst) || self.ended.load(Ordering::SeqCst);
        if is_first {
            return !is_silent();
        }
        let xid = number_at(packet, 4);
        let fate = {
            let mut journal = self.journal();
            journal.unanswered.retain(|unanswered| *unanswered != xid);
            journal.doomed.take_if(|(doomed, _)| *doomed == xid).map(|(_, fate)| fate)
        };
        match fate {
            Some(Fate::ReplyHeld) => {
                self.held.store(true, Ordering::SeqCst);
                self.journal().struck = true;
            }
            Some(fate) => {
                self.journal().struck = true;
                self.cut.fetch_or(fate == Fate::CutOff, Ordering::SeqCst);
                self.break_off();
                return false;
            }
            None => {}
        }
        while self.held.load(Ordering::SeqCst) && !self.over.load(Ordering::SeqCst) {
            thread::sleep(LOOK_EVERY);
        }
        !is_silent()
    }

    fn requested(&self, packet: &[u8], is_first: bool, connection: usize) -> bool {
        self.to_server.fetch_add(packet.len() as u64, Ordering::SeqCst);
        let (xid, kind) = (number_at(packet, 4), number_at(packet, 8));
        if is_first || xid < 0 || kind < 0 {
            return true;
        }
        let (path, watches) = (text_at(packet, 12), packet.last() == Some(&1));
        // Tests send this sync to wait for the replies to earlier requests.
        if kind == SYNC && path == "/" {
            return true;
        }
        let mut journal = self.journal();
        let mut request = Request { xid, kind, path, watches, fate: None };
        // Requests of a broken connection may still be read after the client has reconnected.
        if journal.connection != connection {
            journal.sent.push(request);
            return true;
        }
        let fate = journal.fate_of(&request);
        request.fate = fate;
        journal.sent.push(request);
        if fate != Some(Fate::RequestLost) {
            journal.doomed = fate.map(|fate| (xid, fate)).or(journal.doomed);
            journal.unanswered.push(xid);
            return true;
        }
        drop(journal);
        // Waits until the server has answered earlier requests.
        for _ in 0..LOOKS_FOR_REPLIES {
            if self.journal().unanswered.is_empty() {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        self.journal().struck = true;
        self.break_off();
        false
    }
}

impl Journal {
    fn begin(&mut self, connection: usize) {
        self.connection = connection;
        self.unanswered.clear();
    }

    /// Returns the fate of a request that has just arrived, or `None` for a request to forward normally.
    fn fate_of(&mut self, request: &Request) -> Option<Fate> {
        let doom = self.dooms.front_mut().filter(|doom| (doom.is)(request))?;
        if doom.before > 0 {
            doom.before -= 1;
            return None;
        }
        self.dooms.pop_front().map(|doom| doom.fate)
    }
}

/// Number at an offset in a packet; -1, which is not an opcode, if the packet is too short.
fn number_at(packet: &[u8], at: usize) -> i32 {
    packet.get(at..at + 4).map_or(-1, |bytes| i32::from_be_bytes(bytes.try_into().unwrap()))
}

/// Text at an offset in a packet; empty if the packet is too short.
fn text_at(packet: &[u8], at: usize) -> String {
    let length = usize::try_from(number_at(packet, at)).unwrap_or(0);
    let bytes = packet.get(at + 4..at + 4 + length).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&mut [u8], bool) -> bool) {
    let mut is_first = true;
    while let Some(mut packet) = next_packet(&mut from) {
        if passes(&mut packet, is_first) && to.write_all(&packet).is_err() {
            break;
        }
        is_first = false;
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Next complete packet, including its length.
pub fn next_packet(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut packet = vec![0; 4];
    from.read_exact(&mut packet).ok()?;
    let length = usize::try_from(number_at(&packet, 0)).ok()?;
    packet.resize(4 + length, 0);
    from.read_exact(&mut packet[4..]).ok()?;
    Some(packet)
}
