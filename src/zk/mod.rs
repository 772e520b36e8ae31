//! The only door to ZooKeeper: metered sessions, watches stamped on arrival, typed outcomes.

pub mod admin;
mod armed;
pub mod changes;
mod close;
mod connect;
mod crate_lock;
pub mod gate;
mod inner;
pub mod keep_awake;
mod multi;
mod news;
pub mod nodelay;
mod outcome;
mod overdue;
mod placing;
pub mod reactor;
mod session;
mod stamp;
mod watch;
mod wire;

pub use armed::{Arm, Arrival, EventKind, sequence_of};
pub use connect::{Access, Target, TlsFiles};
pub use inner::{Observed, Sent};
pub use multi::Op;
pub use outcome::Failure;
pub use session::{Created, NodeKind, NodeStat, Session, SessionKey};
pub use watch::Watch;
pub use zookeeper_client::{SessionState, StateWatcher};
