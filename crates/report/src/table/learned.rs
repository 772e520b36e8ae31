//! The tables of a learned load.

use super::columns::{Columns, Grid};
use super::layout::Style;
use super::printed::Printed;
use crate::document::Value;
use zklockbench_core::units::{counted, format_micros, listed, number, one_line, percent};
use zklockbench_learn::{Bounded, Family, FamilyKind, HandoffBasis, Learned, SourceKind, Times};

/// The outcome, a table of the families, and remarks.
pub fn learned(learned: &Learned, style: Style) -> String {
    let tables = [families(learned), endings(learned), others(learned)].into_iter();
    let printed = Printed {
        outcome: headline(learned),
        tables: tables.filter(|grid| !grid.is_empty()).collect(),
        remarks: remarks(learned),
        basis: vec![extent(learned)],
        more: learned.unknowable.iter().map(|fact| format!("Not known: {fact}.")).collect(),
        ..Printed::default()
    };
    printed.text(style)
}

/// The number of families, the rate, and the family with the longest waits.
pub fn headline(learned: &Learned) -> String {
    if learned.families.is_empty() {
        let transactions = counted(learned.writes.transactions, "transaction", "transactions");
        return match learned.source.kind {
            SourceKind::Logs => format!("No lock found in {transactions}."),
            SourceKind::Watch => "No lock was used while the ensemble was watched.".to_owned(),
        };
    }
    let families = counted(learned.families.len() as u64 + learned.left_out, "lock family", "lock families");
    let slowest = learned.families.iter().max_by_key(|family| (p99(family), family.acquisitions));
    let sentence = slowest.map_or_else(String::new, |family| {
        let waits =
            family.wait.as_ref().map(|wait| format!("waits p99 {}", format_micros(wait.p99.logged_us)));
        let parts: Vec<String> = waits.into_iter().chain(hottest(family)).collect();
        format!("; {}: {}", one_line(&family.name), parts.join(", "))
    });
    format!("{families}, {} acquisitions/s{sentence}", number(learned.rate()))
}

fn p99(family: &Family) -> u64 {
    family.wait.as_ref().map_or(0, |wait| wait.p99.logged_us)
}

/// The most popular of several locks.
fn hottest(family: &Family) -> Option<String> {
    let key = family.keys.first().filter(|_| family.locks > 1)?;
    Some(format!("one key takes {} of the load", percent(key.share)))
}

fn bounded(times: Option<&Times>, of: fn(&Times) -> Bounded) -> Value {
    Value::or_missing(times, |times| Value::Duration(of(times).logged_us as f64))
}

pub(crate) fn families(learned: &Learned) -> Grid {
    Columns::<&Family>::new()
        .words("family", |family| one_line(&family.name))
        .words("recipe", |family| family.recipe.words())
        .spare(3)
        .explained("by the names of the nodes")
        .numbers("locks", |family| Value::Count(family.locks))
        .spare(2)
        .numbers("acquired", |family| Value::Count(family.acquisitions))
        .numbers("/s", |family| Value::Amount(family.rate))
        .numbers("wait p50", |family| bounded(family.wait.as_ref(), |times| times.p50))
        .spare(1)
        .explained(
            "from the create of the node to the end of the one before; a client's wait is longer by a \
             handoff",
        )
        .numbers("wait p99", |family| bounded(family.wait.as_ref(), |times| times.p99))
        .numbers("hold p50", |family| bounded(family.hold.as_ref(), |times| times.p50))
        .explained("from then to the end of the node; a client's hold is shorter by a handoff")
        .numbers("hold p99", |family| bounded(family.hold.as_ref(), |times| times.p99))
        .spare(1)
        .numbers("sessions", |family| Value::Count(family.sessions))
        .spare(4)
        .numbers("queue", |family| Value::Count(family.longest_queue))
        .spare(5)
        .explained("largest number of nodes in one queue; for a semaphore, of leases")
        .grid("Lock families, as logged", 1, &learned.families)
}

pub(crate) fn endings(learned: &Learned) -> Grid {
    Columns::<&Family>::new()
        .words("family", |family| one_line(&family.name))
        .numbers("released", |family| Value::Count(family.endings.released))
        .numbers("gave up", |family| Value::Count(family.endings.gave_up))
        .explained("deleted by their session before they could hold")
        .numbers("at the grant", |family| Value::or_missing(family.endings.gave_up_at_grant, Value::Count))
        .spare(1)
        .explained(
            "gave up just when the lock was free, distinguished from an acquisition by the number of requests before the delete",
        )
        .numbers("session ended, holding", |family| Value::Count(family.endings.session_ended_holding))
        .spare(1)
        .explained("crashed, expired or closed with the lock held")
        .numbers("session ended, waiting", |family| Value::Count(family.endings.session_ended_waiting))
        .spare(2)
        .numbers("deleted by another", |family| Value::Count(family.endings.broken))
        .spare(2)
        .numbers("open", |family| Value::Count(family.endings.open))
        .spare(1)
        .explained("still there at the end")
        .grid("Ends of the requests", 1, &learned.families)
        .lean()
}

