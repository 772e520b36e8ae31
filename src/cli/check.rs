//! `check`: judges a recorded history or the trials of a run. Prints a table of locks and the lines that show
//! each problem; can also write a page or JSON.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use super::args::CheckArgs;
use super::output;
use super::scenario_source::STDIN;

use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{self, counted, one_line};
use zklockbench_core::verdict::Verdict;
use zklockbench_judge::history::{Breach, Checker, Finding, HistoryEnd, Judgement, LockReport, Overlaps};
use zklockbench_judge::{Difference, Timelines};
use zklockbench_record::history::{Event, LinePosition, LockKind};
use zklockbench_record::{Judged, RunEnding, Timeline, Trial};
use zklockbench_report::document::{self, Block, Document, Section};
use zklockbench_report::page::{filled, noted, section};
use zklockbench_report::picture::{headline, timeline_text};
use zklockbench_report::{Columns, Style};
use zklockbench_results::history::{HistoryReader, lines_at};
use zklockbench_results::{StoredRun, layout};

const NAME: &str = "check";

pub async fn execute(args: CheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let stopped = stop.clone();
    super::reading(stop, move || judge(&args, &stopped)).await
}

fn judge(args: &CheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let stopped = || stop.is_cancelled();
    if args.path.is_dir() { judge_run(args, stopped) } else { judge_history(args, stopped) }
}

/// Maximum number of lines of each kind that are shown without `--all`.
const LINES: usize = 3;

/// Returns the first lines and the number of omitted lines; with `--all`, all lines.
fn first_lines(lines: &[String], style: Style) -> String {
    let most = if style.all { lines.len() } else { LINES };
    let said: String = lines.iter().take(most).map(|line| format!("{line}\n")).collect();
    match lines.len().saturating_sub(most) {
        0 => said,
        more => format!("{said}  and {more} more: --all\n"),
    }
}

fn conclusion(verdict: &Verdict, style: Style) -> String {
    let reasons: Vec<String> =
        verdict.reasons().iter().map(|reason| format!("  {}", one_line(reason))).collect();
    format!("verdict: {}\n{}", verdict.word(), first_lines(&reasons, style))
}

/// Number of events between checks for cancellation.
const EVENTS_BETWEEN_LOOKS: u64 = 4096;

fn judge_history(args: &CheckArgs, stopped: impl Fn() -> bool) -> Result<Exit, Error> {
    // The history is read twice, so a pipe is copied to a file.
    let is_pipe = |path: &Path| path.metadata().is_ok_and(|of| !of.is_file());
    let spooled = match args.path.as_path() {
        path if path == Path::new(STDIN) => Some(spool(std::io::stdin().lock(), "standard input")?),
        path if is_pipe(path) => {
            let pipe = File::open(path).map_err(Error::cannot("read", path))?;
            Some(spool(pipe, &path.display().to_string())?)
        }
        _ => None,
    };
    let file = spooled.as_ref().map_or(args.path.as_path(), NamedTempFile::path);
    let reader = HistoryReader::open_as(file, &args.path)?;
    let asked = HistoryEnd {
        strict: args.strict,
        evidence: args.evidence.unwrap_or_default(),
        ..HistoryEnd::default()
    };
    let judgement = read_through(reader, asked, &stopped)?;
    let exit = RunEnding::Complete.exit(&judgement.verdict);
    let shown = |finding| Ok(ShownFinding { finding, lines: lines_at(file, &finding.lines)? });
    let shown: Vec<ShownFinding<'_>> = judgement.findings.iter().map(shown).collect::<Result<_, Error>>()?;
    let timelines = timelines(file, &judgement, stopped)?;
    write_page(args, &judgement.verdict, "", || of_history(&judgement, &shown, &timelines))?;
    output::tell(NAME, exit, &machine_history(&args.path, &judgement, &shown, &timelines), || {
        let style = output::style();
        let text = text_of_history(&args.path, &judgement, &shown, &timelines, style);
        output::text(&format!("{}\n{text}", conclusion(&judgement.verdict, style)))
    })
}

fn write_page(
    args: &CheckArgs,
    verdict: &Verdict,
    counted: &str,
    sections: impl FnOnce() -> Vec<Section>,
) -> Result<(), Error> {
    let Some(file) = &args.html else { return Ok(()) };
    let page = page(&args.path, verdict, counted, sections());
    super::report::write(&[page], None, file, Some("--html"))
}

