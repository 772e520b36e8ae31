//! Outcomes of lost requests according to each lock's card, in the form that these scenarios need.

use zklockbench_core::catalog::after::{Event, Outcome};

use crate::support::proxy::Fate;
use crate::support::ways::{self, Way};

/// Every lock except the article's classes, which give up at the first lost connection.
pub fn all() -> impl Iterator<Item = Way> {
    ways::all().filter(Way::is_recipe)
}

/// Returns whether an acquire continues after the loss of a request of this kind.
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

/// Returns whether a release continues after its request or reply is lost.
pub fn releases(of: Way, fate: Fate) -> bool {
    goes_on(of, if fate == Fate::RequestLost { Event::DeleteRequestLost } else { Event::DeleteReplyLost })
}

fn goes_on(of: Way, event: Event) -> bool {
    of.after.outcome(event) == Outcome::GoesOn
}

/// Number of requests of a kind that are sent in every repetition of a scenario; polls and races may add more.
/// `usize::MAX` for locks that always send the same requests.
pub fn is_sure_of(of: Way, kind: &str, is_contended: bool) -> usize {
    match (of.name(), kind) {
        ("polling", _) => 2,
        ("ephemeral-node" | "ephemeral-child", "create") if is_contended => 2,
        ("ephemeral-node" | "ephemeral-child", _) if is_contended => 1,
        _ => usize::MAX,
    }
}
