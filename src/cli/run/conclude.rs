//! After the last trial: results sealed, charts drawn, the table printed, the exit code found.

use std::path::Path;

use serde_json::json;

use super::{Measured, Session};
use crate::cli::args::RunArgs;
use crate::cli::output;
use crate::error::{Error, Exit};
use crate::record::RunOutcome;
use crate::report::{self, Style, View};
use crate::results::{self, StoredRun};
use crate::verdict::Verdict;

impl Session {
    /// Ends the ensemble, if it is ours, and turns what was measured into results.
    ///
    /// # Errors
    /// What measuring failed with, when there is nothing to keep; or when the results can't be written.
    pub async fn conclude(self, measured: Result<Measured, Error>) -> Result<Exit, Error> {
        let measured = measured?;
        if self.trials.is_empty() {
            return Err(nothing(measured.outcome));
        }
        let (run, verdict) = (self.record(&measured), self.verdict());
        let Self { args, world, writer, .. } = self;
        world.close(&writer.server_logs());
        let sealed = writer.seal(&run, &verdict)?;
        let stored = results::read(sealed.dir())?;
        let view = View::of(&stored);
        draw(&view, sealed.dir());
        let path = sealed.publish()?;
        let exit = exit(&measured.outcome, &verdict);
        print(&args, &stored, &view, &path, exit)?;
        if let RunOutcome::Aborted(why) = &measured.outcome {
            return Err(Error::environment(format!(
                "{why}; what was measured till then is in {}",
                path.display()
            )));
        }
        Ok(exit)
    }
}

fn nothing(outcome: RunOutcome) -> Error {
    match outcome {
        RunOutcome::Aborted(why) => Error::Environment(why),
        RunOutcome::Interrupted | RunOutcome::Complete => Error::Interrupted,
    }
}

/// Charts that can't be drawn cost no results.
fn draw(view: &View, directory: &Path) {
    match report::chart::draw_all(view, &directory.join("charts")) {
        Ok(drawn) => {
            for (chart, why) in drawn.left_out {
                output::note(&format!("note: no chart {chart}: {why}"));
            }
        }
        Err(error) => output::note(&format!("warning: charts could not be drawn: {error}")),
    }
    if let Err(error) = std::fs::write(directory.join("summary.md"), report::markdown(view)) {
        output::note(&format!("warning: summary.md could not be written: {error}"));
    }
}

fn exit(outcome: &RunOutcome, verdict: &Verdict) -> Exit {
    match (outcome, verdict) {
        (RunOutcome::Interrupted, _) => Exit::Interrupted,
        (RunOutcome::Aborted(_), _) => Exit::Environment,
        (RunOutcome::Complete, Verdict::Violated(_)) => Exit::Violated,
        (RunOutcome::Complete, Verdict::Unknown(_)) => Exit::Unknown,
        (RunOutcome::Complete, Verdict::Held) => Exit::Held,
    }
}

fn print(args: &RunArgs, stored: &StoredRun, view: &View, path: &Path, exit: Exit) -> Result<(), Error> {
    if args.json {
        return output::json(&json!({
            "results": path,
            "exit_code": exit as u8,
            "run": stored.run,
            "trials": stored.trials,
        }));
    }
    let colour = output::may_colour(&std::io::stdout());
    let table = report::terminal(view, Style { colour, width: output::width() });
    output::data(&format!(
        "\n{table}\nresults: {}\ncharts:  {}",
        path.display(),
        path.join("charts").display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_complete_run_that_held_is_green() {
        let unknown = || Verdict::Unknown(vec!["why".into()]);
        let violated = || Verdict::Violated(vec!["why".into()]);
        assert_eq!(exit(&RunOutcome::Complete, &Verdict::Held), Exit::Held);
        assert_eq!(exit(&RunOutcome::Complete, &violated()), Exit::Violated);
        assert_eq!(exit(&RunOutcome::Complete, &unknown()), Exit::Unknown);
        assert_eq!(exit(&RunOutcome::Interrupted, &unknown()), Exit::Interrupted);
        assert_eq!(exit(&RunOutcome::Aborted(String::new()), &unknown()), Exit::Environment);
    }
}
