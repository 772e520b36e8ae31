//! What the proxy reads in the frames between a client and a server.

use crate::words::jute::Reader;
use crate::words::measure::RequestKind;

/// Notifications come with this xid, and with no zxid.
const NOTIFICATION: i32 = -1;

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
    const MULTI: [i32; 2] = [14, 22];
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

    proptest! {
        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = (request(&garbage), reply(&garbage));
            let _ = (session_asked_for(&garbage), session_granted(&garbage));
        }
    }
}
