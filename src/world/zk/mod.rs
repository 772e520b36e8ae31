//! The only door to ZooKeeper: metered sessions, watches stamped on arrival, typed outcomes.

pub mod admin;
mod arrival;
pub mod changes;
mod connect;
pub mod gate;
mod handshake;
mod inner;
pub mod keep_awake;
mod multi;
pub mod nodelay;
mod outcome;
pub mod reach;
pub mod reactor;
mod session;
mod whose;
mod wire;

pub use arrival::{Arm, Arrival, EventKind, sequence_of};
pub use connect::{Access, Secret, Target, Tls, TlsFiles};
pub use inner::{Observed, Sent, Undated, Watch};
pub use multi::{Counted, Op, why_not_counting};
pub use outcome::Failure;
pub use session::{Created, NodeKind, NodeStat, Session};
pub use whose::{ForeignSession, SessionKey, SessionStates, is_own_session, note_own_session};
pub use zookeeper_client::{Names, SessionState};
