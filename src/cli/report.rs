//! `report`: the page of a run, or of several, made again from what is stored.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::ReportArgs;
use super::output;
use crate::error::{Error, Exit};
use crate::report::page::{Source, document, side_by_side};
use crate::report::{View, html};
use crate::results::{self, StoredRun, layout};

pub fn execute(args: &ReportArgs) -> Result<Exit, Error> {
    let runs: Vec<(String, StoredRun, View)> =
        args.runs.iter().map(|run| read(run)).collect::<Result<_, _>>()?;
    let sources: Vec<Source<'_>> =
        runs.iter().map(|(name, stored, view)| Source { name, stored, view }).collect();
    let output = match (&args.output, args.runs.as_slice()) {
        (Some(path), _) => path.clone(),
        (None, [run]) => run.join(layout::REPORT),
        (None, _) => PathBuf::from(layout::REPORT),
    };
    write(&sources, &output)?;
    if args.json {
        output::answer("report", Exit::Held, &json!({ "runs": args.runs, "report": output }))?;
    } else {
        output::data(&output.display().to_string())?;
    }
    Ok(Exit::Held)
}

fn read(run: &Path) -> Result<(String, StoredRun, View), Error> {
    let stored = results::read(run)?;
    let view = View::of(&stored);
    // `.` and `..` are no names.
    let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let name = whole.file_name().unwrap_or(run.as_os_str()).to_string_lossy().into_owned();
    Ok((name, stored, view))
}

/// Writes the page of these runs beside where it is to be and moves it there, so that nobody opens half of it.
pub fn write(sources: &[Source<'_>], path: &Path) -> Result<(), Error> {
    let documents: Vec<_> = sources.iter().map(document).collect();
    let page = html::page(&documents, side_by_side(sources).as_ref());
    let cannot = |error: std::io::Error| {
        Error::environment(format!(
            "cannot write {}: {error}; choose another file with --output",
            path.display()
        ))
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(Error::usage(format!("{} is a directory; name a file with --output", path.display())));
    }
    // What is no plain file, such as /dev/stdout, is written to and not replaced.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, page).map_err(cannot);
    }
    let mut beside = tempfile::Builder::new().prefix(".report-").tempfile_in(parent).map_err(cannot)?;
    std::io::Write::write_all(&mut beside, page.as_bytes()).map_err(cannot)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    beside.as_file().set_permissions(readable).map_err(cannot)?;
    beside.persist(path).map_err(|error| cannot(error.error))?;
    Ok(())
}
