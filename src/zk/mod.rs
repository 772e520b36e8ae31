//! The only door to ZooKeeper: metered sessions, watches stamped on arrival, typed outcomes.

pub mod admin;
pub mod changes;
mod connect;
pub mod nodelay;
mod outcome;
mod session;
mod stamp;
mod watch;
mod wire;

pub use connect::{Access, Target, TlsFiles};
pub use outcome::Failure;
pub use session::{Created, NodeKind, Observed, Session};
pub use watch::{Arm, Arrival, EventKind, Watch, sequence_of};
