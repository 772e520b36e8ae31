//! A proxy that falsifies the number of children in replies to joins by count.

use std::collections::HashSet;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::proxy::next_packet;

/// Opcode of a multi.
const MULTI: i32 = 14;
/// Types of a create's result, without and with a stat.
const CREATED: [i32; 2] = [1, 15];
/// Type of a setData's result.
const DATA_SET: i32 = 5;
/// Size in bytes of a reply's length, xid, zxid and error.
const REPLY_HEADER: usize = 20;
/// Size in bytes of a result's kind, end and error.
const RESULT_HEADER: usize = 9;
/// Size of a stat in bytes.
const STAT: usize = 68;
/// Offset of the number of children in a stat, after four longs, three ints, a long and an int.
const CHILDREN: usize = 4 * 8 + 3 * 4 + 8 + 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lies {
    Never,
    Always,
    /// Lies about every directory whose path does not contain this text.
    OutsideOf(&'static str),
}

/// A proxy that makes every joining contender believe it is alone.
pub struct LyingServer {
    /// Address to connect to.
    pub connect: String,
    state: Arc<State>,
}

struct State {
    lies: Lies,
    over: AtomicBool,
    told: AtomicU64,
}

impl LyingServer {
    pub fn before(servers: &str, lies: Lies) -> Self {
        let server = servers.split([',', '/']).next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State { lies, over: AtomicBool::default(), told: AtomicU64::default() });
        let of_listener = Arc::clone(&state);
        thread::spawn(move || listen(&listener, &server, &of_listener));
        Self { connect, state }
    }

    pub fn lies_told(&self) -> u64 {
        self.state.told.load(Ordering::SeqCst)
    }
}

impl Drop for LyingServer {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then exits.
        let _ = TcpStream::connect(&self.connect);
    }
}

fn listen(listener: &TcpListener, server: &str, state: &Arc<State>) {
    for client in listener.incoming() {
        let client = client.unwrap();
        if state.over.load(Ordering::SeqCst) {
            return;
        }
        let server = TcpStream::connect(server).unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let lied_to = Arc::<Mutex<HashSet<i32>>>::default();
        let (of_replies, of_requests) = (Arc::clone(&lied_to), lied_to);
        let (replies, requests) = (Arc::clone(state), Arc::clone(state));
        thread::spawn(move || {
            pass(server, to_client, |packet| {
                if number_at(packet, 4).is_some_and(|xid| of_replies.lock().unwrap().remove(&xid)) {
                    replies.falsify(packet);
                }
            });
        });
        thread::spawn(move || {
            pass(client, to_server, |packet| {
                if let Some(xid) = requests.is_lied_to(packet) {
                    of_requests.lock().unwrap().insert(xid);
                }
            });
        });
    }
}

impl State {
    /// Returns the xid of a request with a reply to falsify, or `None` for other requests.
    fn is_lied_to(&self, packet: &[u8]) -> Option<i32> {
        let (xid, kind) = (number_at(packet, 4)?, number_at(packet, 8)?);
        if kind != MULTI {
            return None;
        }
        let at = 12 + RESULT_HEADER;
        let length = usize::try_from(number_at(packet, at)?).ok()?;
        let path = String::from_utf8_lossy(packet.get(at + 4..at + 4 + length)?).into_owned();
        let is_meant = match self.lies {
            Lies::Never => false,
            Lies::Always => true,
            Lies::OutsideOf(place) => !path.contains(place),
        };
        is_meant.then_some(xid)
    }

    /// Sets the number of children to 1 in the reply to a join.
    fn falsify(&self, packet: &mut [u8]) {
        let Some(at) = children_in(packet) else { return };
        packet[at..at + 4].copy_from_slice(&1_i32.to_be_bytes());
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

/// Offset of the number of children in a reply to a multi of a create and a setData.
fn children_in(packet: &[u8]) -> Option<usize> {
    if number_at(packet, 16)? != 0 {
        return None;
    }
    let kind = number_at(packet, REPLY_HEADER).filter(|kind| CREATED.contains(kind))?;
    let path = REPLY_HEADER + RESULT_HEADER;
    let after_path = path + 4 + usize::try_from(number_at(packet, path)?).ok()?;
    let second = after_path + if kind == CREATED[1] { STAT } else { 0 };
    let stat = second + RESULT_HEADER;
    (number_at(packet, second)? == DATA_SET && packet.len() >= stat + STAT).then_some(stat + CHILDREN)
}

fn number_at(packet: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(packet.get(at..at + 4)?.try_into().unwrap()))
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&mut [u8])) {
    while let Some(mut packet) = next_packet(&mut from) {
        look(&mut packet);
        if to.write_all(&packet).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
