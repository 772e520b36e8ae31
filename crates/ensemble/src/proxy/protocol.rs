//! The part of ZooKeeper's protocol that the proxy reads: frames in a byte stream, requests and replies, and
//! the effects of requests on nodes, including each operation of a multi.

use zklockbench_core::jute::Reader;
use zklockbench_core::measure::RequestKind;
use zklockbench_zk::EventKind;

/// Longest plausible frame. ZooKeeper's default limit is 1 MiB; four-letter commands and TLS records look
/// like frames longer than this.
const LONGEST: usize = 64 << 20;
/// Number of bytes kept from each frame, enough for its header and a path.
const KEPT: usize = 2048;
const LENGTH: usize = 4;

#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Offset in the bytes passed to `read`; 0 if the frame started in earlier bytes.
    pub start: usize,
    /// First bytes after the length field.
    pub head: &'a [u8],
    /// Number of bytes, including the length field.
    pub bytes: usize,
}

/// Finds the frames in one direction of a connection: a four-byte length, followed by that many bytes.
///
/// Only the start of a frame is kept, so long frames need no extra memory. A frame may be split anywhere.
#[derive(Debug, Default)]
pub struct Frames {
    /// Length and first bytes of the current frame.
    held: Vec<u8>,
    /// Number of bytes of the current frame seen so far, including the length field.
    seen: usize,
    opaque: bool,
}

