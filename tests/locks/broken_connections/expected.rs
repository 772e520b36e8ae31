//! What a lock's card says of lost requests, as these stories ask it.

use zklockbench_core::catalog::after::{Event, Outcome};

use crate::support::proxy::Fate;
use crate::support::ways::{self, Way};

/// The article's classes give up at the first lost connection, whatever request it is.
pub fn all() -> impl Iterator<Item = Way> {
    ways::all().filter(Way::is_recipe)
}

/// Whether an acquire goes on after the loss of a request of that kind.
pub fn survives(of: Way, kind: &str, fate: Fate) -> bool {
    goes_on(
        of,
        match (kind, fate) {
            ("create", Fate::RequestLost) => Event::CreateRequestLost,
            ("create", _) => Event::CreateReplyLost,
            ("get_children", _) => Event::ListReplyLost,
            _ => Event::WatchReplyLost,
        },
    )
}

/// Whether a release does.
pub fn releases(of: Way, fate: Fate) -> bool {
    goes_on(of, if fate == Fate::RequestLost { Event::DeleteRequestLost } else { Event::DeleteReplyLost })
}

fn goes_on(of: Way, event: Event) -> bool {
    of.after.outcome(event) == Outcome::GoesOn
}

/// How many requests of a kind are sure to come. One that polls looks as often as it takes, and one that races
/// may lose; with nobody to race against it makes its directory first.
pub fn is_sure_of(of: Way, kind: &str, is_contended: bool) -> usize {
    match (of.name(), kind) {
        ("polling", _) => 2,
        ("ephemeral-node" | "ephemeral-child", "create") if is_contended => 2,
        ("ephemeral-node" | "ephemeral-child", _) if is_contended => 1,
        _ => usize::MAX,
    }
}
