//! Parses and builds complete frames of ZooKeeper's protocol.

use zklockbench_core::jute::Reader;

/// Xid of a notification.
pub const NOTIFICATION: i32 = -1;
pub const PING: i32 = -2;
pub const AUTH: i32 = -4;
/// Xid of the exploration's own `sync`.
pub const SYNC: i32 = i32::MAX - 1;
const SYNC_OPCODE: i32 = 9;
const CLOSE: i32 = -11;
const PING_OPCODE: i32 = 11;
const AUTH_OPCODE: i32 = 100;
const SASL_OPCODE: i32 = 102;
const LENGTH: usize = 4;
const NODE_EXISTS: i32 = -110;

/// One operation of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub name: &'static str,
    pub path: String,
    pub kind: OperationKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Create {
        is_ephemeral: bool,
    },
    Delete,
    Write,
    /// Reads a node, or the names of its children.
    Read,
    /// Concerns only the session.
    Session,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub xid: i32,
    pub opcode: i32,
    /// One operation, or all operations of a multi.
    pub operations: Vec<Operation>,
    pub is_multi: bool,
}

/// A frame from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Pong,
    /// Reply to an authentication request.
    Authenticated,
    Notification {
        event: &'static str,
        path: String,
    },
    /// Reply with an error code (0 for success) and the paths of the nodes that the request created.
    Reply {
        error: i32,
        created: Vec<String>,
    },
}

pub fn ping() -> Vec<u8> {
    frame(&[PING, PING_OPCODE])
}

pub fn close_session() -> Vec<u8> {
    // The exploration ignores the reply, so the xid only has to differ from the special xids.
    frame(&[i32::MAX, CLOSE])
}

/// Builds a `sync` request, which a server answers only after it has applied every earlier write.
pub fn sync() -> Vec<u8> {
    const PATH: &[u8] = b"/";
    let header = [SYNC.to_be_bytes(), SYNC_OPCODE.to_be_bytes(), (PATH.len() as i32).to_be_bytes()].concat();
    [&((header.len() + PATH.len()) as i32).to_be_bytes(), &header[..], PATH].concat()
}

fn frame(header: &[i32; 2]) -> Vec<u8> {
    let mut bytes = 8_i32.to_be_bytes().to_vec();
    header.iter().for_each(|field| bytes.extend(field.to_be_bytes()));
    bytes
}

/// Parses a server's reply to the handshake: the session's ID and password. `None` if the session has ended.
pub fn opened_session(frame: &[u8]) -> Option<(i64, Vec<u8>)> {
    let mut reader = Reader(frame.get(LENGTH..)?);
    let (_version, _timeout, id) = (reader.int()?, reader.int()?, reader.long()?);
    let password = reader.buffer()?.to_vec();
    (id != 0).then_some((id, password))
}

impl Request {
    /// Parses a length-prefixed frame; returns `None` if it is not a request.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader(frame.get(LENGTH..)?);
        let (xid, opcode) = (reader.int()?, reader.int()?);
        let is_multi = matches!(opcode, 14 | 22);
        let operations = if is_multi { multi(&mut reader) } else { vec![operation(opcode, &mut reader)] };
        Some(Self { xid, opcode, operations, is_multi })
    }

    /// Returns whether the request is forwarded immediately: a heartbeat, an authentication request, or the orderly
    /// end of a session.
    pub fn passes(&self) -> bool {
        matches!(self.opcode, PING_OPCODE | AUTH_OPCODE | SASL_OPCODE | CLOSE)
    }

    /// Returns whether the request ends the session.
    pub fn ends_session(&self) -> bool {
        self.opcode == CLOSE
    }

    /// Returns the name of the request without its path.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.operations.iter().map(|operation| operation.name).collect();
        if self.is_multi { format!("multi({})", names.join("+")) } else { names.concat() }
    }

    pub fn path(&self) -> &str {
        self.operations.first().map_or("", |operation| &operation.path)
    }

    /// Returns whether the reply shows that the contender has arrived: it created an ephemeral node, or found the
    /// node of another contender in its place. A create in a missing directory is no arrival.
    pub fn arrives(&self, error: i32, created: &[String]) -> bool {
        let queues = |one: &Operation| one.kind == OperationKind::Create { is_ephemeral: true };
        (error == NODE_EXISTS || !created.is_empty()) && self.operations.iter().any(queues)
    }

    pub fn writes(&self) -> bool {
        self.operations.iter().any(|operation| {
            matches!(
                operation.kind,
                OperationKind::Create { .. } | OperationKind::Delete | OperationKind::Write
            )
        })
    }
}

fn operation(opcode: i32, reader: &mut Reader<'_>) -> Operation {
    use OperationKind::{Create, Delete, Read, Session, Write};
    let path = match opcode {
        100 | 101 | 102 | 105 | -11 | 11 | 107 => String::new(),
        _ => reader.string().unwrap_or_default(),
    };
    let mut rest = *reader;
    let mut or_watches = |name, watching| if rest.bool() == Some(true) { watching } else { name };
    let (name, kind) = match opcode {
        1 | 15 | 19 | 21 => {
            let flags = rest.skip_data_and_acls().and_then(|()| rest.int());
            ("create", Create { is_ephemeral: matches!(flags, Some(1 | 3)) })
        }
        2 | 20 => ("delete", Delete),
        3 => (or_watches("exists", "exists+watch"), Read),
        4 => (or_watches("getData", "getData+watch"), Read),
        5 => ("setData", Write),
        6 => ("getACL", Read),
        8 | 12 => (or_watches("getChildren", "getChildren+watch"), Read),
        9 => ("sync", Read),
        13 => ("check", Read),
        17 => ("checkWatches", Session),
        18 => ("removeWatches", Session),
        100 => ("auth", Session),
        101 | 105 => ("setWatches", Session),
        102 => ("sasl", Session),
        104 => ("countChildren", Read),
        106 => ("addWatch", Read),
        -11 => ("closeSession", Session),
        11 => ("ping", Session),
        _ => ("request", Session),
    };
    Operation { name, path, kind }
}

