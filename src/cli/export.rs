//! `export`: what CI reads, of a run that is over.

use serde_json::json;

use super::args::ExportArgs;
use super::output;
use crate::report::ci::CiReport;
use crate::report::{Gated, RunReport, View};
use crate::results;
use crate::words::error::{Error, Exit};

/// Writes the outputs that were asked for. It judges nothing: the exit code says whether they were written.
pub fn execute(args: &ExportArgs) -> Result<Exit, Error> {
    if !args.outputs.is_any() {
        return Err(Error::usage(
            "no output is asked for; name one, e.g. --junit junit.xml (zklockbench export --help lists them)",
        ));
    }
    let (stored, gated) = (results::read(&args.run)?, Gated::of_stored(&args.run)?);
    let prepared = args.outputs.prepare()?;
    let view = View::of(&stored);
    let document = CiReport::of_run(&stored, &RunReport::of(&view, &gated))
        .with_fact("results", &args.run.display().to_string());
    let written = prepared.write(&document)?;
    output::tell("export", Exit::Held, &json!({ "run": args.run, "written": written }), || {
        written.iter().for_each(|path| output::note(&format!("written: {}", path.display())));
        Ok(())
    })
}
