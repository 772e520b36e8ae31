//! What the proxy reads between a client and a server: the frames in a stream of bytes, the requests and replies in
//! them, what requests do to nodes, and what replies say came of it; of a multi, part by part.

use zklockbench_core::jute::Reader;
use zklockbench_core::measure::RequestKind;

/// The longest frame that is believed. ZooKeeper's own limit is 1 MiB unless it is raised; four-letter words and
/// TLS read as lengths of more than this.
const LONGEST: usize = 64 << 20;
/// So much of a frame is kept: its header, and a path.
const KEPT: usize = 2048;
const LENGTH: usize = 4;

#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where it begins in the bytes at hand; 0 when it began in earlier ones.
    pub start: usize,
    /// Its first bytes after the length.
    pub head: &'a [u8],
    /// All its bytes, the length included.
    pub bytes: usize,
}

/// Finds the frames of one direction of a connection: a length of four bytes, then so many bytes.
///
/// Only the beginning of a frame is kept, so its length costs no memory, and a frame may be split anywhere.
#[derive(Debug, Default)]
pub struct Frames {
    /// The length and the first bytes of the frame that is under way.
    held: Vec<u8>,
    /// How many of its bytes have come, length included.
    seen: usize,
    opaque: bool,
}

impl Frames {
    /// Calls `each` with every frame that ends in these bytes. An error says that the stream is something else
    /// than was thought; nothing is found in it from then on.
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

    /// Reads on in the frame under way; whether it is complete.
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

    /// The length, once it has come; a negative one counts as too long.
    fn length(&self) -> Option<usize> {
        let bytes = self.held.first_chunk::<LENGTH>()?;
        Some(usize::try_from(i32::from_be_bytes(*bytes)).unwrap_or(usize::MAX))
    }

    /// Takes at most so many bytes, and keeps what there is room for.
    fn take(&mut self, bytes: &[u8], at: &mut usize, most: usize) {
        let rest = &bytes[*at..];
        let taken = &rest[..most.min(rest.len())];
        let kept = taken.len().min((LENGTH + KEPT).saturating_sub(self.held.len()));
        self.held.extend_from_slice(&taken[..kept]);
        self.seen += taken.len();
        *at += taken.len();
    }
}

/// The stream does not hold what it was thought to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFrames;

/// Notifications come with this xid, and with no zxid.
pub const NOTIFICATION: i32 = -1;
/// multi and multiRead.
const MULTI: [i32; 2] = [14, 22];

/// A session as client and server negotiate it: its number, and its timeout in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    pub session: i64,
    pub timeout_ms: i32,
}

/// The session that a connect request asks to go on with; 0 for a new one. `None` for what is no such request.
pub fn session_asked_for(head: &[u8]) -> Option<Negotiated> {
    let mut reader = Reader(head);
    let (_version, _last_zxid, timeout_ms) = (reader.int()?, reader.long()?, reader.int()?);
    let session = reader.long()?;
    // The password's length; `-1` stands for none.
    (-1..=64).contains(&reader.int()?).then_some(Negotiated { session, timeout_ms })
}

/// The session that a connect response grants; 0 when the one that was asked for is over.
pub fn session_granted(head: &[u8]) -> Option<Negotiated> {
    let mut reader = Reader(head);
    let (_version, timeout_ms) = (reader.int()?, reader.int()?);
    Some(Negotiated { session: reader.long()?, timeout_ms })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// The number by which its reply names it.
    pub xid: i32,
    /// Its kind as the protocol numbers them.
    pub opcode: i32,
    pub kind: RequestKind,
    /// The node that it is about; of a multi that of its first operation. Empty when it is too long to be kept.
    pub path: String,
}

/// Reads a request. `None` for what is none of [`RequestKind`]: pings, the session's end, watches set anew.
pub fn request(head: &[u8]) -> Option<ClientRequest> {
    let mut reader = Reader(head);
    let (xid, opcode) = (reader.int()?, reader.int()?);
    if MULTI.contains(&opcode) {
        // The first operation's header: its kind, whether it ends the list, an error.
        reader.bytes(9);
    }
    let path = reader.string();
    let watches = path.is_some() && reader.bool() == Some(true);
    let kind = kind(opcode, watches)?;
    Some(ClientRequest { xid, opcode, kind, path: path.unwrap_or_default() })
}