/// Parses the operations of a multi, up to the first one that cannot be parsed.
fn multi(reader: &mut Reader<'_>) -> Vec<Operation> {
    let mut operations = Vec::new();
    while let Some(Some(opcode)) = reader.part() {
        operations.push(operation(opcode, reader));
        if reader.skip_part(opcode).is_none() {
            break;
        }
    }
    operations
}

impl Answer {
    /// Parses a length-prefixed frame from a server. A reply is assumed to answer `request`.
    pub fn read(frame: &[u8], request: Option<&Request>) -> Option<Self> {
        let mut reader = Reader(frame.get(LENGTH..)?);
        let (xid, _zxid, error) = (reader.int()?, reader.long()?, reader.int()?);
        Some(match xid {
            PING => Self::Pong,
            AUTH => Self::Authenticated,
            NOTIFICATION => {
                let (kind, _state) = (reader.int()?, reader.int()?);
                Self::Notification { event: event_name(kind), path: reader.string().unwrap_or_default() }
            }
            _ => {
                let created = request.and_then(|request| reader.created(request.opcode));
                Self::Reply { error, created: created.unwrap_or_default() }
            }
        })
    }
}

fn event_name(kind: i32) -> &'static str {
    match kind {
        1 => "created",
        2 => "deleted",
        3 => "changed",
        4 => "children changed",
        _ => "session event",
    }
}

/// Returns a readable name for a server's error code.
pub fn error_name(code: i32) -> String {
    let name = match code {
        0 => "ok",
        -4 => "connection loss",
        -101 => "no node",
        -102 => "no permission",
        -103 => "wrong version",
        NODE_EXISTS => "node exists",
        -111 => "not empty",
        -112 => "session expired",
        -121 => "no watcher",
        other => return format!("error {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Vec<u8> {
        [&i32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
    }

    fn framed(parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        [&i32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    }

    fn int(value: i32) -> [u8; 4] {
        value.to_be_bytes()
    }

    #[test]
    fn ephemeral_create_and_its_reply_are_parsed() {
        let acl = [&int(1)[..], &int(31), &string("world"), &string("anyone")].concat();
        let create = framed(&[&int(7), &int(1), &string("/lock/n-"), &string(""), &acl, &int(3)]);
        let request = Request::read(&create).unwrap();
        assert_eq!((request.name().as_str(), request.path()), ("create", "/lock/n-"));
        assert_eq!(request.operations[0].kind, OperationKind::Create { is_ephemeral: true });
        assert!(request.writes() && !request.passes());
        let reply = framed(&[&int(7), &9_i64.to_be_bytes(), &int(0), &string("/lock/n-0000000001")]);
        let created = vec!["/lock/n-0000000001".to_owned()];
        assert!(request.arrives(0, &created) && request.arrives(NODE_EXISTS, &[]));
        assert!(!request.arrives(-101, &[]), "the lock's directory is missing");
        assert_eq!(Answer::read(&reply, Some(&request)), Some(Answer::Reply { error: 0, created }));
    }

    #[test]
    fn multi_name_lists_its_operations() {
        let delete = [&int(2)[..], &[0], &int(-1), &string("/lock/a"), &int(-1)].concat();
        let check = [&int(13)[..], &[0], &int(-1), &string("/lock"), &int(3)].concat();
        let end = [&int(-1)[..], &[1], &int(-1)].concat();
        let request = Request::read(&framed(&[&int(2), &int(14), &delete, &check, &end])).unwrap();
        assert_eq!(request.name(), "multi(delete+check)");
        assert_eq!(request.operations[1].path, "/lock");
    }

    #[test]
    fn heartbeats_and_session_closes_are_forwarded_immediately() {
        assert!(Request::read(&ping()).unwrap().passes());
        let closed = Request::read(&close_session()).unwrap();
        assert!(closed.passes() && closed.ends_session());
        let synced = Request::read(&sync()).unwrap();
        assert_eq!((synced.xid, synced.name(), synced.path()), (SYNC, "sync".to_owned(), "/"));
        let watch = framed(&[&int(3), &int(3), &string("/lock/a"), &[1]]);
        assert_eq!(Request::read(&watch).unwrap().name(), "exists+watch");
    }

    #[test]
    fn notification_is_parsed_into_event_and_path() {
        let frame =
            framed(&[&int(-1), &(-1_i64).to_be_bytes(), &int(0), &int(2), &int(3), &string("/lock/a")]);
        let expected = Answer::Notification { event: "deleted", path: "/lock/a".into() };
        assert_eq!(Answer::read(&frame, None), Some(expected));
    }

    #[test]
    fn handshake_reply_contains_the_session_and_its_password() {
        let reply = |id: i64| framed(&[&int(0), &int(40_000), &id.to_be_bytes(), &int(2), &[7, 8], &[0]]);
        assert_eq!(opened_session(&reply(5)), Some((5, vec![7, 8])));
        assert_eq!(opened_session(&reply(0)), None);
        assert_eq!(opened_session(&reply(5)[..20]), None);
    }

    #[test]
    fn truncated_frames_are_rejected() {
        for length in 0..8 {
            assert_eq!(Request::read(&ping()[..length]), None);
            assert_eq!(Answer::read(&ping()[..length], None), None);
        }
    }
}