impl Frames {
    /// Calls `each` for every frame that ends in these bytes. Finds no more frames after an error.
    pub fn read(&mut self, bytes: &[u8], mut each: impl FnMut(&Frame<'_>) -> Result<(), NotFrames>) {
        let mut at = 0;
        let mut start = 0;
        while !self.opaque && self.advance(bytes, &mut at) {
            let frame = Frame { start, head: &self.held[LENGTH..], bytes: self.seen };
            self.opaque = each(&frame).is_err();
            self.held.clear();
            self.seen = 0;
            start = at;
        }
    }

    /// Returns whether the stream contains something other than frames.
    pub fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// Continues reading the current frame. Returns whether the frame is complete.
    fn advance(&mut self, bytes: &[u8], at: &mut usize) -> bool {
        let missing = LENGTH.saturating_sub(self.seen);
        self.take(bytes, at, missing);
        let Some(length) = self.length() else { return false };
        if length > LONGEST {
            self.opaque = true;
            return false;
        }
        self.take(bytes, at, LENGTH + length - self.seen);
        self.seen == LENGTH + length
    }

    /// Returns the length of the current frame once known. A negative length counts as too long.
    fn length(&self) -> Option<usize> {
        let bytes = self.held.first_chunk::<LENGTH>()?;
        Some(usize::try_from(i32::from_be_bytes(*bytes)).unwrap_or(usize::MAX))
    }

    /// Takes at most `most` bytes, and keeps as many as fit.
    fn take(&mut self, bytes: &[u8], at: &mut usize, most: usize) {
        let rest = &bytes[*at..];
        let taken = &rest[..most.min(rest.len())];
        let kept = taken.len().min((LENGTH + KEPT).saturating_sub(self.held.len()));
        self.held.extend_from_slice(&taken[..kept]);
        self.seen += taken.len();
        *at += taken.len();
    }
}

/// Error for a stream that is not a sequence of the expected frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFrames;

/// Xid of notifications, which have no zxid.
pub const NOTIFICATION: i32 = -1;
/// Opcodes of multi and multiRead.
const MULTI: [i32; 2] = [14, 22];

/// Returns whether a connection's first frame is a connect request.
pub fn is_connect_request(head: &[u8]) -> bool {
    let mut reader = Reader(head);
    let fixed = (reader.int(), reader.long(), reader.int(), reader.long());
    // Length of the password; `-1` means no password.
    matches!(fixed, (Some(_), Some(_), Some(_), Some(_)))
        && reader.int().is_some_and(|length| (-1..=64).contains(&length))
}

/// Returns the session ID in a server's first frame: 0 if the session has ended, `None` if the frame is too short.
pub fn granted_session(head: &[u8]) -> Option<i64> {
    let mut reader = Reader(head);
    let _protocol_and_timeout = (reader.int()?, reader.int()?);
    reader.long()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// Number that the reply repeats.
    pub xid: i32,
    /// Opcode in ZooKeeper's protocol.
    pub opcode: i32,
    pub kind: RequestKind,
    /// Path of the request, or of a multi's first operation. Empty if the path is too long to be kept.
    pub path: String,
}

/// Parses a request. Returns `None` for anything without a [`RequestKind`], such as a ping, a session close
/// or a restored watch.
pub fn request(head: &[u8]) -> Option<ClientRequest> {
    let mut reader = Reader(head);
    let (xid, opcode) = (reader.int()?, reader.int()?);
    if MULTI.contains(&opcode) {
        // Skip the header of the first operation: opcode, end marker, error.
        reader.bytes(9);
    }
    let path = reader.string();
    let watches = path.is_some() && reader.bool() == Some(true);
    let kind = kind(opcode, watches)?;
    Some(ClientRequest { xid, opcode, kind, path: path.unwrap_or_default() })
}

fn kind(opcode: i32, watches: bool) -> Option<RequestKind> {
    Some(match (opcode, watches) {
        // Opcodes of create, create2, createContainer and createTTL.
        (1 | 15 | 19 | 21, _) => RequestKind::Create,
        (2 | 20, _) => RequestKind::Delete,
        (3, false) => RequestKind::Exists,
        (3, true) => RequestKind::ExistsWatch,
        (4, false) => RequestKind::GetData,
        (4, true) => RequestKind::GetDataWatch,
        (5, _) => RequestKind::SetData,
        (8 | 12, false) => RequestKind::GetChildren,
        (8 | 12, true) => RequestKind::GetChildrenWatch,
        (9, _) => RequestKind::Sync,
        (14 | 22, _) => RequestKind::Multi,
        (17, _) => RequestKind::CheckWatches,
        (18, _) => RequestKind::RemoveWatches,
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub xid: i32,
    /// Zxid of the last transaction that the server had applied.
    pub zxid: i64,
    /// ZooKeeper's error code; 0 for success.
    pub error: i32,
}

/// Parses a reply's header. Returns `None` for notifications, which have no zxid.
pub fn reply(head: &[u8]) -> Option<Reply> {
    let mut reader = Reader(head);
    let reply = Reply { xid: reader.int()?, zxid: reader.long()?, error: reader.int()? };
    (reply.xid != NOTIFICATION).then_some(reply)
}

/// Parses a notification: its event and path. Returns `None` for unknown events and for paths too long to be kept.
pub fn notification(head: &[u8]) -> Option<(EventKind, String)> {
    let mut reader = Reader(head);
    let _header = (reader.int()?, reader.long()?, reader.int()?);
    let (event, _state, path) = (reader.int()?, reader.int()?, reader.string()?);
    let event = match event {
        1 => EventKind::NodeCreated,
        2 => EventKind::NodeDeleted,
        3 => EventKind::DataChanged,
        4 => EventKind::ChildrenChanged,
        _ => return None,
    };
    Some((event, path))
}

/// Operation of a request, or of one part of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create,
    Delete(String),
    SetData(String),
    /// An operation that changes nothing.
    Look,
}

/// Returns ZooKeeper's name for a request; `None` for unknown opcodes.
pub fn name(opcode: i32) -> Option<&'static str> {
    Some(match opcode {
        1 => "create",
        2 => "delete",
        3 => "exists",
        4 => "getData",
        5 => "setData",
        6 => "getACL",
        7 => "setACL",
        8 => "getChildren",
        9 => "sync",
        12 => "getChildren2",
        13 => "check",
        14 => "multi",
        15 => "create2",
        16 => "reconfig",
        17 => "checkWatches",
        18 => "removeWatches",
        19 => "createContainer",
        20 => "deleteContainer",
        21 => "createTTL",
        22 => "multiRead",
        102 => "sasl",
        103 => "getEphemerals",
        104 => "getAllChildrenNumber",
        106 => "addWatch",
        107 => "whoAmI",
        _ => return None,
    })
}

/// Returns the operations of a request with their opcodes: one for each part of a multi, otherwise a single
/// operation. Returns `None` if an operation cannot be read, e.g. because the frame is longer than the kept bytes.
pub fn operations(opcode: i32, body: &[u8]) -> Option<Vec<(i32, Operation)>> {
    let mut reader = Reader(body);
    if !MULTI.contains(&opcode) {
        return Some(vec![(opcode, operation(opcode, &mut reader)?)]);
    }
    let mut parts = Vec::new();
    loop {
        let Some(opcode) = reader.part()? else { return Some(parts) };
        let what = operation(opcode, &mut reader)?;
        reader.skip_part(opcode)?;
        parts.push((opcode, what));
    }
}

/// Parses an operation. Most operations start with a path.
fn operation(opcode: i32, reader: &mut Reader<'_>) -> Option<Operation> {
    let path = if name(opcode).is_some_and(|name| name != "whoAmI" && name != "sasl") {
        reader.string()?
    } else {
        String::new()
    };
    Some(match opcode {
        1 | 15 | 19 | 21 => Operation::Create,
        2 | 20 => Operation::Delete(path),
        5 => Operation::SetData(path),
        _ => Operation::Look,
    })
}

/// Returns whether the body of a reply is a refusal. Only a multi is refused in the body instead of the header.
pub fn is_refused(opcode: i32, body: &[u8]) -> bool {
    const ERROR: i32 = -1;
    opcode == 14 && Reader(body).part() == Some(Some(ERROR))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(xid: i32, opcode: i32, rest: &[&[u8]]) -> Vec<u8> {
        [&xid.to_be_bytes()[..], &opcode.to_be_bytes(), &rest.concat()].concat()
    }

    fn text(text: &str) -> Vec<u8> {
        [&i32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn kind_and_path_of_a_request_are_parsed() {
        let create = request(&head(7, 15, &[&text("/lock/a-"), &text("data")])).unwrap();
        assert_eq!((create.xid, create.kind, create.path.as_str()), (7, RequestKind::Create, "/lock/a-"));
        let multi = request(&head(8, 14, &[&[0, 0, 0, 2, 0, 255, 255, 255, 255], &text("/x")])).unwrap();
        assert_eq!((multi.kind, multi.path.as_str()), (RequestKind::Multi, "/x"));
        let cut_short = request(&head(9, 1, &[&1000_i32.to_be_bytes(), b"/long"])).unwrap();
        assert_eq!((cut_short.kind, cut_short.path.as_str()), (RequestKind::Create, ""));
    }

    #[test]
    fn read_with_a_watch_has_its_own_kind() {
        let read = |opcode, watch: u8| request(&head(1, opcode, &[&text("/x"), &[watch]])).unwrap().kind;
        assert_eq!([read(4, 0), read(4, 1)], [RequestKind::GetData, RequestKind::GetDataWatch]);
        assert_eq!([read(3, 0), read(3, 1)], [RequestKind::Exists, RequestKind::ExistsWatch]);
        assert_eq!([read(12, 0), read(8, 1)], [RequestKind::GetChildren, RequestKind::GetChildrenWatch]);
    }

    #[test]
    fn pings_and_session_closes_are_not_requests() {
        let found = [request(&head(-2, 11, &[])), request(&head(3, -11, &[])), request(&[])];
        assert_eq!(found, [None, None, None]);
    }

    #[test]
    fn ping_reply_has_a_zxid_but_a_notification_has_none() {
        let header = |xid: i32, zxid: i64| [&xid.to_be_bytes()[..], &zxid.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(reply(&header(-1, -1)), None);
        assert_eq!(reply(&header(-2, 9)), Some(Reply { xid: -2, zxid: 9, error: 0 }));
        assert_eq!(reply(&header(1, 2)[..15]), None);
    }

    #[test]
    fn connect_request_and_granted_session_are_recognised() {
        let timeout = 4_000_i32.to_be_bytes();
        let asks = [&[0; 12][..], &timeout, &5_i64.to_be_bytes(), &16_i32.to_be_bytes(), &[0; 17]].concat();
        assert!(is_connect_request(&asks));
        assert!(!is_connect_request(&asks[..27]));
        let grants = [&[0; 4][..], &timeout, &5_i64.to_be_bytes()].concat();
        assert!(granted_session(&grants).is_some());
    }

    fn header(opcode: i32) -> Vec<u8> {
        [&opcode.to_be_bytes()[..], &[u8::from(opcode == -1)], &[255; 4]].concat()
    }

    /// Returns a create with one ACL entry and no data.
    fn create(path: &str) -> Vec<u8> {
        let acl = [&31_i32.to_be_bytes()[..], &text("world"), &text("anyone")].concat();
        [&text(path)[..], &[255; 4], &1_i32.to_be_bytes(), &acl, &3_i32.to_be_bytes()].concat()
    }

    #[test]
    fn multi_is_parsed_part_by_part_unless_truncated() {
        let set = [&text("/q")[..], &text("data"), &[255; 4]].concat();
        let (look, delete) = ([&text("/q")[..], &[0; 4]].concat(), [&text("/q/n-1")[..], &[255; 4]].concat());
        let parts = [(1, create("/q/n-")), (5, set), (13, look), (2, delete)];
        let multi = parts.map(|(opcode, body)| [header(opcode), body].concat());
        let multi = [&multi.concat()[..], &header(-1)].concat();
        let (set, delete) = (Operation::SetData("/q".into()), Operation::Delete("/q/n-1".into()));
        let expected = vec![(1, Operation::Create), (5, set), (13, Operation::Look), (2, delete)];
        assert_eq!(operations(14, &multi), Some(expected));
        for cut in 0..multi.len() {
            assert_eq!(operations(14, &multi[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn created_paths_are_parsed_from_replies() {
        let reply = [header(1), text("/q/n-7"), header(5), vec![0; 68], header(2), header(-1)].concat();
        assert_eq!(Reader(&reply).created(14), Some(vec!["/q/n-7".to_owned()]));
        assert_eq!(Reader(&reply[..20]).created(14), None);
        let refused = [&(-1_i32).to_be_bytes()[..], &[0], &[255; 4], &[0; 4], &header(-1)].concat();
        assert!(is_refused(14, &refused) && !is_refused(14, &reply) && !is_refused(1, &refused));
        assert_eq!(Reader(&text("/q/n-8")).created(1), Some(vec!["/q/n-8".to_owned()]));
        assert_eq!(Reader(&[]).created(4), Some(Vec::new()));
    }

    #[test]
    fn request_other_than_a_multi_has_one_operation() {
        assert_eq!(operations(2, &text("/a")), Some(vec![(2, Operation::Delete("/a".into()))]));
        assert_eq!(operations(4, &[&text("/a")[..], &[1]].concat()), Some(vec![(4, Operation::Look)]));
        assert_eq!(operations(107, &[]), Some(vec![(107, Operation::Look)]));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_cause_no_panic(garbage in prop::collection::vec(any::<u8>(), 0..200), opcode in -1..25) {
            let _ = (request(&garbage), reply(&garbage));
            let _ = (is_connect_request(&garbage), granted_session(&garbage));
            let _ = (operations(opcode, &garbage), Reader(&garbage).created(opcode));
        }
    }

    /// Returns the lengths and heads of all frames in a stream that arrives in pieces.
    fn found(pieces: &[&[u8]]) -> Vec<(usize, Vec<u8>)> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for piece in pieces {
            frames.read(piece, |frame| {
                assert!(frame.start <= piece.len());
                found.push((frame.bytes, frame.head.to_vec()));
                Ok(())
            });
        }
        found
    }

    fn framed(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
    }

    fn split<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_a_stream_is_split(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
            let frame = |body: &Vec<u8>| (LENGTH + body.len(), body[..body.len().min(KEPT)].to_vec());
            let expected: Vec<_> = bodies.iter().map(frame).collect();
            prop_assert_eq!(found(&split(&stream, &cuts)), expected);
        }

        #[test]
        fn frames_keep_a_bounded_part_of_an_arbitrary_stream(
            garbage in prop::collection::vec(any::<u8>(), 0..5000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let mut frames = Frames::default();
            for piece in split(&garbage, &cuts) {
                frames.read(piece, |_| Ok(()));
                prop_assert!(frames.held.len() <= LENGTH + KEPT);
            }
        }
    }

    #[test]
    fn frame_start_is_an_offset_in_the_current_bytes() {
        let stream = [framed(b"one"), framed(b"three")].concat();
        let mut places = Vec::new();
        let mut frames = Frames::default();
        for piece in [&stream[..9], &stream[9..]] {
            frames.read(piece, |frame| {
                places.push((frame.start, frame.bytes));
                Ok(())
            });
        }
        assert_eq!(places, [(0, 7), (0, 9)]);
        frames.read(&stream, |frame| {
            places.push((frame.start, frame.bytes));
            Ok(())
        });
        assert_eq!(places[2..], [(0, 7), (7, 9)]);
    }

    #[test]
    fn four_letter_commands_and_implausible_lengths_end_the_search_for_frames() {
        for first in [&b"ruok"[..], b"mntr", &[0xff; 4], &[0x16, 3, 1, 0], &[4, 0, 0, 1]] {
            assert_eq!(found(&[first, &framed(b"hidden")]), [], "{first:?}");
        }
        assert_eq!(found(&[&[0; 4]]), [(4, Vec::new())]);
    }

    #[test]
    fn stream_is_not_read_after_an_error() {
        let mut frames = Frames::default();
        let mut calls = 0;
        for _ in 0..2 {
            frames.read(&[framed(b"a"), framed(b"b")].concat(), |_| {
                calls += 1;
                Err(NotFrames)
            });
        }
        assert_eq!(calls, 1);
    }
}
