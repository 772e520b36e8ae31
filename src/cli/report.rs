//! `report`: prints the outcome of stored results, such as a run or a plan, and regenerates their page.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::ReportArgs;
use super::output;
use crate::run::give_back_memory;
use zklockbench_analysis::{ab, plan, sweep};
use zklockbench_core::disk;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::distinct_sorted;
use zklockbench_learn::Learned;
use zklockbench_report::document::{Document, Section, Table};
use zklockbench_report::page::{
    Source, document, of_ab, of_calibration, of_learned, of_plan, of_sweep, side_by_side,
};
use zklockbench_report::{Gated, RunReport, View, html};
use zklockbench_results::layout;

pub fn execute(args: &ReportArgs) -> Result<Exit, Error> {
    // Read results one after the other, so only the contents of the page stay in memory.
    let mut documents = Vec::new();
    let mut tables = Vec::new();
    let mut texts = Vec::new();
    for path in &args.runs {
        let Shown { document, text, figures } = Shown::read(path)?;
        documents.push(document);
        texts.push(text);
        tables.extend(figures);
        give_back_memory();
    }
    // Runs from different hosts may have the same name.
    if distinct_sorted(tables.iter().map(|(name, _)| name)).len() < tables.len() {
        let paths = output::paths(&args.runs);
        tables.iter_mut().zip(paths).for_each(|((name, _), path)| *name = path);
    }
    // Only runs can be compared with each other.
    let between = if tables.len() == documents.len() { side_by_side(tables) } else { None };
    let output = match (&args.output, args.runs.as_slice()) {
        (Some(path), _) => path.clone(),
        (None, [run]) => run.join(layout::REPORT),
        (None, _) => PathBuf::from(layout::REPORT),
    };
    // At the default path, replace a special file such as a pipe.
    if args.output.is_none() && output.exists() && !output.is_file() && !output.is_dir() {
        fs::remove_file(&output).map_err(Error::cannot("replace", &output))?;
    }
    write(&documents, between.as_ref(), &output, Some("--output"))?;
    let found = json!({ "runs": output::paths(&args.runs), "report": output.display().to_string() });
    output::tell("report", Exit::Held, &found, || {
        output::text(&format!("{}\nreport: {}", texts.join("\n"), output.display()))
    })
}

/// Contents of a results directory for the page and the terminal.
struct Shown {
    document: Document,
    text: String,
    /// Name of a run and its main metrics; `None` for other results.
    figures: Option<(String, Table)>,
}

impl Shown {
    fn read(path: &Path) -> Result<Self, Error> {
        let style = output::style();
        let other = |document, text| Ok(Self { document, text, figures: None });
        if disk::has(path, plan::FILE.name) {
            let plan = plan::read(path)?;
            return other(of_plan(&plan), zklockbench_report::plan(&plan, style));
        }
        if disk::has(path, sweep::FILE.name) {
            let sweep = sweep::read(path)?;
            return other(of_sweep(&sweep), zklockbench_report::sweep(&sweep, &[], style));
        }
        if disk::has(path, ab::FILE.name) {
            let ab = ab::read(path)?;
            return other(of_ab(&ab), zklockbench_report::ab(&ab, style));
        }
        if disk::has(path, zklockbench_learn::FILE.name) {
            let learned = Learned::read(path)?;
            return other(of_learned(&learned), zklockbench_report::learned(&learned, style));
        }
        if disk::has(path, layout::CALIBRATION) {
            let calibration = zklockbench_results::read_calibration(path)?.calibration;
            return other(of_calibration(&calibration), zklockbench_report::calibration(&calibration, style));
        }
        let stored = zklockbench_results::read(path)?;
        // Resolve `.` and `..`, which are not usable as names.
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = whole.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let gated = Gated::of_stored(path)?;
        let view = View::of(&stored);
        let source = Source { name: &name, stored: &stored, view: &view };
        let report = RunReport::of(&view, &gated);
        let document = document(&source, &report);
        let text = zklockbench_report::terminal(&report, None, style);
        Ok(Self { document, text, figures: Some((name, Table::whole(&view))) })
    }
}

/// Returns the charts; after an error, warns and returns the default, because results are valid without charts.
pub fn drawn<T: Default>(charts: Result<T, Error>) -> T {
    charts.unwrap_or_else(|error| {
        output::warn(format!("charts could not be drawn: {error}"));
        T::default()
    })
}

/// Writes the page of a results directory into that directory. After an error, removes an outdated page, which would
/// be misleading; results are valid without a page.
pub fn write_into(directory: &Path, document: Document) {
    let page = directory.join(layout::REPORT);
    if let Err(error) = write(&[document], None, &page, None) {
        let _ = fs::remove_file(&page);
        output::warn(error);
    }
}

/// Writes a temporary file and renames it, so an incomplete page is never visible. `between` precedes the first
/// of several documents; `option` is the option that specified the file.
pub fn write(
    documents: &[Document],
    between: Option<&Section>,
    path: &Path,
    option: Option<&str>,
) -> Result<(), Error> {
    let page = html::page(documents, between);
    let help = |what: &str| option.map_or_else(String::new, |option| format!("; {what} with {option}"));
    let cannot = |error: std::io::Error| {
        let help = help("choose another file");
        Error::environment(format!("cannot write {}: {error}{help}", path.display()))
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    refuse_if!(path.is_dir(), "{} is a directory{}", path.display(), help("specify a file"));
    // Write to special files, such as /dev/stdout, without replacing them.
    if path.exists() && !path.is_file() {
        return fs::write(path, page).map_err(cannot);
    }
    let mut beside = tempfile::Builder::new().prefix(".report-").tempfile_in(parent).map_err(cannot)?;
    std::io::Write::write_all(&mut beside, page.as_bytes()).map_err(cannot)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    beside.as_file().set_permissions(readable).map_err(cannot)?;
    beside.persist(path).map_err(|error| cannot(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use zklockbench_report::document::{Finding, Tone, Value};

    fn some_document() -> Document {
        Document {
            title: "Title".to_owned(),
            about: String::new(),
            verdict: Value::NotMeasured,
            headline: Finding::new("Outcome", Tone::Plain, "Nothing was measured.".to_owned(), None),
            comes_to: "Findings",
            findings: Vec::new(),
            strategies: Vec::new(),
            sections: Vec::new(),
        }
    }

    #[test]
    fn outdated_page_is_removed_if_the_new_page_cannot_be_written() {
        let place = tempfile::tempdir().unwrap();
        let page = place.path().join(layout::REPORT);
        write_into(place.path(), some_document());
        assert!(page.is_file());
        fs::remove_file(&page).unwrap();
        symlink("/dev/full", &page).unwrap();
        write_into(place.path(), some_document());
        assert!(!page.is_symlink());
    }

    #[test]
    fn write_errors_suggest_another_file_only_if_an_option_specified_the_file() {
        let told = |option: Option<&str>| {
            let written = write(&[some_document()], None, Path::new("/nowhere/page.html"), option);
            written.unwrap_err().to_string()
        };
        assert!(told(Some("--html")).ends_with("; choose another file with --html"));
        assert!(!told(None).contains("--"), "{}", told(None));
    }
}