fn spool(mut from: impl Read, name: &str) -> Result<NamedTempFile, Error> {
    let cannot = |error| Error::environment(format!("cannot copy {name} to a temporary file: {error}"));
    let mut file = NamedTempFile::new().map_err(cannot)?;
    std::io::copy(&mut from, &mut file).map_err(cannot)?;
    Ok(file)
}

pub(super) fn read_through(
    mut reader: HistoryReader,
    asked: HistoryEnd,
    stopped: impl Fn() -> bool,
) -> Result<Judgement, Error> {
    let mut checker = Checker::new(reader.header());
    each_event(&mut reader, stopped, |place, event| checker.feed(place, event))?;
    Ok(checker.conclude(HistoryEnd { cut_off_at: reader.cut_off_at(), ..asked }))
}

fn each_event(
    reader: &mut HistoryReader,
    stopped: impl Fn() -> bool,
    mut each: impl FnMut(LinePosition, &Event<'_>) -> Result<(), String>,
) -> Result<(), Error> {
    let mut events = 0_u64;
    while let Some(line) = reader.next_event()? {
        let place = line.place;
        if let Err(what) = line.event().and_then(|event| each(place, &event)) {
            return Err(reader.mistake(place.line, &what));
        }
        events += 1;
        if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && stopped() {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// Returns timelines of the first violations, from a second pass over the history.
fn timelines(file: &Path, judgement: &Judgement, stopped: impl Fn() -> bool) -> Result<Vec<Timeline>, Error> {
    if judgement.violations.is_empty() {
        return Ok(Vec::new());
    }
    let mut timelines = Timelines::of(&judgement.violations);
    each_event(&mut HistoryReader::open(file)?, stopped, |_, event| {
        timelines.feed(event);
        Ok(())
    })?;
    Ok(timelines.finish())
}

fn judge_run(args: &CheckArgs, stopped: impl Fn() -> bool) -> Result<Exit, Error> {
    let StoredRun { run, mut trials, replaced } = zklockbench_results::read(&args.path)?;
    trials.extend(replaced);
    trials.sort_by_key(|trial| trial.spec.index);
    let mut changed = Vec::new();
    for trial in &mut trials {
        let recorded = trial.judged.clone();
        zklockbench_judge::judge(trial);
        changed.extend(change(&trial.name(), &recorded, &trial.judged));
    }
    let mut judged = zklockbench_judge::of_run(&trials, run.planned_trials);
    changed.extend(change("the run", &run.judged, &judged));
    if let Some(asked) = args.evidence {
        for trial in &mut trials {
            trial.spec.evidence = trial.spec.evidence.max(asked);
            zklockbench_judge::judge(trial);
        }
        judged = zklockbench_judge::of_run(&trials, run.planned_trials);
    }
    let is_merged = run.workers.as_ref().is_some_and(|workers| workers.parts.len() > 1);
    let (differing, of_histories) = differing(args, &trials, is_merged, stopped)?;
    let mut verdict = judged.verdict.clone().and(of_histories);
    if args.strict {
        verdict = verdict.and(zklockbench_judge::zombies(&trials));
    }
    let counts = counts(&trials);
    write_page(args, &verdict, &format!(" ({counts})"), || of_run(&trials, &changed))?;
    let (exit, error) =
        (RunEnding::Complete.exit(&verdict), (!changed.is_empty()).then(|| does_not_follow(&args.path)));
    let found = || {
        json!({
            "run": args.path.display().to_string(),
            "verdict": verdict.word(),
            "reasons": verdict.reasons(),
            "judged": judged,
            "recorded": run.judged,
            "least_evidence": zklockbench_judge::least_evidence(&trials),
            "trials": trials.iter().map(machine_trial).collect::<Vec<_>>(),
            "changed": changed,
            "histories_differ": differing,
        })
    };
    output::conclude(NAME, exit, error, found, || {
        let style = output::style();
        let changed: Vec<String> = changed.iter().chain(&differing).map(|line| format!("! {line}")).collect();
        let changed = first_lines(&changed, style);
        let least = zklockbench_judge::least_evidence(&trials)
            .map_or_else(String::new, |least| format!("weakest evidence for a verdict of held: {least}\n"));
        let path = args.path.display();
        let pictures = text_of(trials.iter().flat_map(Trial::timelines), style);
        output::text(&format!("{}{pictures}{path}: {counts}\n{changed}{least}", conclusion(&verdict, style)))
    })
}

/// Describes how histories contradict the records of their trials. Also returns the verdict on findings that only
/// histories show. For a merged run, `--evidence` also applies to the evidence across workers.
fn differing(
    args: &CheckArgs,
    trials: &[Trial],
    is_merged: bool,
    stopped: impl Fn() -> bool,
) -> Result<(Vec<String>, Verdict), Error> {
    let (mut differing, mut of_histories) = (Vec::new(), Verdict::Held);
    for trial in trials {
        let history = layout::trial_history(&args.path, trial.spec.index);
        if !history.is_file() {
            continue;
        }
        let judgement = read_through(HistoryReader::open(&history)?, HistoryEnd::default(), &stopped)?;
        for Difference { what, verdict } in zklockbench_judge::differences(trial, &judgement, args.strict) {
            differing.push(format!("{}: {what}", trial.name()));
            of_histories = of_histories.and(verdict);
        }
        if is_merged && args.evidence.is_some() {
            let missing = zklockbench_judge::too_little_across_workers(trial, &judgement);
            if let Some(why) = missing.filter(|why| !trial.unchecked.contains(why)) {
                of_histories = of_histories.and(Verdict::Unknown(vec![format!("{}: {why}", trial.name())]));
            }
        }
    }
    Ok((differing, of_histories))
}

fn counts(trials: &[Trial]) -> String {
    // A trial with a single contender cannot prove mutual exclusion, so its verdict is unknown.
    let (alone, contended): (Vec<&Trial>, Vec<&Trial>) = trials
        .iter()
        .partition(|trial| trial.spec.contenders == 1 && matches!(trial.judged.verdict, Verdict::Unknown(_)));
    let count = |word| contended.iter().filter(|trial| trial.judged.verdict.word() == word).count();
    let [held, violated, unknown] = ["held", "violated", "unknown"].map(count);
    let alone = match alone.len() {
        0 => String::new(),
        some => format!("; {some} with a single contender, which cannot prove exclusion"),
    };
    format!("trials: {}; held {held}, violated {violated}, unknown {unknown}{alone}", trials.len())
}

fn does_not_follow(path: &Path) -> Error {
    Error::usage(format!(
        "{}: the recorded verdicts do not match the recorded facts (see above): the run was modified, or judged \
         by another version of zklockbench",
        path.display()
    ))
}

fn change(what: &str, recorded: &Judged, now: &Judged) -> Option<String> {
    let (recorded, now) = (recorded.verdict.word(), now.verdict.word());
    (recorded != now).then(|| format!("{what}: recorded as {recorded}, now {now}"))
}

fn machine_trial(trial: &Trial) -> Value {
    json!({
        "index": trial.spec.index,
        "label": trial.spec.strategy.label,
        "contenders": trial.spec.contenders,
        "verdict": trial.judged.verdict.word(),
        "reasons": trial.judged.verdict.reasons(),
        "judged": trial.judged,
        "evidence": trial.evidence,
        "bound": trial.describe_evidence(),
        "violations": trial.violations,
    })
}

#[derive(Debug)]
struct ShownFinding<'a> {
    finding: &'a Finding,
    lines: Vec<String>,
}

impl ShownFinding<'_> {
    fn title(&self) -> String {
        let Finding { breach, lock, what, .. } = self.finding;
        one_line(&format!("{}, {lock}: {what}", breach.name()))
    }

    fn excerpt(&self) -> impl Iterator<Item = String> {
        let lines = self.finding.lines.iter().zip(&self.lines);
        lines.map(|(place, text)| format!("line {}: {}", place.line, one_line(text)))
    }
}

/// Maximum number of locks in the table with `--all`. If there are more, locks with problems come first.
const ROWS: usize = 40;
/// Maximum number of locks in the table without `--all`.
const FEW_ROWS: usize = 10;
/// Maximum number of timelines to show, and of findings of each kind to show with their lines.
const SHOWN: usize = 3;

/// Returns the first timeline as text; with `--all`, the first few.
fn text_of<'a>(timelines: impl Iterator<Item = &'a Timeline>, style: Style) -> String {
    let shown = if style.all { SHOWN } else { 1 };
    timelines.take(shown).map(|timeline| timeline_text(timeline) + "\n").collect()
}

fn text_of_history(
    path: &Path,
    judgement: &Judgement,
    shown: &[ShownFinding<'_>],
    timelines: &[Timeline],
    style: Style,
) -> String {
    let Judgement { events, contenders, clocks, .. } = judgement;
    let (events, clocks) = (counted(*events, "event", "events"), counted(*clocks, "clock", "clocks"));
    let contenders = units::contenders(*contenders);
    let mut said = locks(&judgement.locks, style);
    said += &text_of(timelines.iter(), style);
    said += &excerpts(shown, style);
    let notes: Vec<String> = judgement.notes.iter().map(|note| format!("! {}", one_line(note))).collect();
    said += &first_lines(&notes, style);
    said += &format!("{}: {events} of {contenders} on {clocks}\n", path.display());
    said += &format!("evidence: {}\n", judgement.evidence);
    said
}

fn locks(locks: &[LockReport], style: Style) -> String {
    let most = if style.all { ROWS } else { FEW_ROWS };
    let mut order: Vec<&LockReport> = locks.iter().collect();
    if order.len() > most {
        order.sort_by_key(|lock| std::cmp::Reverse(troubles(lock)));
    }
    let said = output::table(grid(order.iter().copied().take(most)), style);
    let more = match order.len().saturating_sub(most) {
        0 => String::new(),
        more => format!("and {} more; --json lists all\n", counted(more, "lock", "locks")),
    };
    format!("{said}\n{more}\n")
}

fn troubles(lock: &LockReport) -> u64 {
    lock.violations.count
        + lock.order.too_early
        + lock.writes.stale_accepted
        + lock.stuck
        + lock.zombies.count
}

fn grid<'a>(locks: impl Iterator<Item = &'a LockReport>) -> document::Table {
    use document::Value;
    // Without a check, show no count, because 0 would look like a result.
    let if_any = |count: u64, looked_at: bool| if looked_at { count.into() } else { Value::NotMeasured };
    let if_written = |lock: &LockReport, count: u64| {
        let writes = &lock.writes;
        if_any(count, writes.accepted + writes.stale_rejected + writes.other_rejected > 0)
    };
    let longest = |lock: &&LockReport| {
        let all = [lock.violations, lock.zombies, lock.uncertain];
        let together = all.into_iter().filter(|overlaps| overlaps.count > 0);
        together.map(|overlaps| overlaps.longest_us).max().map(|us| Value::Duration(us as f64))
    };
    Columns::<&LockReport>::new()
        .words("lock", |lock| lock.name.as_str())
        .words("kind", |lock| lock.kind.name())
        .numbers("acquired", 0, |lock| lock.acquired)
        .numbers("waited", 0, |lock| lock.waited)
        .numbers("violations", 0, |lock| lock.violations.count)
        .numbers("zombies", 2, |lock| lock.zombies.count)
        .numbers("uncertain", 4, |lock| lock.uncertain.count)
        .numbers("longest together", 3, longest)
        .numbers("too early", 1, |lock| if_any(lock.order.too_early, lock.order.compared > 0))
        .numbers("stale writes", 5, |lock| if_written(lock, lock.writes.stale_accepted))
        .numbers("rejected", 6, |lock| if_written(lock, lock.writes.stale_rejected))
        .numbers("stuck", 1, |lock| lock.stuck)
        .table("", 1, locks)
}

/// Returns the first finding with the lines that show it; with `--all`, the first few of each kind.
fn excerpts(shown: &[ShownFinding<'_>], style: Style) -> String {
    let (of_a_kind, in_all) = if style.all { (SHOWN, usize::MAX) } else { (1, 1) };
    let mut said = String::new();
    let (mut breach, mut count): (Option<Breach>, usize) = (None, 0);
    let mut is_printed = |one: &&ShownFinding<'_>| {
        count = if breach == Some(one.finding.breach) { count + 1 } else { 1 };
        breach = Some(one.finding.breach);
        count <= of_a_kind
    };
    let printed: Vec<&ShownFinding<'_>> = shown.iter().filter(|one| is_printed(one)).take(in_all).collect();
    for one in &printed {
        said += &(one.title() + "\n");
        said.extend(one.excerpt().map(|line| format!("  {line}\n")));
    }
    match shown.len() - printed.len() {
        0 => {}
        more if style.all => said += &format!("{more} more findings: --json\n"),
        more => said += &format!("{more} more findings: --all\n"),
    }
    if !said.is_empty() {
        said.push('\n');
    }
    said
}

fn page(path: &Path, verdict: &Verdict, counted: &str, sections: Vec<Section>) -> Document {
    let tone = document::Value::from(verdict).tone();
    let found = |topic: &str, sentence: String| document::Finding::new(topic, tone, sentence, None);
    Document {
        title: "Judgement".to_owned(),
        about: path.display().to_string(),
        verdict: verdict.into(),
        headline: found("Verdict", format!("{}{counted}", verdict.word())),
        comes_to: "Reasons",
        findings: verdict.reasons().iter().map(|reason| found("Why", reason.clone())).collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

/// Returns pictures of the first violations.
fn drawn<'a>(timelines: impl Iterator<Item = &'a Timeline>) -> Section {
    let drawn = timelines.take(SHOWN).map(|timeline| Block::Picture {
        caption: format!("{}.", headline(timeline)),
        picture: timeline.into(),
    });
    section("violations", "What happened", drawn)
}

fn of_history(judgement: &Judgement, shown: &[ShownFinding<'_>], timelines: &[Timeline]) -> Vec<Section> {
    let locks = grid(judgement.locks.iter()).captioned("Evidence about each lock", "");
    let excerpt = |one: &ShownFinding<'_>| Block::Code {
        caption: one.title(),
        text: one.excerpt().collect::<Vec<_>>().join("\n"),
    };
    vec![
        section("locks", "Locks", [locks]),
        drawn(timelines.iter()),
        section("findings", "Lines that show each finding", shown.iter().map(excerpt)),
        section("notes", "Notes", noted(judgement.notes.clone())),
    ]
}

/// Returns the sections of a run's page. `changed` lists verdicts that differ from the record.
fn of_run(trials: &[Trial], changed: &[String]) -> Vec<Section> {
    let verdicts = Columns::<&Trial>::new()
        .words("trial", |trial| trial.spec.index as u64)
        .words("strategy", |trial| trial.spec.strategy.label.as_str())
        .numbers("contenders", 0, |trial| trial.spec.contenders as u64)
        .words("verdict", |trial| {
            document::Value::judged(&trial.judged.verdict, trial.judged.is_only_stuck())
        })
        .words("why", |trial| trial.judged.why.clone().unwrap_or_default())
        .table("", 1, trials)
        .captioned("The verdict on each trial", "");
    vec![
        section("trials", "Trials", [verdicts]),
        drawn(trials.iter().flat_map(Trial::timelines)),
        section("changed", "Verdicts that differ from the record", noted(changed.to_vec())),
    ]
}

fn machine_history(
    path: &Path,
    judgement: &Judgement,
    shown: &[ShownFinding<'_>],
    timelines: &[Timeline],
) -> Value {
    json!({
        "history": path.display().to_string(),
        "verdict": judgement.verdict.word(),
        "reasons": judgement.verdict.reasons(),
        "notes": judgement.notes,
        "evidence": judgement.evidence,
        "events": judgement.events,
        "contenders": judgement.contenders,
        "clocks": judgement.clocks,
        "locks": judgement.locks.iter().map(lock).collect::<Vec<_>>(),
        "findings": shown.iter().map(finding).collect::<Vec<_>>(),
        "timelines": timelines,
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

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::evidence::Sensitivity;

    #[test]
    fn required_evidence_of_a_merged_run_applies_across_its_workers() {
        let dir = tempfile::tempdir().unwrap();
        let history = layout::trial_history(dir.path(), 0);
        std::fs::create_dir(dir.path().join(layout::TRIALS)).unwrap();
        let header = r#"{"format":"zklockbench-history","version":1,"complete":true,"locks":{"lock-0":{"kind":"mutex"}}}"#;
        std::fs::write(history, format!("{header}\n")).unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example");
        let mut trials = zklockbench_results::read(&example).unwrap().trials;
        trials.truncate(1);
        let verdict = |is_merged, evidence| {
            let args = CheckArgs { path: dir.path().to_owned(), strict: false, evidence, html: None };
            differing(&args, &trials, is_merged, || false).unwrap().1
        };
        let asked = Some(Sensitivity::DEFAULT);
        assert!(matches!(verdict(true, asked), Verdict::Unknown(why) if why[0].contains("across workers")));
        assert_eq!((verdict(true, None), verdict(false, asked)), (Verdict::Held, Verdict::Held));
    }
}
