//! `articles`: which claims of five articles on ZooKeeper locks hold, by stored runs.

use std::path::{Path, PathBuf};

use super::args::ArticlesArgs;
use super::output;
use crate::answer::articles::{CURATOR_WATCHES, CuratorWatches, Decisions, Evidence, Named, page, text};
use crate::results::{self, layout};
use crate::words::disk::{self, MIB, Unreadable};
use crate::words::error::{Error, Exit};

/// Decides each claim from the runs and calibrations given.
pub fn execute(args: &ArticlesArgs) -> Result<Exit, Error> {
    let mut evidence = Evidence::default();
    for given in &args.runs {
        for dir in directories(given)? {
            add(&mut evidence, &dir)?;
        }
    }
    let mut decisions = Decisions::by(&evidence, args.note.clone());
    if let Some(kept) = args.keep.as_deref().map(kept).transpose()?.flatten() {
        decisions = decisions.or_kept(kept);
    }
    if let Some(file) = &args.keep {
        let json = serde_json::to_string_pretty(&decisions).map_err(Error::environment)?;
        output::file(file, &(json + "\n"))?;
    }
    if let Some(file) = &args.page {
        output::file(file, &page(&decisions))?;
    }
    if output::as_json() {
        output::answer("articles", Exit::Held, &serde_json::json!({ "claims": decisions.claims }))?;
    } else {
        output::data(&text(&decisions))?;
    }
    Ok(Exit::Held)
}

/// The decisions in that file; `None` where there is none yet.
fn kept(file: &Path) -> Result<Option<Decisions>, Error> {
    let text = match disk::read_named(file, 16 * MIB) {
        Err(Unreadable::Missing) => return Ok(None),
        text => text.map_err(|why| why.of(file))?,
    };
    let decisions = disk::from_json(&text).map_err(|error| {
        Error::usage(format!(
            "{}: {error}; --keep takes a file that `articles` has written, or a new one",
            file.display()
        ))
    })?;
    Ok(Some(decisions))
}

fn is_one(dir: &Path) -> bool {
    [layout::RUN, layout::CALIBRATION, CURATOR_WATCHES].iter().any(|file| disk::has(dir, file))
}

/// The directory itself, or, where it is neither a run nor a calibration, those in it that are.
fn directories(given: &Path) -> Result<Vec<PathBuf>, Error> {
    if is_one(given) {
        return Ok(vec![given.to_owned()]);
    }
    let mut within = disk::directories(given).map_err(|error| {
        Error::usage(format!(
            "{}: {error}; name a run, a calibration, or a directory of such",
            given.display()
        ))
    })?;
    within.retain(|dir| is_one(dir));
    if within.is_empty() {
        return Err(Error::usage(format!(
            "{} is neither a run nor a calibration, and there is none in it; scripts/articles makes them",
            given.display()
        )));
    }
    Ok(within)
}

fn add(evidence: &mut Evidence, dir: &Path) -> Result<(), Error> {
    let name = dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()));
    let name = name.unwrap_or_else(|| dir.display().to_string());
    if disk::has(dir, layout::RUN) {
        evidence.runs.push(Named { name, what: results::read(dir)? });
    } else if disk::has(dir, CURATOR_WATCHES) {
        let what = CuratorWatches::read(&dir.join(CURATOR_WATCHES))?;
        evidence.curators.push(Named { name, what });
    } else {
        evidence.calibrations.push(Named { name, what: results::read_calibration(dir)?.calibration });
    }
    Ok(())
}
