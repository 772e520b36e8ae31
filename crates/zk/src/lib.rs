//! The suite's only interface to ZooKeeper: metered sessions, watches timestamped on arrival, typed failures.

mod access;
pub mod admin;
mod alarm;
mod caught_up;
pub mod changes;
mod connect;
pub mod counter;
mod directories;
pub mod gate;
mod inner;
pub mod keep_awake;
mod messages;
mod multi;
mod notification;
mod pem;
pub mod reach;
pub mod runtime;
mod session;
pub mod throttle;
mod tls;
mod whose;
mod wire;

use zookeeper_client::{Error as ClientError, SaslFailure};

pub use access::{Access, Sasl, Secret};
pub use caught_up::CaughtUp;
pub use connect::Target;
pub use directories::directories;
pub use inner::{Observed, Sent, Undated, Watch};
pub use messages::{Message, MessageKind, Messages};
pub use multi::{Op, why_not_counting};
pub use notification::{Arm, EventKind, Notification, sequence_of};
pub use session::{Created, NodeStat, Session, close};
pub use tls::{Tls, TlsFiles};
pub use whose::{ForeignSession, SessionKey, SessionStates, is_own_session, note_own_session, session_of};
pub use zookeeper_client::{CreateMode as NodeKind, Names, SessionState, sessions_not_resumed};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("no node")]
    NoNode,
    #[error("node exists")]
    NodeExists,
    #[error("not empty")]
    NotEmpty,
    #[error("not authorized")]
    NoAuth,
    /// The session has no watch on that node.
    #[error("no watch")]
    NoWatch,
    /// The servers do not accept the session's identity.
    #[error("{0}")]
    NotAuthenticated(String),
    /// Any other error from the server.
    #[error("refused: {0}")]
    Refused(String),
    /// The connection broke while the request was in flight; the request may have taken effect.
    #[error("connection loss")]
    ConnectionLoss,
    /// The server announced a reply beyond the size limit, so the connection was closed. The request may have
    /// taken effect.
    #[error(
        "the server announced a reply of {length} bytes, which exceeds the limit of {} MiB (in Java clients: jute.maxbuffer)",
        .limit >> 20
    )]
    ReplyTooLong {
        /// Announced length in bytes.
        length: usize,
        limit: usize,
    },
    /// The server broke the protocol, so the connection was closed. The request may have taken effect.
    #[error("{0}")]
    Protocol(String),
    /// No reply before the request's own deadline; the request may have taken effect. The client library
    /// itself would wait for a reconnect until the session expires.
    #[error("no reply")]
    NoReply,
    /// The session is over; its ephemeral nodes are deleted or will be deleted soon.
    #[error("session expired")]
    SessionExpired,
    /// The client could not connect, or its session was closed.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// The contender's queue node is not in the list although the session is alive.
    #[error("own node missing")]
    OwnNodeMissing,
    /// The sequence numbers of new nodes in this directory are no longer unique; see [`counter`].
    #[error("the sequence counter of {0} is used up: use a fresh lock directory")]
    CounterUsedUp(String),
    /// The driver that owned the session failed or was killed.
    #[error("{0}")]
    DriverEnded(String),
    /// The driver cannot determine whether the request took effect.
    #[error("the driver's answer: {0}")]
    DriverInDoubt(String),
}

impl Failure {
    pub fn is_definite(&self) -> bool {
        !matches!(
            self,
            Self::ConnectionLoss
                | Self::ReplyTooLong { .. }
                | Self::Protocol(_)
                | Self::NoReply
                | Self::SessionExpired
                | Self::NotConnected(_)
                | Self::NotAuthenticated(_)
                | Self::DriverEnded(_)
                | Self::DriverInDoubt(_)
        )
    }

    pub fn session_survives(&self) -> bool {
        !matches!(
            self,
            Self::SessionExpired
                | Self::NotConnected(_)
                | Self::NotAuthenticated(_)
                | Self::NoReply
                | Self::DriverEnded(_)
        )
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoNode => "no node",
            Self::NodeExists => "node exists",
            Self::NotEmpty => "not empty",
            Self::NoAuth => "not authorized",
            Self::NoWatch => "no watch",
            Self::NotAuthenticated(_) => "not authenticated",
            Self::Refused(_) => "refused",
            Self::ConnectionLoss => "connection loss",
            Self::ReplyTooLong { .. } => "reply too long",
            Self::Protocol(_) => "protocol error",
            Self::NoReply => "no reply",
            Self::SessionExpired => "session expired",
            Self::NotConnected(_) => "not connected",
            Self::OwnNodeMissing => "own node missing",
            Self::CounterUsedUp(_) => "the directory's counter is used up",
            Self::DriverEnded(_) => "driver ended",
            Self::DriverInDoubt(_) => "driver in doubt",
        }
    }
}

