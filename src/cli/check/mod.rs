//! `check`: judge what was recorded: a history, or the trials of a run.

mod shown;

use std::path::Path;

use serde_json::json;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use super::args::CheckArgs;
use super::output;
use super::scenario_source::STDIN;
use crate::check;
use crate::check::history::{Checker, HistoryEnd, Judgement};
use crate::record::{Judged, RunEnding, Trial};
use crate::report::document::Section;
use crate::results::history::{HistoryReader, lines_at};
use crate::results::{self, StoredRun};
use crate::words::error::{Error, Exit};
use crate::words::units::one_line;
use crate::words::verdict::Verdict;
use shown::ShownFinding;

const NAME: &str = "check";

pub async fn execute(args: CheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let stopped = stop.clone();
    super::reading(stop, move || judge(&args, &stopped)).await
}

fn judge(args: &CheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    if args.path.is_dir() { judge_run(args) } else { judge_history(args, || stop.is_cancelled()) }
}

fn conclusion(verdict: &Verdict) -> String {
    let reasons = verdict.reasons().iter().map(|reason| format!("\n  {}", one_line(reason)));
    format!("verdict: {}{}\n", verdict.word(), reasons.collect::<String>())
}

/// After how many events it looks whether it should stop.
const EVENTS_BETWEEN_LOOKS: u64 = 4096;

fn judge_history(args: &CheckArgs, stopped: impl Fn() -> bool) -> Result<Exit, Error> {
    // Its lines are looked up again, which standard input cannot do.
    let spooled = (args.path == Path::new(STDIN)).then(spool).transpose()?;
    let file = spooled.as_ref().map_or(args.path.as_path(), NamedTempFile::path);
    let reader = HistoryReader::open_as(file, &args.path)?;
    let judgement = read_through(reader, args.strict, stopped)?;
    let exit = RunEnding::Complete.exit(&judgement.verdict);
    let shown = |finding| Ok(ShownFinding { finding, lines: lines_at(file, &finding.lines)? });
    let shown: Vec<ShownFinding<'_>> = judgement.findings.iter().map(shown).collect::<Result<_, Error>>()?;
    write_page(args, &judgement.verdict, || shown::of_history(&judgement, &shown))?;
    output::tell(NAME, exit, &shown::machine(&args.path, &judgement, &shown), || {
        let text = shown::text(&args.path, &judgement, &shown, output::width());
        output::text(&format!("{}{text}", conclusion(&judgement.verdict)))
    })
}

fn write_page(
    args: &CheckArgs,
    verdict: &Verdict,
    sections: impl FnOnce() -> Vec<Section>,
) -> Result<(), Error> {
    let Some(file) = &args.html else { return Ok(()) };
    super::report::write(&[shown::page(&args.path, verdict, sections())], None, file)
}

fn spool() -> Result<NamedTempFile, Error> {
    let mut file = NamedTempFile::new()
        .map_err(|error| Error::environment(format!("cannot keep standard input in a file: {error}")))?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file)
        .map_err(|error| Error::environment(format!("cannot read standard input: {error}")))?;
    Ok(file)
}

pub(super) fn read_through(
    mut reader: HistoryReader,
    strict: bool,
    stopped: impl Fn() -> bool,
) -> Result<Judgement, Error> {
    let mut checker = Checker::new(reader.header());
    let mut events = 0_u64;
    while let Some(line) = reader.next_event()? {
        let place = line.place;
        if let Err(what) = line.event().and_then(|event| checker.feed(place, &event)) {
            return Err(reader.mistake(place.line, &what));
        }
        events += 1;
        if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && stopped() {
            return Err(Error::Interrupted);
        }
    }
    Ok(checker.conclude(HistoryEnd { cut_off_at: reader.cut_off_at(), strict }))
}

/// Judges a run by what was recorded of it, and prints what came of that.
fn judge_run(args: &CheckArgs) -> Result<Exit, Error> {
    let StoredRun { run, mut trials, replaced } = results::read(&args.path)?;
    trials.extend(replaced);
    trials.sort_by_key(|trial| trial.spec.index);
    let mut changed = Vec::new();
    for trial in &mut trials {
        let recorded = trial.judged.clone();
        check::judge(trial);
        changed.extend(change(&trial.name(), &recorded, &trial.judged));
    }
    let judged = check::of_run(&trials, run.planned_trials);
    changed.extend(change("the run", &run.judged, &judged));
    let verdict = if args.strict {
        judged.verdict.clone().and(check::zombies(&trials))
    } else {
        judged.verdict.clone()
    };
    write_page(args, &verdict, || shown::of_run(&trials, &changed))?;
    let (exit, error) =
        (RunEnding::Complete.exit(&verdict), (!changed.is_empty()).then(|| does_not_follow(&args.path)));
    let found = || {
        json!({
            "run": args.path.display().to_string(),
            "verdict": verdict.word(),
            "reasons": verdict.reasons(),
            "judged": judged,
            "recorded": run.judged,
            "least_evidence": check::least_evidence(&trials),
            "trials": trials.iter().map(machine).collect::<Vec<_>>(),
            "changed": changed,
        })
    };
    output::conclude(NAME, exit, error, found, || {
        let changed: String = changed.iter().map(|line| format!("! {line}\n")).collect();
        let least = check::least_evidence(&trials)
            .map_or_else(String::new, |least| format!("least evidence in a trial that held: {least}\n"));
        let (path, counts) = (args.path.display(), counts(&trials));
        output::text(&format!("{}{path}: {counts}\n{changed}{least}", conclusion(&verdict)))
    })
}

/// How many trials of a run came to which verdict.
fn counts(trials: &[Trial]) -> String {
    // A single contender has no other to exclude, so that it is not known whether it would be.
    let (alone, contended): (Vec<&Trial>, Vec<&Trial>) = trials
        .iter()
        .partition(|trial| trial.spec.contenders == 1 && matches!(trial.judged.verdict, Verdict::Unknown(_)));
    let count = |word| contended.iter().filter(|trial| trial.judged.verdict.word() == word).count();
    let [held, violated, unknown] = ["held", "violated", "unknown"].map(count);
    let alone = match alone.len() {
        0 => String::new(),
        some => format!("; {some} with a single contender, which has no other to exclude"),
    };
    format!("trials: {}; held {held}, violated {violated}, unknown {unknown}{alone}", trials.len())
}

fn does_not_follow(path: &Path) -> Error {
    Error::usage(format!(
        "{}: the recorded verdicts do not follow from the recorded facts (see above): the run was modified, or \
         judged by another version of the program",
        path.display()
    ))
}

fn change(what: &str, recorded: &Judged, now: &Judged) -> Option<String> {
    let (recorded, now) = (recorded.verdict.word(), now.verdict.word());
    (recorded != now).then(|| format!("{what}: recorded as {recorded}, now {now}"))
}

fn machine(trial: &Trial) -> serde_json::Value {
    json!({
        "index": trial.spec.index,
        "label": trial.spec.strategy.label,
        "contenders": trial.spec.contenders,
        "verdict": trial.judged.verdict.word(),
        "reasons": trial.judged.verdict.reasons(),
        "judged": trial.judged,
        "evidence": trial.evidence,
    })
}
