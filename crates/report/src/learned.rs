//! Renders a learned load for a terminal and as a page: lock families, with charts of arrivals, queues,
//! holds, waits and popularity.

use super::document::{
    Axis, Bar, Bars, Block, Chart, ChartKind, Column, Columns, Curve, Document, Finding, Lines, Link, Mark,
    PlotPoint, Table, Tone, Value, words,
};
use super::page::{fact, filled, noted, program, section, when};
use super::table::{Printed, Style};
use zklockbench_core::units::{
    capitalised, counted, format_micros, joined, listed, number, one_line, percent,
};
use zklockbench_learn::{
    Bounded, Family, FamilyKind, HandoffBasis, Key, Learned, LongWait, ScenarioFile, SourceKind, Times,
};

/// Renders the outcome, a table of the families, and remarks.
pub fn learned(learned: &Learned, style: Style) -> String {
    let printed = Printed {
        outcome: headline(learned),
        tables: vec![families(learned), endings(learned), others(learned)],
        remarks: remarks(learned),
        basis: vec![extent(learned)],
        more: learned.unknowable.iter().map(|fact| format!("Not known: {fact}.")).collect(),
        ..Printed::default()
    };
    printed.text(style)
}

/// Returns a sentence with the number of families, the rate, and the family with the longest waits.
pub fn headline(learned: &Learned) -> String {
    if learned.families.is_empty() {
        let transactions = counted(learned.writes.transactions, "transaction", "transactions");
        return match learned.source.kind {
            SourceKind::Logs => format!("No lock found in {transactions}."),
            SourceKind::Watch => "No lock was used while the ensemble was watched.".to_owned(),
        };
    }
    let families = counted(learned.families.len() as u64 + learned.left_out, "lock family", "lock families");
    let slowest =
        learned.families.iter().max_by_key(|family| (p99(family).unwrap_or(0), family.acquisitions));
    let sentence = slowest.map_or_else(String::new, |family| {
        let waits = p99(family).map(|us| format!("waits p99 {}", format_micros(us)));
        let hottest = family.keys.first().filter(|_| family.locks > 1);
        let hottest = hottest.map(|key| format!("one key takes {} of the load", percent(key.share)));
        format!("; {}: {}", one_line(&family.name), joined(waits.into_iter().chain(hottest), ", "))
    });
    format!("{families}, {} acquisitions/s{sentence}", number(learned.rate()))
}

fn p99(family: &Family) -> Option<u64> {
    family.wait.as_ref().map(|wait| wait.p99.logged_us)
}

fn bounded(times: Option<&Times>, of: fn(&Times) -> Bounded) -> Option<Value> {
    times.map(|times| Value::micros(of(times).logged_us))
}

fn families(learned: &Learned) -> Table {
    Columns::<&Family>::new()
        .words("family", |family| one_line(&family.name))
        .column(Column { spare: 3, ..words("recipe") }, |family| family.recipe.words())
        .explained("inferred from the names of the nodes")
        .numbers("locks", 2, |family| family.locks)
        .numbers("acquired", 0, |family| family.acquisitions)
        .numbers("/s", 0, |family| Value::Amount(family.rate))
        .numbers("wait p50", 1, |family| bounded(family.wait.as_ref(), |times| times.p50))
        .explained(
            "from the creation of the node to the deletion of its predecessor; a client's wait is longer by a \
             handoff",
        )
        .numbers("wait p99", 0, |family| bounded(family.wait.as_ref(), |times| times.p99))
        .numbers("hold p50", 0, |family| bounded(family.hold.as_ref(), |times| times.p50))
        .explained("from the end of the wait to the deletion of the node; a client's hold is shorter by a handoff")
        .numbers("hold p99", 1, |family| bounded(family.hold.as_ref(), |times| times.p99))
        .numbers("sessions", 4, |family| known_sessions(family))
        .numbers("queue", 5, |family| family.longest_queue)
        .explained("largest number of nodes in one queue, including holders; for a semaphore, largest number of holders")
        .table("Lock families, as logged", 1, &learned.families)
}

/// Returns the number of sessions; `None` if it is unknown.
fn known_sessions(family: &Family) -> Option<u64> {
    Some(family.sessions).filter(|count| *count > 0)
}

fn endings(learned: &Learned) -> Table {
    Columns::<&Family>::new()
        .words("family", |family| one_line(&family.name))
        .numbers("released", 0, |family| family.endings.released)
        .numbers("gave up", 0, |family| family.endings.gave_up)
        .explained("deleted by their own session before an acquisition")
        .numbers("at the grant", 1, |family| family.endings.gave_up_at_grant)
        .explained(
            "gave up just as the lock became free; identified by the number of requests before the delete",
        )
        .numbers("session ended, holding", 1, |family| family.endings.session_ended_holding)
        .explained("crashed, expired or closed while holding the lock")
        .numbers("session ended, waiting", 2, |family| family.endings.session_ended_waiting)
        .numbers("deleted by another", 2, |family| family.endings.broken)
        .numbers("open", 1, |family| family.endings.open)
        .explained("still open at the end")
        .table("Ends of the requests", 1, &learned.families)
        .lean()
}

