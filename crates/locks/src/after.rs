//! What most locks do after each event, by what they do about a lost connection. A card says where its own differs.

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

/// Takes every failure for the end of the acquire or the release.
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

/// Finds its node again, and sends again what was lost, by Curator's policy.
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

/// As [`GOES_ON`], but an acquire joins only once: it fails when what it has made then is gone.
pub const GOES_ON_BY_ONE_NODE: After = GOES_ON.but([
    (CreatesExhausted, FailsAndLeaves(ConnectionLoss)),
    (OwnNodeDeleted, Fails(OwnNodeMissing)),
    (DirectoryDeleted, Fails(NoNode)),
]);

/// Races for one node: what a create whose reply was lost has made is the contender's own.
pub const RACES: After = ENDS
    .but([
        (CreateReplyLost, GoesOn),
        (CreateRequestLost, GoesOn),
        (CreatesExhausted, GoesOn),
        (OwnNodeDeleted, Never),
    ])
    .trying_creates(None);

/// As [`ENDS`], joined by count: as the second it waits for the end of the one before and looks at nothing else.
pub const ENDS_BY_COUNT: After =
    ENDS.but([(OwnNodeDeleted, WithoutNode), (NoDirectory, GoesOn), (DirectoryDeleted, WithoutNode)]);