fn kind(opcode: i32, watches: bool) -> Option<RequestKind> {
    Some(match (opcode, watches) {
        // create, create2, createContainer, createTTL.
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
        (18, _) => RequestKind::RemoveWatches,
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub xid: i32,
    /// The last transaction that the server had applied.
    pub zxid: i64,
    /// ZooKeeper's number for what went wrong; 0 for nothing.
    pub error: i32,
}

/// Reads a reply's header. `None` for notifications, which tell no zxid.
pub fn reply(head: &[u8]) -> Option<Reply> {
    let mut reader = Reader(head);
    let reply = Reply { xid: reader.int()?, zxid: reader.long()?, error: reader.int()? };
    (reply.xid != NOTIFICATION).then_some(reply)
}

/// An operation that a request is, or one of those that a multi consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create,
    Delete(String),
    SetData(String),
    /// Changes nothing.
    Look,
}

/// What ZooKeeper calls a request; `None` for one that it has no name for.
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

/// The operations of a request and their kinds: of a multi each of its parts, of others one. `None` where they can't be read, as
/// when there is more of them than is kept of a frame.
pub fn operations(opcode: i32, body: &[u8]) -> Option<Vec<(i32, Operation)>> {
    let mut reader = Reader(body);
    if !MULTI.contains(&opcode) {
        return Some(vec![(opcode, operation(opcode, &mut reader)?)]);
    }
    let mut parts = Vec::new();
    loop {
        match part(&mut reader)? {
            None => return Some(parts),
            Some(opcode) => {
                let what = operation(opcode, &mut reader)?;
                past(opcode, &mut reader)?;
                parts.push((opcode, what));
            }
        }
    }
}

/// The kind of the next part of a multi; nothing inside at the end of the list.
fn part(reader: &mut Reader<'_>) -> Option<Option<i32>> {
    let (opcode, ends, _error) = (reader.int()?, reader.bool()?, reader.int()?);
    Some((!ends).then_some(opcode))
}

/// Reads the path, with which every operation begins.
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

/// Reads on behind the path of a multi's part, to its end.
fn past(opcode: i32, reader: &mut Reader<'_>) -> Option<()> {
    match opcode {
        1 | 15 | 19 | 21 => {
            perhaps_buffer(reader)?;
            for _ in 0..reader.int()? {
                reader.int()?;
                perhaps_buffer(reader)?;
                perhaps_buffer(reader)?;
            }
            reader.int()?;
            if opcode == 21 {
                reader.long()?;
            }
        }
        2 | 13 => drop(reader.int()?),
        5 => {
            perhaps_buffer(reader)?;
            reader.int()?;
        }
        3 | 4 | 8 | 12 => drop(reader.bool()?),
        _ => return None,
    }
    Some(())
}

/// Reads past a buffer, or past the sign that there is none.
fn perhaps_buffer(reader: &mut Reader<'_>) -> Option<()> {
    let length = reader.int()?;
    usize::try_from(length).map_or(Some(()), |length| reader.bytes(length).map(drop))
}

/// Whether the body of the reply to such a request says that it was refused, as that to a multi does: its header says nothing.
pub fn is_refused(opcode: i32, body: &[u8]) -> bool {
    const ERROR: i32 = -1;
    opcode == 14 && part(&mut Reader(body)) == Some(Some(ERROR))
}

/// The paths of the nodes that were created, in the order of the creates, by the body of the reply to such a request; `None`
/// where it can't be read.
pub fn created(opcode: i32, body: &[u8]) -> Option<Vec<String>> {
    const STAT: usize = 68;
    let mut reader = Reader(body);
    match opcode {
        1 | 15 | 19 | 21 => return Some(vec![reader.string()?]),
        14 => {}
        _ => return Some(Vec::new()),
    }
    let mut paths = Vec::new();
    while let Some(kind) = part(&mut reader)? {
        match kind {
            1 => paths.push(reader.string()?),
            15 | 19 | 21 => {
                paths.push(reader.string()?);
                reader.bytes(STAT)?;
            }
            5 => drop(reader.bytes(STAT)?),
            2 | 13 | 20 => {}
            _ => return None,
        }
    }
    Some(paths)
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
    fn a_request_tells_its_kind_and_path() {
        let create = request(&head(7, 15, &[&text("/lock/a-"), &text("data")])).unwrap();
        assert_eq!((create.xid, create.kind, create.path.as_str()), (7, RequestKind::Create, "/lock/a-"));
        let multi = request(&head(8, 14, &[&[0, 0, 0, 2, 0, 255, 255, 255, 255], &text("/x")])).unwrap();
        assert_eq!((multi.kind, multi.path.as_str()), (RequestKind::Multi, "/x"));
        let cut_short = request(&head(9, 1, &[&1000_i32.to_be_bytes(), b"/long"])).unwrap();
        assert_eq!((cut_short.kind, cut_short.path.as_str()), (RequestKind::Create, ""));
    }

    #[test]
    fn a_read_with_a_watch_is_another_kind() {
        let read = |opcode, watch: u8| request(&head(1, opcode, &[&text("/x"), &[watch]])).unwrap().kind;
        assert_eq!([read(4, 0), read(4, 1)], [RequestKind::GetData, RequestKind::GetDataWatch]);
        assert_eq!([read(3, 0), read(3, 1)], [RequestKind::Exists, RequestKind::ExistsWatch]);
        assert_eq!([read(12, 0), read(8, 1)], [RequestKind::GetChildren, RequestKind::GetChildrenWatch]);
    }

    #[test]
    fn pings_and_the_end_of_a_session_are_no_requests() {
        assert_eq!(
            [request(&head(-2, 11, &[])), request(&head(3, -11, &[])), request(&[])],
            [None, None, None]
        );
    }

    #[test]
    fn a_notification_has_no_zxid_and_a_ping_has_one() {
        let header = |xid: i32, zxid: i64| [&xid.to_be_bytes()[..], &zxid.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(reply(&header(-1, -1)), None);
        assert_eq!(reply(&header(-2, 9)), Some(Reply { xid: -2, zxid: 9, error: 0 }));
        assert_eq!(reply(&header(1, 2)[..15]), None);
    }

    #[test]
    fn a_connect_request_names_the_session_that_it_goes_on_with() {
        let timeout = 4_000_i32.to_be_bytes();
        let negotiated = Some(Negotiated { session: 5, timeout_ms: 4_000 });
        let asks = [&[0; 12][..], &timeout, &5_i64.to_be_bytes(), &16_i32.to_be_bytes(), &[0; 17]].concat();
        assert_eq!(session_asked_for(&asks), negotiated);
        assert_eq!(session_asked_for(&asks[..27]), None);
        let grants = [&[0; 4][..], &timeout, &5_i64.to_be_bytes()].concat();
        assert_eq!(session_granted(&grants), negotiated);
    }

    fn header(opcode: i32) -> Vec<u8> {
        [&opcode.to_be_bytes()[..], &[u8::from(opcode == -1)], &[255; 4]].concat()
    }

    /// One entry, and no data.
    fn create(path: &str) -> Vec<u8> {
        let acl = [&31_i32.to_be_bytes()[..], &text("world"), &text("anyone")].concat();
        [&text(path)[..], &[255; 4], &1_i32.to_be_bytes(), &acl, &3_i32.to_be_bytes()].concat()
    }

    #[test]
    fn a_multi_is_read_part_by_part_to_its_end_and_one_that_is_cut_off_is_not_known() {
        let set = [&text("/q")[..], &text("data"), &[255; 4]].concat();
        let multi = [
            header(1),
            create("/q/n-"),
            header(5),
            set,
            header(13),
            [&text("/q")[..], &[0; 4]].concat(),
            header(2),
            [&text("/q/n-1")[..], &[255; 4]].concat(),
            header(-1),
        ]
        .concat();
        let expected = vec![
            (1, Operation::Create),
            (5, Operation::SetData("/q".into())),
            (13, Operation::Look),
            (2, Operation::Delete("/q/n-1".into())),
        ];
        assert_eq!(operations(14, &multi), Some(expected));
        for cut in 0..multi.len() {
            assert_eq!(operations(14, &multi[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn replies_tell_the_names_of_the_nodes_that_were_made() {
        let reply = [header(1), text("/q/n-7"), header(5), vec![0; 68], header(2), header(-1)].concat();
        assert_eq!(created(14, &reply), Some(vec!["/q/n-7".to_owned()]));
        assert_eq!(created(14, &reply[..20]), None);
        let refused = [&(-1_i32).to_be_bytes()[..], &[0], &[255; 4], &[0; 4], &header(-1)].concat();
        assert!(is_refused(14, &refused) && !is_refused(14, &reply) && !is_refused(1, &refused));
        assert_eq!(created(1, &text("/q/n-8")), Some(vec!["/q/n-8".to_owned()]));
        assert_eq!(created(4, &[]), Some(Vec::new()));
    }

    #[test]
    fn other_requests_are_one_operation() {
        assert_eq!(operations(2, &text("/a")), Some(vec![(2, Operation::Delete("/a".into()))]));
        assert_eq!(operations(4, &[&text("/a")[..], &[1]].concat()), Some(vec![(4, Operation::Look)]));
        assert_eq!(operations(107, &[]), Some(vec![(107, Operation::Look)]));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200), opcode in -1..25) {
            let _ = (request(&garbage), reply(&garbage));
            let _ = (session_asked_for(&garbage), session_granted(&garbage));
            let _ = (operations(opcode, &garbage), created(opcode, &garbage));
        }
    }

    /// The heads of all frames in a stream that comes in pieces, and how long each is.
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
        fn any_split_of_a_stream_gives_the_same_frames(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| framed(body)).collect();
            let frame = |body: &Vec<u8>| (LENGTH + body.len(), body[..body.len().min(KEPT)].to_vec());
            let expected: Vec<_> = bodies.iter().map(frame).collect();
            prop_assert_eq!(found(&split(&stream, &cuts)), expected);
        }

        #[test]
        fn garbage_neither_panics_nor_is_kept(
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
    fn a_frame_says_where_it_lies_in_the_bytes_at_hand() {
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
    fn four_letter_words_and_lengths_below_zero_or_beyond_belief_end_the_understanding() {
        for first in [&b"ruok"[..], b"mntr", &[0xff; 4], &[0x16, 3, 1, 0], &[4, 0, 0, 1]] {
            assert_eq!(found(&[first, &framed(b"hidden")]), [], "{first:?}");
        }
        assert_eq!(found(&[&[0; 4]]), [(4, Vec::new())]);
    }

    #[test]
    fn a_stream_that_is_something_else_is_not_looked_at_again() {
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