fn others(learned: &Learned) -> Table {
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
        .numbers("directories", 0, |family| family.locks)
        .numbers("nodes", 0, |family| family.arrivals)
        .table("Ephemeral nodes that are not locks", 1, &learned.others)
}

fn remarks(learned: &Learned) -> Vec<String> {
    let of_families = learned.families.iter().flat_map(family_remarks);
    let bounds = learned.families.first().and_then(handoff);
    doubts(learned).into_iter().map(|doubt| format!("! {doubt}")).chain(of_families).chain(bounds).collect()
}

fn family_remarks(family: &Family) -> Vec<String> {
    let name = one_line(&family.name);
    let staying = family.staying.first().map(|node| {
        let more = more(family.staying_nodes.max(family.staying.len() as u64));
        let what = if node.is_holder { "has held" } else { "has waited in" };
        let (lock, age) = (one_line(&node.lock), format_micros(node.age_us));
        format!("! stuck: session {} {what} {lock} for {age}{more}", node.session)
    });
    let lost = family.endings.session_ended_holding;
    let holds = counted(lost, "hold", "holds");
    let lost = (lost > 0).then(|| format!("{name}: {holds} ended with the session, not with a release."));
    let empty = family.empty_directories;
    let is_littered = empty > family.locks / 2 && empty > 100;
    let empty = is_littered.then(|| format!("{name}: {empty} empty lock directories are never deleted."));
    staying.into_iter().chain(lost).chain(empty).collect()
}

/// Returns the number of items besides the first as text; empty if there are none.
fn more(all: u64) -> String {
    if all > 1 { format!(" ({} more)", all - 1) } else { String::new() }
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
    Some(format!("Logged holds include a handoff ({known}). Specify yours with --handoff."))
}

/// Returns reasons to doubt the learned load.
fn doubts(learned: &Learned) -> Vec<String> {
    const UNREAD: &str = "nodes: not all existing nodes were read; requests that wait for the others seem to get the \
        lock at once; narrow --path";
    let if_any = |count: u64, one: &str, many: &str, said: fn(String) -> String| {
        (count > 0).then(|| said(counted(count, one, many)))
    };
    let source = &learned.source;
    let of_logs = source.logs.iter().flat_map(|logs| {
        let damage = logs.damage.first().map(|damage| {
            let (file, what, at, more) = (&damage.file, &damage.what, damage.at, more(logs.damaged));
            format!("damage: {file}, byte {at}: {what}{more}")
        });
        [
            damage,
            if_any(logs.missing, "transaction is", "transactions are", |missing| {
                format!("gap: {missing} missing from all logs; add the directories of the other servers")
            }),
            if_any(logs.uncommitted, "transaction", "transactions", |skipped| {
                format!(
                    "uncommitted: {skipped} of a deposed leader skipped; if a server caught up from a snapshot, add \
                     the snapshots (dataDir)"
                )
            }),
            if_any(logs.unconfirmed, "transaction is", "transactions are", |last| {
                format!(
                    "end: the last {last} not in the logs of a majority of the servers; they may be uncommitted"
                )
            }),
        ]
    });
    let of_watch = source.watch.iter().flat_map(|watch| {
        [
            watch.cut_short.as_ref().map(|why| format!("ended early: {why}")),
            if_any(watch.reconnects, "time", "times", |lost| {
                format!("gap: the connection was lost {lost}; events before each reconnection are unknown")
            }),
            watch.has_unread_nodes.then(|| UNREAD.to_owned()),
        ]
    });
    let steps = if_any(u64::from(source.clock_steps), "time", "times", |times| {
        format!("clock: set back {times}; durations that span a change are excluded")
    });
    let folded =
        source.has_folded_locks.then(|| "locks: too many to distinguish; some were merged".to_owned());
    of_logs.chain(of_watch).chain([steps, folded]).flatten().collect()
}

/// Describes the extent of the logs or of the watch.
fn extent(learned: &Learned) -> String {
    let (source, writes) = (&learned.source, &learned.writes);
    let lasts = format_micros(source.lasts_us);
    let from = humantime::format_rfc3339_seconds(source.from);
    match (&source.logs, &source.watch) {
        (Some(logs), _) => {
            let transactions = counted(writes.transactions, "transaction", "transactions");
            // Files of older versions contain only the directories.
            let servers = if logs.servers == 0 { logs.directories.len() as u64 } else { logs.servers };
            let (servers, share) = (counted(servers, "server", "servers"), percent(writes.lock_share));
            format!(
                "{transactions} of {servers} in {lasts} from {from}; locks account for {share} of all writes."
            )
        }
        (None, Some(watch)) => {
            let seen = counted(watch.notifications, "notification", "notifications");
            format!("{seen} in {lasts} from {from}, at most {} in a second.", watch.most_per_second)
        }
        (None, None) => format!("{lasts} from {from}."),
    }
}

