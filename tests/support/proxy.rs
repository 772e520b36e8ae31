//! A wire between a session and a server that a test can mute and cut, and that counts what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes bytes on in both directions until it is told otherwise.
pub struct Proxy {
    /// Where to connect to.
    pub connect: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    muted: AtomicBool,
    cut: AtomicBool,
    to_server: AtomicU64,
    to_client: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// In front of the first server of a connect string.
    pub fn before(servers: &str) -> Self {
        let server = servers.split([',', '/']).next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let of_listener = Arc::clone(&state);
        thread::spawn(move || listen(&listener, &server, &of_listener));
        Self { connect, state }
    }

    /// Replies and events are swallowed from now on.
    pub fn mute(&self) {
        self.state.muted.store(true, Ordering::SeqCst);
    }

    /// Breaks the connection and refuses new ones.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Bytes that have come from the client and from the server.
    pub fn passed(&self) -> (u64, u64) {
        let State { to_server, to_client, .. } = &*self.state;
        (to_server.load(Ordering::SeqCst), to_client.load(Ordering::SeqCst))
    }

    /// Lets new connections through.
    pub fn mend(&self) {
        self.state.muted.store(false, Ordering::SeqCst);
        self.state.cut.store(false, Ordering::SeqCst);
    }
}

fn listen(listener: &TcpListener, server: &str, state: &Arc<State>) {
    for client in listener.incoming() {
        let client = client.unwrap();
        if state.cut.load(Ordering::SeqCst) {
            continue;
        }
        let server = TcpStream::connect(server).unwrap();
        let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
        state.streams.lock().unwrap().extend(both);
        let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (replies, requests) = (Arc::clone(state), Arc::clone(state));
        thread::spawn(move || pass(server, to_client, |bytes| replies.replied(bytes)));
        thread::spawn(move || pass(client, to_server, |bytes| requests.requested(bytes)));
    }
}

impl State {
    /// Whether to pass a reply on.
    fn replied(&self, bytes: u64) -> bool {
        self.to_client.fetch_add(bytes, Ordering::SeqCst);
        !self.muted.load(Ordering::SeqCst)
    }

    /// Whether to pass a request on.
    fn requested(&self, bytes: u64) -> bool {
        self.to_server.fetch_add(bytes, Ordering::SeqCst);
        true
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(u64) -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if passes(read as u64) && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
