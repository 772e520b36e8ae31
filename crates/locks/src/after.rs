//! Default outcomes after each event that can affect a lock, grouped by the reaction to a lost connection. Cards
//! override individual outcomes.

pub use zklockbench_core::catalog::after::Event::{
    CreateReplyLost, CreateRequestLost, CreatesExhausted, DeleteReplyLost, DeleteRequestLost,
    DirectoryDeleted, ForeignChild, ListReplyLost, NoDirectory, OwnNodeDeleted, SessionExpired, SessionMoved,
    TimedOut, TimedOutInBackOff, WatchReplyLost,
};
pub use zklockbench_core::catalog::after::FailedWith::{ConnectionLoss, NoNode, OwnNodeMissing};
pub use zklockbench_core::catalog::after::Outcome::{
    Fails, FailsAndLeaves, GoesOn, Never, TimesOut, TimesOutAndLeaves, WithoutNode,
};
pub use zklockbench_core::catalog::after::{After, Event, FailedWith, Outcome};

/// Any failure ends the acquire or the release.
pub const ENDS: After = After::NOTHING
    .but([
        (CreateReplyLost, FailsAndLeaves(ConnectionLoss)),
        (CreateRequestLost, Fails(ConnectionLoss)),
        (CreatesExhausted, FailsAndLeaves(ConnectionLoss)),
        (ListReplyLost, Fails(ConnectionLoss)),
        (WatchReplyLost, Fails(ConnectionLoss)),
        (DeleteReplyLost, Fails(ConnectionLoss)),
        (DeleteRequestLost, FailsAndLeaves(ConnectionLoss)),
        (SessionMoved, GoesOn),
        (SessionExpired, Fails(FailedWith::SessionExpired)),
        (TimedOut, TimesOut),
        (TimedOutInBackOff, Fails(ConnectionLoss)),
        (OwnNodeDeleted, Fails(OwnNodeMissing)),
        (ForeignChild, GoesOn),
        (NoDirectory, Fails(NoNode)),
        (DirectoryDeleted, Fails(NoNode)),
    ])
    .trying_creates(Some(1));

/// The lock finds its node again and resends the lost request, within Curator's retry policy.
pub const GOES_ON: After = ENDS
    .but([
        (CreateReplyLost, GoesOn),
        (CreateRequestLost, GoesOn),
        (CreatesExhausted, Fails(ConnectionLoss)),
        (ListReplyLost, GoesOn),
        (WatchReplyLost, GoesOn),
        (DeleteReplyLost, GoesOn),
        (DeleteRequestLost, GoesOn),
        (TimedOutInBackOff, TimesOut),
        (OwnNodeDeleted, GoesOn),
        (NoDirectory, GoesOn),
        (DirectoryDeleted, GoesOn),
    ])
    .trying_creates(Some(4));

/// Like [`GOES_ON`], but an acquire joins only once and fails if its node is gone.
pub const GOES_ON_BY_ONE_NODE: After = GOES_ON.but([
    (CreatesExhausted, FailsAndLeaves(ConnectionLoss)),
    (OwnNodeDeleted, Fails(OwnNodeMissing)),
    (DirectoryDeleted, Fails(NoNode)),
]);

/// The contenders race to create one node. After a lost reply, a contender recognises its own node.
pub const RACES: After = ENDS
    .but([
        (CreateReplyLost, GoesOn),
        (CreateRequestLost, GoesOn),
        (CreatesExhausted, GoesOn),
        (OwnNodeDeleted, Never),
    ])
    .trying_creates(None);

/// Like [`ENDS`], for queues joined by count, where the second contender waits for the first without listing
/// the queue.
pub const ENDS_BY_COUNT: After =
    ENDS.but([(OwnNodeDeleted, WithoutNode), (NoDirectory, GoesOn), (DirectoryDeleted, WithoutNode)]);