pub(crate) fn others(learned: &Learned) -> Grid {
    let kind = |family: &&Family| match family.kind {
        FamilyKind::Lock => "lock",
        FamilyKind::Election => "election",
        FamilyKind::Registry => "no queue",
    };
    Columns::<&Family>::new()
        .words("family", |family| one_line(&family.name))
        .words("kind", kind)
        .explained("no queue: ephemeral nodes that nothing waits for, such as those of a registry")
        .words("recipe", |family| family.recipe.words())
        .numbers("directories", |family| Value::Count(family.locks))
        .numbers("nodes", |family| Value::Count(family.arrivals))
        .grid("Ephemeral nodes that are not locks", 1, &learned.others)
}

/// Remarks for the reader, most important first.
pub(crate) fn remarks(learned: &Learned) -> Vec<String> {
    let of_families = learned.families.iter().flat_map(family_remarks);
    let bounds = learned.families.first().and_then(handoff);
    doubts(learned).into_iter().map(|doubt| format!("! {doubt}")).chain(of_families).chain(bounds).collect()
}

fn family_remarks(family: &Family) -> Vec<String> {
    let name = one_line(&family.name);
    let staying = family.staying.first().map(|node| {
        let more = match family.staying.len() {
            1 => String::new(),
            all => format!(" ({} more)", all - 1),
        };
        let what = if node.is_holder { "holds" } else { "waits in" };
        format!(
            "! stuck: session {} {what} {} for {}{more}",
            node.session,
            one_line(&node.lock),
            format_micros(node.age_us)
        )
    });
    let lost = family.endings.session_ended_holding;
    let lost = (lost > 0).then(|| {
        format!("{name}: {} ended with their session, not by a release.", counted(lost, "hold", "holds"))
    });
    let empty = family.empty_directories;
    let empty = (empty > family.locks / 2 && empty > 100)
        .then(|| format!("{name}: {empty} empty lock directories are never deleted."));
    staying.into_iter().chain(lost).chain(empty).collect()
}

fn handoff(family: &Family) -> Option<String> {
    let handoff = &family.handoff;
    let [estimate, most] = [handoff.estimate_us, handoff.most_us].map(format_micros);
    let known = match handoff.basis {
        HandoffBasis::Given => return None,
        HandoffBasis::Measured => format!("about {estimate}, as measured"),
        HandoffBasis::Estimated => format!("about {estimate}, at most {most}"),
        HandoffBasis::Bounded => format!("assumed to be {estimate}, at most {most}"),
    };
    Some(format!("Logged holds contain a handoff ({known}). State yours with --handoff."))
}

/// Reasons to doubt the learned load.
fn doubts(learned: &Learned) -> Vec<String> {
    let source = &learned.source;
    let steps = u64::from(source.clock_steps);
    let mut doubts = Vec::new();
    if let Some(logs) = &source.logs {
        doubts.extend(logs.damage.first().map(|damage| {
            let more = if logs.damaged > 1 { format!(" ({} more)", logs.damaged - 1) } else { String::new() };
            format!("damage: {}: {} at byte {}{more}", damage.file, damage.what, damage.at)
        }));
        doubts.extend((logs.missing > 0).then(|| {
            let missing = counted(logs.missing, "transaction is", "transactions are");
            format!("gap: {missing} in no log; name the other servers' directories, too")
        }));
    }
    if let Some(watch) = &source.watch {
        doubts.extend(watch.cut_short.as_ref().map(|why| format!("cut short: {why}")));
        doubts.extend((watch.reconnects > 0).then(|| {
            let lost = counted(watch.reconnects, "time", "times");
            format!("gap: the connection was lost {lost}, and events during that time are not known")
        }));
    }
    doubts.extend((steps > 0).then(|| {
        format!("clock: set back {}; times across that are left out", counted(steps, "time", "times"))
    }));
    doubts.extend(
        source.has_folded_locks.then(|| "locks: too many to keep apart; some were merged".to_owned()),
    );
    doubts
}

/// Extent of the logs or of the watch.
pub(crate) fn extent(learned: &Learned) -> String {
    let (source, writes) = (&learned.source, &learned.writes);
    let lasts = format_micros(source.lasts_us);
    let from = humantime::format_rfc3339_seconds(source.from);
    match (&source.logs, &source.watch) {
        (Some(logs), _) => format!(
            "{} of {} in {} from {from}; locks make {} of all writes.",
            counted(writes.transactions, "transaction", "transactions"),
            counted(logs.directories.len() as u64, "server", "servers"),
            lasts,
            percent(writes.lock_share)
        ),
        (None, Some(watch)) => format!(
            "{} in {lasts} from {from}, at most {} in a second.",
            counted(watch.notifications, "notification", "notifications"),
            watch.most_per_second
        ),
        (None, None) => format!("{lasts} from {from}."),
    }
}

/// The load of a family, in a sentence.
pub(crate) fn sentence(family: &Family) -> String {
    let locks = counted(family.locks, "lock", "locks");
    let sessions = counted(family.sessions, "session", "sessions");
    let zipf =
        family.zipf.map(|exponent| format!("popularity like Zipf's law with s = {}", number(exponent)));
    let bursty = family.dispersion.iter().find(|one| !one.is_like_poisson).map(|one| {
        format!(
            "arrivals in windows of {} {} (index of dispersion {})",
            format_micros(one.window_us),
            if one.index > 1.0 { "come in bursts" } else { "are more even than independent ones" },
            number(one.index)
        )
    });
    let parts: Vec<String> = [Some(locks), Some(sessions), zipf, bursty].into_iter().flatten().collect();
    format!("{}, {}: {}.", family.name, family.recipe.words(), listed(&parts))
}