/// Returns the load of a family, in a sentence.
fn sentence(family: &Family) -> String {
    let locks = counted(family.locks, "lock", "locks");
    let sessions = known_sessions(family).map(|count| counted(count, "session", "sessions"));
    let zipf = family.zipf.map(|s| format!("popularity like Zipf's law with s = {}", number(s)));
    let bursty = family.dispersion.iter().find(|one| !one.is_like_poisson).map(|one| {
        let (window, index) = (format_micros(one.window_us), number(one.index));
        let how = if one.index > 1.0 { "come in bursts" } else { "are more even than independent arrivals" };
        format!("arrivals in windows of {window} {how} (index of dispersion {index})")
    });
    let parts: Vec<String> = [Some(locks), sessions, zipf, bursty].into_iter().flatten().collect();
    format!("{}, {}: {}.", family.name, family.recipe.words(), listed(&parts))
}

const FAMILIES: Link = Link { section: "families", text: "lock families" };

pub fn of_learned(learned: &Learned) -> Document {
    let notes = remarks(learned).iter().map(|note| capitalised(note.trim_start_matches("! "))).collect();
    let unknowable = learned.unknowable.iter().map(|fact| capitalised(fact)).collect();
    let facts = Block::Facts(vec![
        fact("Read", extent(learned)),
        fact("From", when(learned.source.from)),
        fact("To", when(learned.source.to)),
        program(&learned.tool_version, learned.tool_commit.as_deref()),
    ]);
    let sections = [
        section(FAMILIES.section, "Lock families", [families(learned), endings(learned)]),
        section("charts", "Over time, by percentile and by lock", charts(learned)),
        section("others", "Ephemeral nodes that are not locks", [others(learned)]),
        section("notes", "Notes", noted(notes)),
        section("scenarios", "Scenarios with these loads", learned.scenarios.iter().flat_map(scenario)),
        section("unknowable", "What cannot be learned this way", noted(unknowable)),
        section("source", "Source", [facts]),
    ];
    let finding = |family| Finding::new("Load", Tone::Plain, sentence(family), Some(FAMILIES));
    Document {
        title: "Locks of a running ensemble".to_owned(),
        about: extent(learned),
        verdict: Value::verdict("learned", Tone::Plain),
        headline: Finding::new("Found", Tone::Plain, headline(learned), Some(FAMILIES)),
        comes_to: "Findings",
        findings: learned.families.iter().take(FINDINGS).map(finding).collect(),
        strategies: learned.families.iter().map(|family| family.name.clone()).collect(),
        sections: filled(sections),
    }
}

const FINDINGS: usize = 6;

fn scenario(scenario: &ScenarioFile) -> [Block; 1] {
    let list = |facts: &[String]| if facts.is_empty() { "nothing".to_owned() } else { facts.join("; ") };
    [Block::Facts(vec![
        fact("Scenario", format!("{} ({})", scenario.file, scenario.family)),
        fact("Learned", list(&scenario.learned)),
        fact("Assumed", list(&scenario.assumed)),
    ])]
}

/// Maximum number of families with a curve in each chart.
const CURVES: usize = 6;
const ROWS: usize = 10;

fn charted(learned: &Learned) -> impl Iterator<Item = (usize, &Family)> {
    learned.families.iter().take(CURVES).enumerate()
}

/// Returns every chart that has data.
fn charts(learned: &Learned) -> Vec<Chart> {
    let arrivals = ["arrivals", "Arrivals over time", "arrivals per second"];
    let queue = ["queue", "Waiting requests over time", "waiting requests"];
    let charts = [
        over_time(learned, arrivals, |family| &family.over_time.arrivals),
        over_time(learned, queue, |family| &family.over_time.waiting),
        distribution(learned, "wait", |family| family.wait.as_ref()),
        distribution(learned, "hold", |family| family.hold.as_ref()),
        keys(learned),
        longest_waits(learned),
    ];
    charts.into_iter().flatten().collect()
}

fn chart(id: &str, title: &str, caption: impl Into<String>, said: String, kind: ChartKind) -> Chart {
    Chart { id: id.to_owned(), title: title.to_owned(), said, caption: vec![caption.into()], kind }
}

