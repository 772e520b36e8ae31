//! What a lock's own description accounts for: a faithful copy of a lock that stands still where its source does.

use crate::record::Trial;
use crate::words::catalog::{LockCard, Protection};
use crate::words::measure::RequestKind::Create;

/// Why contenders that are stuck, or nodes that are left, are what the lock's description tells of; `None` where it does
/// not account for all of them.
///
/// A lock that looks for its node once can make a second one: a server hid the first, or applied it late. Then everybody is
/// stuck who waits for the first one: its own contender, and the one behind that.
pub fn standing_still(card: &LockCard, trial: &Trial) -> Option<&'static str> {
    let unanswered = trial.whole.requests.get(Create) > trial.whole.succeeded.get(Create);
    let waits_for_itself =
        |of: usize| trial.stuck.iter().any(|one| one.contender == of && one.blocker == Some(of));
    let explained = trial.stuck.iter().all(|one| one.blocker.is_some_and(waits_for_itself));
    let is_hazard = card.guarantees.protection == Protection::Unsynced;
    (is_hazard && unanswered && explained).then_some(
        "after a lost response it looks for its node once, without a sync, and so made a second one",
    )
}
