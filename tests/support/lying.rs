//! A proxy that falsifies the number of children in replies to joins by count.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::proxy::Proxy;

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

impl Lies {
    /// Returns the xid of a request with a reply to falsify, or `None` for other requests.
    fn is_about(self, packet: &[u8]) -> Option<i32> {
        let (xid, kind) = (number_at(packet, 4)?, number_at(packet, 8)?);
        if kind != MULTI {
            return None;
        }
        let at = 12 + RESULT_HEADER;
        let length = usize::try_from(number_at(packet, at)?).ok()?;
        let path = String::from_utf8_lossy(packet.get(at + 4..at + 4 + length)?).into_owned();
        let is_meant = match self {
            Self::Never => false,
            Self::Always => true,
            Self::OutsideOf(place) => !path.contains(place),
        };
        is_meant.then_some(xid)
    }
}

/// A proxy that makes every joining contender believe it is alone.
pub struct LyingServer {
    /// Address to connect to.
    pub connect: String,
    told: Arc<AtomicU64>,
    _proxy: Proxy,
}

impl LyingServer {
    pub fn before(servers: &str, lies: Lies) -> Self {
        let told = Arc::<AtomicU64>::default();
        let (count, lied_to) = (Arc::clone(&told), Mutex::<HashSet<(usize, i32)>>::default());
        let proxy = Proxy::tampering(servers, move |packet, connection, is_reply| {
            let mut lied_to = lied_to.lock().unwrap();
            if !is_reply {
                lied_to.extend(lies.is_about(packet).map(|xid| (connection, xid)));
            } else if number_at(packet, 4).is_some_and(|xid| lied_to.remove(&(connection, xid))) {
                count.fetch_add(falsify(packet), Ordering::SeqCst);
            }
        });
        Self { connect: proxy.connect.clone(), told, _proxy: proxy }
    }

    pub fn lies_told(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }
}

/// Sets the number of children to 1 in the reply to a join. Returns the number of changed replies.
fn falsify(packet: &mut [u8]) -> u64 {
    let Some(at) = children_in(packet) else { return 0 };
    packet[at..at + 4].copy_from_slice(&1_i32.to_be_bytes());
    1
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
