//! `export` and the CI reports: their options, and the code that writes them for finished runs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use serde_json::json;

use super::output;
use super::push::{self, Receiver};
use zklockbench_report::ci::{CiReport, github, junit, openmetrics, trackers};
use zklockbench_report::{Gated, RunReport, View};

use zklockbench_core::error::{Error, Exit};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Directory of the run
    pub run: PathBuf,
    #[command(flatten)]
    pub outputs: Outputs,
}

/// Writes the requested outputs. The exit code reports only whether the outputs were written.
pub fn execute(args: &ExportArgs) -> Result<Exit, Error> {
    refuse_if!(
        !args.outputs.is_any(),
        "no output was requested; specify one, e.g. --junit junit.xml (see zklockbench export --help)"
    );
    let (stored, gated) = (zklockbench_results::read(&args.run)?, Gated::of_stored(&args.run)?);
    let prepared = args.outputs.prepare()?;
    let view = View::of(&stored);
    let document = CiReport::of_run(&stored, &RunReport::of(&view, &gated))
        .with_fact("results", &args.run.display().to_string());
    let written = prepared.write(&document)?;
    let found = json!({ "run": args.run.display().to_string(), "written": output::paths(&written) });
    output::tell("export", Exit::Held, &found, || {
        written.iter().for_each(|path| output::note(&format!("written: {}", path.display())));
        Ok(())
    })
}

/// Options for CI reports.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "For CI")]
pub struct Outputs {
    /// Write verdicts and gates as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// In a GitHub workflow, append to $GITHUB_STEP_SUMMARY and annotate failures
    #[arg(long)]
    pub github: bool,
    /// Write bigger-is-better.json and smaller-is-better.json for github-action-benchmark
    #[arg(long, value_name = "DIR")]
    pub benchmark_action: Option<PathBuf>,
    /// Write Bencher Metric Format
    #[arg(long, value_name = "FILE")]
    pub bencher: Option<PathBuf>,
    /// Write OpenMetrics text
    #[arg(long, value_name = "FILE")]
    pub openmetrics: Option<PathBuf>,
    /// Push metrics to a remote-write receiver, e.g. http://localhost:9090/api/v1/write
    #[arg(long, value_name = "URL", value_parser = push::receiver)]
    pub metrics_push: Option<Receiver>,
}

const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

impl Outputs {
    pub fn is_any(&self) -> bool {
        self.github || self.metrics_push.is_some() || !self.files().is_empty()
    }

    /// Checks that all outputs can be written, and removes output files of an earlier run.
    pub fn prepare(&self) -> Result<Prepared, Error> {
        let files = self.files();
        for (at, file) in files.iter().enumerate() {
            refuse_if!(
                files[..at].contains(file),
                "cannot write two outputs to {}; specify different files",
                file.display()
            );
        }
        let summary = self.github.then(step_summary).transpose()?;
        if let Some(directory) = &self.benchmark_action {
            fs::create_dir_all(directory).map_err(cannot_write(directory))?;
        }
        self.metrics_push.iter().try_for_each(|receiver| receiver.reach().map(drop))?;
        files.iter().try_for_each(|file| clear(file))?;
        Ok(Prepared { outputs: self.clone(), summary })
    }

    /// Returns the output files, except GitHub's summary.
    fn files(&self) -> Vec<PathBuf> {
        let named = [&self.junit, &self.bencher, &self.openmetrics].into_iter().flatten().cloned();
        let both = self
            .benchmark_action
            .iter()
            .flat_map(|directory| [trackers::BIGGER, trackers::SMALLER].map(|name| directory.join(name)));
        named.chain(both).collect()
    }
}

#[derive(Debug)]
pub struct Prepared {
    outputs: Outputs,
    /// Summary file of the GitHub workflow step.
    summary: Option<PathBuf>,
}

impl Prepared {
    pub fn write(&self, document: &CiReport) -> Result<Vec<PathBuf>, Error> {
        let Outputs { junit, benchmark_action, bencher, openmetrics, metrics_push, .. } = &self.outputs;
        let mut written = Vec::new();
        let mut write = |path: &Path, text: String| {
            fs::write(path, text).map_err(cannot_write(path))?;
            written.push(path.to_owned());
            Ok::<(), Error>(())
        };
        if let Some(path) = junit {
            write(path, junit::render(document).map_err(Error::environment)?)?;
        }
        if let Some(directory) = benchmark_action {
            for (name, text) in trackers::benchmark_action(document).map_err(Error::environment)? {
                write(&directory.join(name), text)?;
            }
        }
        if let Some(path) = bencher {
            write(path, trackers::bencher(document).map_err(Error::environment)?)?;
        }
        if let Some(path) = openmetrics {
            write(path, openmetrics::render(document))?;
        }
        if let Some(path) = &self.summary {
            append_summary(path, document)?;
            written.push(path.clone());
            github::annotations(document).iter().for_each(|line| output::note(line));
        }
        // Push last, because the receiver may have become unreachable.
        if let Some(receiver) = metrics_push {
            receiver.push(openmetrics::series(document))?;
        }
        Ok(written)
    }

