//! A history, read once from its beginning to its end.

use std::path::Path;

use super::shown::Shown;
use super::{conclusion, machine, output, text};
use crate::check::history::{Checker, Ending, Judgement};
use crate::cli::args::CheckArgs;
use crate::error::Error;
use crate::results::history::{HistoryReader, lines_at};
use crate::verdict::Verdict;

/// After how many events it looks whether it should stop.
const EVENTS_BETWEEN_LOOKS: u64 = 4096;

/// Judges a history and prints what was found.
///
/// # Errors
/// As [`super::execute`].
pub fn judge(args: &CheckArgs, stopped: impl Fn() -> bool) -> Result<Verdict, Error> {
    let judgement = check(&args.path, args.strict, stopped)?;
    let shown = |finding| Ok(Shown { finding, lines: lines_at(&args.path, &finding.lines)? });
    let shown: Vec<Shown<'_>> = judgement.findings.iter().map(shown).collect::<Result<_, Error>>()?;
    if args.json {
        output::json(&machine::judgement(&args.path, &judgement, &shown))?;
    } else {
        let text = text::judgement(&args.path, &judgement, &shown, output::width());
        output::data(&format!("{text}{}", conclusion(&judgement.verdict)))?;
    }
    Ok(judgement.verdict)
}

fn check(path: &Path, strict: bool, stopped: impl Fn() -> bool) -> Result<Judgement, Error> {
    let mut reader = HistoryReader::open(path)?;
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
    Ok(checker.conclude(Ending { cut_off_at: reader.cut_off_at(), strict }))
}
