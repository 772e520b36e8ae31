//! The judgement of a history as it is shown: to people, as a table of the locks and the lines that show what went
//! wrong; or to programs.

use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::check::history::{Breach, Finding, Judgement, LockReport, Overlaps};
use crate::record::history::LockKind;
use crate::words::units::{self, counted, format_micros, one_line};

#[derive(Debug)]
pub struct ShownFinding<'a> {
    pub finding: &'a Finding,
    pub lines: Vec<String>,
}

/// How many locks the table has at most; those that went wrong come first then.
const ROWS: usize = 40;
/// How many findings of each kind are shown with their lines.
const SHOWN: usize = 3;

pub fn text(path: &Path, judgement: &Judgement, shown: &[ShownFinding<'_>], width: Option<u16>) -> String {
    let Judgement { events, contenders, clocks, .. } = judgement;
    let (events, clocks) = (counted(*events, "event", "events"), counted(*clocks, "clock", "clocks"));
    let contenders = units::contenders(*contenders);
    let mut said = format!("{}: {events} of {contenders} on {clocks}\n\n", path.display());
    said += &locks(&judgement.locks, width);
    said += &excerpts(shown);
    said.extend(judgement.notes.iter().map(|note| format!("! {}\n", one_line(note))));
    said
}

fn locks(locks: &[LockReport], width: Option<u16>) -> String {
    let mut order: Vec<&LockReport> = locks.iter().collect();
    if order.len() > ROWS {
        order.sort_by_key(|lock| std::cmp::Reverse(troubles(lock)));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.set_header([
        "LOCK",
        "KIND",
        "ACQUIRED",
        "WAITED",
        "VIOLATIONS",
        "ZOMBIES",
        "UNCERTAIN",
        "LONGEST TOGETHER",
        "TOO EARLY",
        "STALE WRITES",
        "REJECTED",
        "STUCK",
    ]);
    order.iter().take(ROWS).for_each(|lock| {
        table.add_row(row(lock));
    });
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut said: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if order.len() > ROWS {
        said += &format!("and {} more; --json has all\n", counted(order.len() - ROWS, "lock", "locks"));
    }
    said + "\n"
}

fn troubles(lock: &LockReport) -> u64 {
    lock.violations.count
        + lock.order.too_early
        + lock.writes.stale_accepted
        + lock.stuck
        + lock.zombies.count
}

fn row(lock: &LockReport) -> [String; 12] {
    // What was not looked at is no 0.
    let of = |count: u64, looked_at: bool| if looked_at { count.to_string() } else { "-".to_owned() };
    let writes = &lock.writes;
    let written = writes.accepted + writes.stale_rejected + writes.other_rejected > 0;
    let longest = lock.violations.longest_us.max(lock.zombies.longest_us).max(lock.uncertain.longest_us);
    let overlaps = lock.violations.count + lock.zombies.count + lock.uncertain.count;
    [
        one_line(&lock.name),
        lock.kind.name().to_owned(),
        lock.acquired.to_string(),
        lock.waited.to_string(),
        lock.violations.count.to_string(),
        lock.zombies.count.to_string(),
        lock.uncertain.count.to_string(),
        if overlaps > 0 { format_micros(longest) } else { "-".to_owned() },
        of(lock.order.too_early, lock.order.compared > 0),
        of(writes.stale_accepted, written),
        of(writes.stale_rejected, written),
        lock.stuck.to_string(),
    ]
}

/// The first of each kind, with no lines but those that show it.
fn excerpts(shown: &[ShownFinding<'_>]) -> String {
    let mut said = String::new();
    let (mut breach, mut count): (Option<Breach>, usize) = (None, 0);
    for ShownFinding { finding, lines } in shown {
        count = if breach == Some(finding.breach) { count + 1 } else { 1 };
        breach = Some(finding.breach);
        if count > SHOWN {
            continue;
        }
        let line = format!("{}, {}: {}", finding.breach.name(), finding.lock, finding.what);
        said += &(one_line(&line) + "\n");
        for (place, text) in finding.lines.iter().zip(lines) {
            said += &format!("  line {}: {}\n", place.line, one_line(text));
        }
        said.push('\n');
    }
    said
}

pub fn machine(path: &Path, judgement: &Judgement, shown: &[ShownFinding<'_>]) -> Value {
    json!({
        "history": path.display().to_string(),
        "verdict": judgement.verdict.word(),
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
        "seen_inside": lock.seen_inside,
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

fn finding(shown: &ShownFinding<'_>) -> Value {
    let finding = shown.finding;
    let lines = finding.lines.iter().zip(&shown.lines);
    let lines: Vec<Value> = lines.map(|(place, text)| json!({ "line": place.line, "text": text })).collect();
    json!({ "breach": finding.breach.name(), "lock": finding.lock, "what": finding.what, "lines": lines })
}
