//! A proxy between a session and a server that a test can mute and cut, and on which one request can be lost.
//!
//! The proxy passes on whole packets, so it recognises each request. Only requests of a lock count, not the connect
//! request, pings, restored watches, or the session's end.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Number of checks for earlier replies before a request is lost.
const LOOKS_FOR_REPLIES: u32 = 200;
const LOOK_EVERY: Duration = Duration::from_millis(5);
const SYNC: i32 = 9;

/// Passes packets on in both directions until a test changes that.
pub struct Proxy {
    /// Address to connect to.
    pub connect: String,
    state: Arc<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server answers the request; then the connection breaks, and the reply is lost.
    ReplyLost,
    /// The request never reaches the server; the connection breaks instead.
    RequestLost,
    /// As [`Fate::ReplyLost`], and new connections are refused until [`Proxy::mend`].
    CutOff,
    /// The server answers the request; the reply waits until [`Proxy::let_go`].
    ReplyHeld,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    xid: i32,
    /// Opcode of the protocol.
    pub kind: i32,
    /// First field of most requests; meaningless for a multi.
    pub path: String,
    /// Last field of reads: whether they set a watch.
    pub watches: bool,
    /// Planned fate of the request.
    pub fate: Option<Fate>,
}

impl Request {
    pub fn is_multi(&self) -> bool {
        self.kind == 14
    }

    /// Returns whether it creates a node or, as a multi, may.
    pub fn may_create(&self) -> bool {
        self.is_multi() || matches!(self.kind, 1 | 15)
    }
}

/// A planned fate, and the request that it hits.
struct Doom {
    fate: Fate,
    is: Box<dyn Fn(&Request) -> bool + Send>,
    /// Number of matching requests that pass first.
    before: usize,
}

#[derive(Default)]
struct Journal {
    sent: Vec<Request>,
    unanswered: Vec<i32>,
    /// Pending fates, the next one first.
    dooms: VecDeque<Doom>,
    /// Request whose reply seals its fate.
    doomed: Option<(i32, Fate)>,
    /// Whether a request has met its fate.
    struck: bool,
}

/// Number of the connection on which the server has accepted a session; 0 if there is none.
type Live = AtomicUsize;

#[derive(Default)]
struct State {
    muted: AtomicBool,
    /// Whether the session's end must stay unanswered on the current connection.
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
        let server = servers.split([',', '/']).next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State { server: Mutex::new(server), ..State::default() });
        let of_listener = Arc::clone(&state);
        thread::spawn(move || listen(&listener, &of_listener));
        Self { connect, state }
    }

    /// Swallows replies and events from now on.
    pub fn mute(&self) {
        self.state.muted.store(true, Ordering::SeqCst);
    }

    /// Holds replies and events back from now on, until they are let go.
    pub fn hold_back(&self) {
        self.state.held.store(true, Ordering::SeqCst);
    }

    /// Breaks the connection and refuses new ones.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        self.state.break_off();
    }

    /// Breaks the connection; later connections go to this server.
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

    /// Bytes received from the client and from the server.
    pub fn passed(&self) -> (u64, u64) {
        let State { to_server, to_client, .. } = &*self.state;
        (to_server.load(Ordering::SeqCst), to_client.load(Ordering::SeqCst))
    }

    pub fn mend(&self) {
        self.state.muted.store(false, Ordering::SeqCst);
        self.state.cut.store(false, Ordering::SeqCst);
    }

    /// Applies a fate to the n-th request of a kind, from 1, counted from now or from the last request with a
    /// planned fate. After a broken connection, the client may reconnect at once.
    pub fn strike(&self, fate: Fate, kind: i32, n: usize) {
        self.strike_where(fate, n, move |request| request.kind == kind);
    }

    /// Applies a fate to the n-th matching request.
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

    /// Returns whether every request has its reply, or lost it with the connection.
    pub fn is_answered(&self) -> bool {
        !self.is_connected() || self.state.journal().unanswered.is_empty()
    }

    /// Passes on what was held back.
    pub fn let_go(&self) {
        self.state.held.store(false, Ordering::SeqCst);
    }

    /// Requests so far, in the order of sending.
    pub fn requests(&self) -> Vec<Request> {
        self.state.journal().sent.clone()
    }

    /// Ends the client's session on the server, as an administrator can. The client is notified when it reconnects.
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
        // Wakes the listener, which then ends.
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
        // A client that reconnects after the end of its session must be notified.
        state.ended.store(false, Ordering::SeqCst);
        state.journal().unanswered.clear();
        let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (replies, requests) = (Arc::clone(state), Arc::clone(state));
        thread::spawn(move || {
            let passes = |packet: &[u8], first| {
                let passes = replies.replied(packet, first);
                if first && passes {
                    replies.live.store(number, Ordering::SeqCst);
                }
                passes
            };
            pass(server, to_client, passes);
            let _ = replies.live.compare_exchange(number, 0, Ordering::SeqCst, Ordering::SeqCst);
        });
        thread::spawn(move || pass(client, to_server, |packet, first| requests.requested(packet, first)));
    }
}

impl State {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap()
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

    fn requested(&self, packet: &[u8], is_first: bool) -> bool {
        self.to_server.fetch_add(packet.len() as u64, Ordering::SeqCst);
        let (xid, kind) = (number_at(packet, 4), number_at(packet, 8));
        if is_first || xid < 0 || kind < 0 {
            return true;
        }
        let (path, watches) = (text_at(packet, 12), packet.last() == Some(&1));
        // Sent by tests to wait until everything has been answered.
        if kind == SYNC && path == "/" {
            return true;
        }
        let mut journal = self.journal();
        let mut request = Request { xid, kind, path, watches, fate: None };
        let fate = journal.fate_of(&request);
        request.fate = fate;
        journal.sent.push(request);
        if fate != Some(Fate::RequestLost) {
            journal.doomed = fate.map(|fate| (xid, fate)).or(journal.doomed);
            journal.unanswered.push(xid);
            return true;
        }
        drop(journal);
        // Earlier requests arrive, and are answered.
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
    /// Fate of a request that has just arrived.
    fn fate_of(&mut self, request: &Request) -> Option<Fate> {
        let doom = self.dooms.front_mut().filter(|doom| (doom.is)(request))?;
        if doom.before > 0 {
            doom.before -= 1;
            return None;
        }
        self.dooms.pop_front().map(|doom| doom.fate)
    }
}

/// Number at an offset of a packet; -1, which is no opcode, if the packet is shorter.
fn number_at(packet: &[u8], at: usize) -> i32 {
    packet.get(at..at + 4).map_or(-1, |bytes| i32::from_be_bytes(bytes.try_into().unwrap()))
}

/// Text at an offset of a packet; empty if there is none.
fn text_at(packet: &[u8], at: usize) -> String {
    let length = usize::try_from(number_at(packet, at)).unwrap_or(0);
    let bytes = packet.get(at + 4..at + 4 + length).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(&[u8], bool) -> bool) {
    let mut is_first = true;
    while let Some(packet) = next_packet(&mut from) {
        if passes(&packet, is_first) && to.write_all(&packet).is_err() {
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
