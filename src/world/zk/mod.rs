//! The only door to ZooKeeper: metered sessions, watches stamped on arrival, typed outcomes.

pub mod admin;
mod arrival;
pub mod changes;
mod connect;
mod counting;
mod crate_lock;
mod foreign;
pub mod gate;
mod handshake;
mod inner;
pub mod keep_awake;
mod key;
mod multi;
pub mod nodelay;
mod outcome;
mod overdue;
pub mod reach;
pub mod reactor;
mod session;
mod wire;

pub use arrival::{Arm, Arrival, EventKind, sequence_of};
pub use connect::{Access, Secret, Target, Tls, TlsFiles};
pub use counting::why_not_counting;
pub use foreign::{ForeignSession, SessionStates};
pub use inner::{Observed, Sent, Undated, Watch};
pub use key::{SessionKey, is_own_session, note_own_session};
pub use multi::{Counted, Op};
pub use outcome::Failure;
pub use session::{Created, NodeKind, NodeStat, Session};
pub use zookeeper_client::{Names, SessionState};