    /// Reports a failure before the first measurement, because a missing file would look like a skipped step.
    pub fn broke_off(&self, title: &str, began: SystemTime, error: &Error) {
        let outputs = Outputs { junit: self.outputs.junit.clone(), ..Outputs::default() };
        let told = Self { outputs, summary: self.summary.clone() };
        if let Err(error) = told.write(&CiReport::of_failure(title, began, &error.to_string())) {
            output::warn(error);
        }
    }
}

fn step_summary() -> Result<PathBuf, Error> {
    let path = std::env::var_os(STEP_SUMMARY).filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = path.ok_or_else(|| {
        Error::usage(format!("--github works only in a GitHub workflow: {STEP_SUMMARY} is not set"))
    })?;
    to_append(&path)?;
    Ok(path)
}

/// Appends the summary to the step's text, up to GitHub's size limit.
fn append_summary(path: &Path, document: &CiReport) -> Result<(), Error> {
    let there = fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX));
    let text = github::summary(document, github::SUMMARY_AT_MOST.saturating_sub(there));
    if text.is_empty() {
        output::warn(format!("{} has reached GitHub's size limit; no summary was added", path.display()));
        return Ok(());
    }
    to_append(path)?.write_all(text.as_bytes()).map_err(cannot_write(path))
}

/// Removes the file after checking that it is writable.
fn clear(path: &Path) -> Result<(), Error> {
    to_append(path)?;
    // Keep devices and pipes, which are not left over from an earlier run.
    if !path.is_file() {
        return Ok(());
    }
    fs::remove_file(path).map_err(cannot_write(path))
}

fn to_append(path: &Path) -> Result<File, Error> {
    OpenOptions::new().create(true).append(true).open(path).map_err(cannot_write(path))
}

fn cannot_write(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.display();
    move |error| {
        Error::environment(format!("cannot write {path}: {error}; specify a file in an existing directory"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(directory: &Path) -> Outputs {
        Outputs {
            junit: Some(directory.join("junit.xml")),
            bencher: Some(directory.join("bencher.json")),
            ..Outputs::default()
        }
    }

    #[test]
    fn outputs_of_an_earlier_run_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let outputs = outputs(place.path());
        fs::write(place.path().join("junit.xml"), "all green").unwrap();
        outputs.prepare().unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn aborted_run_exports_an_error_but_no_metrics() {
        let place = tempfile::tempdir().unwrap();
        let prepared = outputs(place.path()).prepare().unwrap();
        prepared.broke_off("quick", SystemTime::UNIX_EPOCH, &Error::environment("no ZooKeeper was found"));
        let junit = fs::read_to_string(place.path().join("junit.xml")).unwrap();
        assert!(junit.contains("errors=\"1\"") && junit.contains("no ZooKeeper was found"), "{junit}");
        assert!(!place.path().join("bencher.json").exists());
    }

    #[test]
    fn outputs_to_the_same_file_or_to_a_directory_are_rejected() {
        let place = tempfile::tempdir().unwrap();
        let same = Outputs { openmetrics: Some(place.path().join("bencher.json")), ..outputs(place.path()) };
        let told = same.prepare().unwrap_err();
        assert!(matches!(&told, Error::Usage(why) if why.contains("two outputs")), "{told}");
        let folder = Outputs { junit: Some(place.path().to_owned()), ..Outputs::default() };
        assert!(matches!(folder.prepare(), Err(Error::Environment(_))));
        let nowhere = Outputs { junit: Some(place.path().join("no/junit.xml")), ..Outputs::default() };
        let told = nowhere.prepare().unwrap_err().to_string();
        assert!(told.contains("no/junit.xml"), "{told}");
    }

    #[test]
    fn summary_is_appended_up_to_githubs_size_limit() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("summary.md");
        let document = CiReport::of_failure("quick", SystemTime::UNIX_EPOCH, "why");
        fs::write(&path, "before\n").unwrap();
        append_summary(&path, &document).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n### zklockbench") && text.contains("why"), "{text}");
        let full = "x".repeat(github::SUMMARY_AT_MOST - 10);
        fs::write(&path, &full).unwrap();
        append_summary(&path, &document).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), full);
    }
}
