//! Errors of commands, and their exit codes.

use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid command line or scenario; nothing was started. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Environment failure: no ZooKeeper, cannot connect, ensemble lost, disk full. Exit code 3.
    #[error("{0}")]
    Environment(String),
    /// The requested result is unknown, and the measurement cannot continue. Exit code 4.
    #[error("{0}")]
    Unknown(String),
    /// Interrupted by the user; results so far were kept. Exit code 130.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub fn usage(message: impl std::fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    pub fn environment(message: impl std::fmt::Display) -> Self {
        Self::Environment(message.to_string())
    }

    /// Returns a closure for `map_err` that builds an environment error such as `cannot create results/quick:
    /// permission denied`.
    pub fn cannot<E: std::fmt::Display>(what: &str, path: &Path) -> impl Fn(E) -> Self {
        move |error| Self::environment(format!("cannot {what} {}: {error}", path.display()))
    }

    /// Prepends `what: ` to the message.
    pub fn about(self, what: &str) -> Self {
        match self {
            Self::Usage(why) => Self::Usage(format!("{what}: {why}")),
            Self::Environment(why) => Self::Environment(format!("{what}: {why}")),
            Self::Unknown(why) => Self::Unknown(format!("{what}: {why}")),
            Self::Interrupted => Self::Interrupted,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Environment(_) => Exit::Environment,
            Self::Unknown(_) => Exit::Unknown,
            Self::Interrupted => Exit::Interrupted,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything requested was done, and every promise was kept.
    Held = 0,
    /// A lock broke its promise (two holders at once, or a stuck contender), a gate failed, or a comparison
    /// found a regression.
    Violated = 1,
    /// Invalid usage or scenario; nothing was started.
    Usage = 2,
    /// The environment failed: no ZooKeeper, cannot connect, or the ensemble was lost.
    Environment = 3,
    /// Not enough evidence: a partial run, no acquisition, or an inconclusive gate.
    Unknown = 4,
    /// Interrupted by Ctrl-C or SIGTERM; partial results were kept.
    Interrupted = 130,
}

impl Exit {
    /// All exit codes with their descriptions for the documentation.
    pub const ALL: [(Exit, &'static str); 6] = [
        (Exit::Held, "done; every verdict is \"held\""),
        (
            Exit::Violated,
            "two holders at once, a stuck contender, a failed gate, or a regression in a comparison",
        ),
        (Exit::Usage, "invalid usage or scenario; nothing was started"),
        (Exit::Environment, "no ZooKeeper, no connection, or the ensemble was lost"),
        (
            Exit::Unknown,
            "not enough evidence for a verdict: a partial or invalid run, or an inconclusive gate or comparison",
        ),
        (Exit::Interrupted, "interrupted; the results so far were kept and marked partial"),
    ];
}
