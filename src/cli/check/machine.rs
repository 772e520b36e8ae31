//! A judgement for programs.

use std::path::Path;

use serde_json::{Value, json};

use super::exit;
use super::shown::Shown;
use crate::check::history::{Judgement, LockReport, Overlaps};
use crate::record::history::LockKind;

/// All of it.
pub fn judgement(path: &Path, judgement: &Judgement, shown: &[Shown<'_>]) -> Value {
    json!({
        "history": path.display().to_string(),
        "verdict": judgement.verdict.word(),
        "exit_code": exit(&judgement.verdict) as u8,
        "reasons": judgement.verdict.reasons(),
        "notes": judgement.notes,
        "events": judgement.events,
        "contenders": judgement.contenders,
        "clocks": judgement.clocks,
        "locks": judgement.locks.iter().map(lock).collect::<Vec<_>>(),
        "findings": shown.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn lock(lock: &LockReport) -> Value {
    let overlaps = |of: Overlaps| json!({ "count": of.count, "longest_us": of.longest_us });
    let (order, writes) = (&lock.order, &lock.writes);
    json!({
        "name": lock.name,
        "kind": lock.kind.name(),
        "leases": if let LockKind::Semaphore(leases) = lock.kind { Some(leases) } else { None },
        "acquired": lock.acquired,
        "failed": lock.failed,
        "unknown": lock.unknown,
        "waited": lock.waited,
        "contended": lock.contended,
        "overlaps": {
            "violation": overlaps(lock.violations),
            "zombie": overlaps(lock.zombies),
            "uncertain": overlaps(lock.uncertain),
        },
        "ignored_expiry": lock.ignored_expiry,
        "order": {
            "compared": order.compared,
            "not_compared": order.not_compared,
            "too_early": order.too_early,
            "out_of_order": order.out_of_order,
        },
        "writes": {
            "accepted": writes.accepted,
            "stale_accepted": writes.stale_accepted,
            "stale_rejected": writes.stale_rejected,
            "other_rejected": writes.other_rejected,
            "undecided": writes.undecided + writes.across_clocks + writes.without_token,
        },
        "stuck": lock.stuck,
        "unfinished": lock.unfinished,
    })
}

fn finding(shown: &Shown<'_>) -> Value {
    let finding = shown.finding;
    let lines = finding.lines.iter().zip(&shown.lines);
    let lines: Vec<Value> = lines.map(|(place, text)| json!({ "line": place.line, "text": text })).collect();
    json!({ "breach": finding.breach.name(), "lock": finding.lock, "what": finding.what, "lines": lines })
}
