//! Message sizes in bytes, computed from the protocol's record layout and including the frame length.
//!
//! The client library does not expose its socket. The sizes follow from ZooKeeper's jute records
//! (`zookeeper.jute`); the servers' own byte counters serve as a cross-check.

use zookeeper_client::Names;

/// Size of a reply without a body: an error, or the reply to a delete.
pub const EMPTY_REPLY: u64 = 20;
pub const STAT: u64 = 68;
/// Size of the header before each part of a multi, in the request and in the reply.
const MULTI_HEADER: u64 = 9;

fn len(text: &str) -> u64 {
    text.len() as u64
}

/// Size of a create request with one ACL entry: for everyone (`world`, `anyone`), or for the session's
/// identity (`auth` and an empty ID).
pub fn create(path: &str, data: &[u8], owned: bool) -> u64 {
    let whose = if owned { 4 } else { 11 };
    40 + whose + len(path) + data.len() as u64
}

/// Size of the reply to a create, with the new path and its stat.
pub fn created(path: &str) -> u64 {
    24 + len(path) + STAT
}

pub fn delete(path: &str) -> u64 {
    20 + len(path)
}

pub fn set_data(path: &str, data: &[u8]) -> u64 {
    24 + len(path) + data.len() as u64
}

/// Size of a multi's overhead: frame, headers of its operations, and final record.
pub fn multi(operations: usize) -> u64 {
    12 + MULTI_HEADER * (operations as u64 + 1)
}

/// Size of a multi's reply: headers and bodies of its results, and final record.
pub fn multi_reply(bodies: impl ExactSizeIterator<Item = u64>) -> u64 {
    EMPTY_REPLY + MULTI_HEADER * (bodies.len() as u64 + 1) + bodies.sum::<u64>()
}

/// Size of the body of the reply to a refused multi: an error code for each operation.
pub fn multi_refusal(operations: usize) -> u64 {
    (MULTI_HEADER + 4) * operations as u64 + MULTI_HEADER
}

/// Size of a create's result within a multi's reply, without a stat.
pub fn created_in_multi(path: &str) -> u64 {
    4 + len(path)
}

/// Size of a read request: getChildren, getData or exists.
pub fn read(path: &str) -> u64 {
    17 + len(path)
}

pub fn children(names: &Names) -> u64 {
    24 + names.iter().map(|name| 4 + len(name)).sum::<u64>()
}

pub fn data(data: &[u8]) -> u64 {
    24 + data.len() as u64 + STAT
}

/// Size of a reply that contains only a stat: to a setData, or to an exists on an existing node.
pub const STAT_REPLY: u64 = 20 + STAT;

pub fn event(path: &str) -> u64 {
    32 + len(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_reply_has_one_header_per_result_and_a_final_header() {
        // setData has a stat, and delete has no body.
        assert_eq!(multi_reply([STAT, 0].into_iter()), 20 + 9 + 68 + 9 + 9);
        assert_eq!(multi_reply([created_in_multi("/l/n-0000000001")].into_iter()), 20 + 9 + 4 + 15 + 9);
        assert_eq!(EMPTY_REPLY + multi_refusal(2), 20 + 13 + 13 + 9);
    }
}
