//! `articles`: checks the claims of five articles on ZooKeeper locks against stored runs.

use std::path::{Path, PathBuf};

use super::args::ArticlesArgs;
use super::output;
use zklockbench_analysis::articles::{
    CURATOR_FACTS, DECISIONS_VERSION, Decisions, Evidence, Named, evidence_page, text,
};
use zklockbench_core::disk::{self, MIB, Unreadable};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::counted;
use zklockbench_results::{VersionedFile, layout};

pub fn execute(args: &ArticlesArgs) -> Result<Exit, Error> {
    let mut evidence = Evidence { sources: Some(zklockbench_locks::COMPARED_SOURCES), ..Evidence::default() };
    let mut kept_at: Vec<PathBuf> = args.keep.iter().cloned().collect();
    for given in &args.runs {
        let (usable, others) = directories(given)?;
        report_others(given, &others);
        for dir in usable {
            add(&mut evidence, &dir)?;
        }
        let beside = given.join(DECISIONS);
        if disk::has(given, DECISIONS) && !kept_at.contains(&beside) {
            kept_at.push(beside);
        }
    }
    let mut decisions = Decisions::by(&evidence, args.note.clone());
    for file in kept_at {
        if let Some(kept) = kept(&file)? {
            decisions = decisions.or_kept(kept);
        }
    }
    if let Some(file) = &args.keep {
        let json = serde_json::to_string_pretty(&decisions).map_err(Error::environment)?;
        output::file(file, &(json + "\n"))?;
    }
    if let Some(file) = &args.page {
        output::file(file, &evidence_page(&decisions))?;
    }
    let found = serde_json::json!({ "claims": decisions.claims });
    output::tell("articles", Exit::Held, &found, || output::text(&text(&decisions)))
}

/// File with earlier decisions, in the directory of their runs.
const DECISIONS: &str = "decisions.json";
const DECISIONS_FILE: VersionedFile = VersionedFile {
    of: "decision on claims",
    name: DECISIONS,
    version: DECISIONS_VERSION,
    remedy: "specify a new file with --keep, or a file that `articles` wrote",
};

fn kept(file: &Path) -> Result<Option<Decisions>, Error> {
    match disk::read_named(file, 16 * MIB) {
        Err(Unreadable::Missing) => Ok(None),
        text => DECISIONS_FILE.parse(file, &text.map_err(|why| why.of(file))?).map(Some),
    }
}

fn is_one(dir: &Path) -> bool {
    [layout::RUN, layout::PACKED, layout::CALIBRATION, CURATOR_FACTS].iter().any(|file| disk::has(dir, file))
}

fn report_others(given: &Path, others: &[PathBuf]) {
    let Some(first) = others.first().and_then(|dir| dir.file_name()) else { return };
    let kept = match disk::has(given, DECISIONS) {
        true => format!("; their decisions in {DECISIONS} are kept"),
        false => String::new(),
    };
    output::note(&format!(
        "{}: skipped {} neither a run nor a calibration, e.g. {}{kept}",
        given.display(),
        counted(others.len() as u64, "directory that is", "directories that are"),
        first.to_string_lossy()
    ));
}
/// Returns the given directory if usable; otherwise, its usable and its unusable subdirectories.
fn directories(given: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    if is_one(given) {
        return Ok((vec![given.to_owned()], Vec::new()));
    }
    let within = disk::directories(given).map_err(|error| {
        Error::usage(format!(
            "{}: {error}; specify a run, a calibration, or a directory that contains them",
            given.display()
        ))
    })?;
    let (usable, others): (Vec<PathBuf>, Vec<PathBuf>) = within.into_iter().partition(|dir| is_one(dir));
    refuse_if!(
        usable.is_empty(),
        "{} is neither a run nor a calibration, and contains none; `scripts/articles` creates them",
        given.display()
    );
    Ok((usable, others))
}

fn add(evidence: &mut Evidence, dir: &Path) -> Result<(), Error> {
    let name = dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()));
    let name = name.unwrap_or_else(|| dir.display().to_string());
    if disk::has(dir, layout::RUN) {
        evidence.runs.push(Named { name, what: zklockbench_results::read(dir)? });
    } else if disk::has(dir, layout::PACKED) {
        evidence.runs.push(Named { name, what: zklockbench_results::read_packed(dir)? });
    } else if disk::has(dir, CURATOR_FACTS) {
        let file = dir.join(CURATOR_FACTS);
        let text = disk::read(dir, CURATOR_FACTS, MIB).map_err(|why| why.of(&file))?;
        let what =
            disk::from_json(&text).map_err(|error| Error::usage(format!("{}: {error}", file.display())))?;
        evidence.curators.push(Named { name, what });
    } else {
        evidence
            .calibrations
            .push(Named { name, what: zklockbench_results::read_calibration(dir)?.calibration });
    }
    Ok(())
}