fn lines(id: &str, title: &str, caption: &str, x: Axis, y: Axis, series: Vec<Curve>) -> Option<Chart> {
    let said = series.iter().map(|curve| {
        let (low, high) = curve.extremes();
        format!("{}: from {} to {}.", curve.label, y.told(low), y.told(high))
    });
    let said = joined(said, " ");
    (!series.is_empty()).then(|| chart(id, title, caption, said, ChartKind::Lines(Lines::new(x, y, series))))
}

fn over_time(learned: &Learned, [id, title, axis]: [&str; 3], of: fn(&Family) -> &[f64]) -> Option<Chart> {
    let has_any = |(_, family): &(usize, &Family)| of(family).iter().any(|value| *value > 0.0);
    let curve = |(at, family): (usize, &Family)| {
        let bin_s = family.over_time.bin_us as f64 / 1e6;
        let middles = (0_u32..).map(|bin| (f64::from(bin) + 0.5) * bin_s);
        let line: Vec<PlotPoint> = middles.zip(of(family).iter().copied()).collect();
        Curve { line, ..Curve::new(at, one_line(&family.name)) }
    };
    let series: Vec<Curve> = charted(learned).filter(has_any).map(curve).collect();
    let high = series.iter().flat_map(Curve::heights).fold(0.0, f64::max);
    let x = Axis::from_zero("seconds since the first transaction", Curve::furthest(&series, 1.0));
    let caption = "Means over intervals of equal length.";
    lines(id, title, caption, x, Axis::from_zero(axis, high), series)
}

fn distribution(learned: &Learned, id: &str, of: fn(&Family) -> Option<&Times>) -> Option<Chart> {
    let (title, axis) = (format!("{}s by percentile", capitalised(id)), format!("{id}, as logged"));
    let curve = |(at, family): (usize, &Family)| {
        let times = of(family)?;
        let last = times.count.max(2) as f64;
        let rarity = |share: f64| (1.0 / (1.0 - share).max(1.0 / last)).min(last);
        // The log has a resolution of 1 ms, so shorter times are drawn as 1 ms.
        let line: Vec<PlotPoint> =
            times.curve.iter().map(|point| (rarity(point.share), point.us.max(1_000) as f64)).collect();
        Some(Curve::new(at, one_line(&family.name)).through(line, Mark::default()))
    };
    let series: Vec<Curve> = charted(learned).filter_map(curve).collect();
    let samples = Curve::furthest(&series, 2.0);
    let y = Axis::durations(&axis, series.iter().flat_map(Curve::heights));
    let caption =
        "As logged, to the millisecond: a client's hold is shorter by the handoff, and its wait longer.";
    lines(&format!("{id}s"), &title, caption, Axis::percentiles(samples), y, series)
}

fn bars(id: &str, title: &str, caption: String, axis: Axis, rows: Vec<Bar>) -> Chart {
    let said = joined(rows.iter().map(|row| format!("{}: {}.", row.label, row.value)), " ");
    let kind = ChartKind::Bars(Bars { axis, parts: Vec::new(), guides: Vec::new(), rows });
    chart(id, title, caption, said, kind)
}

/// Charts the most popular locks of the busiest family with several locks.
fn keys(learned: &Learned) -> Option<Chart> {
    let family = learned.families.iter().find(|family| family.locks > 1)?;
    let value = |key: &Key| format!("{} ({})", percent(key.share), key.arrivals);
    let row = |key: &Key| Bar::new(0, one_line(&key.lock), 100.0 * key.share, value(key));
    let rows = family.keys.iter().take(ROWS).map(row).collect();
    let most = family.keys.first().map_or(1.0, |key| 100.0 * key.share);
    let axis = Axis::from_zero("share of the requests (%)", most);
    let caption = format!("Locks in the family {}: {}.", one_line(&family.name), family.locks);
    Some(bars("keys", "Most popular locks", caption, axis, rows))
}

/// Charts the longest waits of all families.
fn longest_waits(learned: &Learned) -> Option<Chart> {
    let mut all: Vec<&LongWait> = learned.families.iter().flat_map(|family| &family.longest_waits).collect();
    all.sort_by_key(|wait| std::cmp::Reverse(wait.waited_us));
    all.truncate(ROWS);
    all.sort_by_key(|wait| wait.at_us);
    let most = all.iter().map(|wait| wait.waited_us).max()? as f64 / 1e6;
    let row = |wait: &&LongWait| {
        let label = format!("{} s: {}", number(wait.at_us as f64 / 1e6), one_line(&wait.lock));
        let end = if wait.is_granted { "" } else { ", not granted" };
        let value = format!("{}{end}, session {}", format_micros(wait.waited_us), wait.session);
        Bar::new(0, label, wait.waited_us as f64 / 1e6, value)
    };
    let caption = "In request order; times are in seconds since the first transaction.".to_owned();
    let (axis, rows) = (Axis::from_zero("wait (s)", most), all.iter().map(row).collect());
    Some(bars("longest-waits", "The longest waits", caption, axis, rows))
}