/// Returns the four bytes of the length as text if they are printable, which indicates another protocol's
/// greeting.
fn text_in(length: usize) -> Option<String> {
    let bytes = u32::try_from(length).ok()?.to_be_bytes();
    bytes.iter().all(u8::is_ascii_graphic).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::NoNode => Self::NoNode,
            ClientError::NodeExists => Self::NodeExists,
            ClientError::NotEmpty => Self::NotEmpty,
            ClientError::NoAuth => Self::NoAuth,
            ClientError::AuthFailed => Self::NotAuthenticated(NO_DIGEST.to_owned()),
            ClientError::NoWatcher => Self::NoWatch,
            ClientError::SessionExpired | ClientError::SessionMoved => Self::SessionExpired,
            ClientError::Sasl(why) => Self::NotAuthenticated(not_authenticated(&why)),
            ClientError::ClientClosed | ClientError::NoHosts | ClientError::Timeout => {
                Self::NotConnected(error.to_string())
            }
            ClientError::FrameTooLong { length, limit } => match text_in(length) {
                Some(text) => {
                    Self::Protocol(format!("not a ZooKeeper server: its reply starts with `{text}`"))
                }
                None => Self::ReplyTooLong { length, limit },
            },
            ClientError::Misconduct { .. } | ClientError::UnmarshalError { .. } => {
                Self::Protocol(error.to_string())
            }
            // Resets and read timeouts arrive as `Custom`. Without a reply, the request may have taken
            // effect, so the error counts as a lost connection.
            ClientError::ConnectionLoss | ClientError::Custom(_) | ClientError::UnexpectedError(_) => {
                Self::ConnectionLoss
            }
            other => Self::Refused(other.to_string()),
        }
    }
}

/// Reason for a failed authentication without SASL: digest is the only other scheme that sessions use.
const NO_DIGEST: &str = "the servers do not accept the digest identity given with --auth: enable their \
                         DigestAuthenticationProvider, or use --sasl";

/// Describes the cause and the remedy of a failed authentication.
fn not_authenticated(why: &SaslFailure) -> String {
    match why {
        SaslFailure::Required => {
            "the servers require authentication: set --sasl to a SASL user, and set ZKLOCKBENCH_SASL_PASSWORD; if \
             enforce.auth.schemes in their zoo.cfg is digest, set --auth-file; if it is x509, --tls-cert and --tls-key"
        }
        SaslFailure::NotOffered => {
            "the servers do not support SASL: remove --sasl, or start them with a JAAS file that contains a `Server` section"
        }
        SaslFailure::Mechanism => {
            "the servers do not accept this SASL mechanism: for digest-md5, their JAAS file must contain a DigestLoginModule; \
             for Kerberos, use --sasl gssapi"
        }
        SaslFailure::Identity => "the servers rejected the user or password given with --sasl",
        other => return format!("SASL failed: {other}"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_the_length_field_is_reported_as_another_protocol() {
        let answer =
            |length| Failure::from(ClientError::FrameTooLong { length, limit: 16 << 20 }).to_string();
        let http = usize::try_from(u32::from_be_bytes(*b"HTTP")).unwrap();
        assert_eq!(answer(http), "not a ZooKeeper server: its reply starts with `HTTP`");
        assert!(answer(1 << 31).contains("jute.maxbuffer"));
    }

    #[test]
    fn rejected_identity_is_reported_with_the_option_to_set() {
        for (error, remedy) in [
            (ClientError::AuthFailed, "given with --auth: enable their DigestAuthenticationProvider"),
            (
                ClientError::Sasl(SaslFailure::Required),
                "enforce.auth.schemes in their zoo.cfg is digest, set --auth-file",
            ),
        ] {
            let failure = Failure::from(error);
            assert!(
                matches!(failure, Failure::NotAuthenticated(_)) && failure.to_string().contains(remedy),
                "{failure}"
            );
        }
    }

    #[test]
    fn only_replies_from_the_server_are_definite() {
        assert!(Failure::from(ClientError::NoNode).is_definite());
        assert!(Failure::from(ClientError::BadVersion).is_definite());
        assert!(!Failure::from(ClientError::ConnectionLoss).is_definite());
        assert!(!Failure::from(ClientError::FrameTooLong { length: 1 << 31, limit: 16 << 20 }).is_definite());
        let server = "127.0.0.1:2181".to_owned();
        let what = "sent 1001 notifications that no watch asked for".to_owned();
        let flooded = Failure::from(ClientError::Misconduct { server, what });
        assert_eq!(flooded.to_string(), "127.0.0.1:2181 sent 1001 notifications that no watch asked for");
        assert!(!flooded.is_definite());
        let unreadable = ClientError::UnmarshalError { entity: "stat", reason: &"insufficient buf" };
        assert!(!Failure::from(unreadable).is_definite());
        assert!(!Failure::NoReply.is_definite());
    }
}
