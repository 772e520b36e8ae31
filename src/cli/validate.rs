//! `validate`: is the file right, what will it run, how long will it take?

use super::args::ValidateArgs;
use super::output;
use super::scenario_file::{ScenarioFile, Unusable};
use crate::error::{Error, Exit};
use crate::scenario::Preview;

/// Shows the plan, or every mistake.
///
/// # Errors
/// A usage error when the file cannot be run.
pub fn execute(args: &ValidateArgs) -> Result<Exit, Error> {
    match ScenarioFile::read(&args.scenario, &args.overrides) {
        Ok(file) if args.json => output::json(&Preview::of(&file.parsed)),
        Ok(file) => output::data(&Preview::of(&file.parsed).to_string()),
        Err(Unusable::Mistakes(mistakes)) if args.json => {
            output::json(&mistakes.machine())?;
            return Ok(Exit::Usage);
        }
        Err(unusable) => return Err(unusable.report(&args.scenario)),
    }?;
    Ok(Exit::Held)
}
