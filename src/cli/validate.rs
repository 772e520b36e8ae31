//! `validate`: checks a scenario, and shows its trials, their duration, and whether this machine can run them.

use serde::Serialize;

use super::args::ValidateArgs;
use super::output;
use super::run::host;
use super::run::open_ensemble::{Needs, check_compose_file};
use super::scenario_file::ScenarioFile;
use zklockbench_core::error::{Error, Exit};
use zklockbench_scenario::{Preview, Slice, TrialPlan};

#[derive(Serialize)]
struct ValidatedFile<'a> {
    #[serde(flatten)]
    preview: &'a Preview,
    /// Why this machine cannot run the scenario; omitted if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_here: Option<&'a str>,
    /// Notes on keys that overrides made meaningless; omitted if there are none.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    left_out: &'a [String],
}

const NAME: &str = "validate";

/// Prints the plan with warnings, or all errors. Limits of this machine cause only warnings, because a file's
/// validity must not depend on the machine.
pub async fn execute(args: &ValidateArgs) -> Result<Exit, Error> {
    let file = match ScenarioFile::read(&args.scenario, &args.overrides) {
        Ok(file) => file,
        Err(unusable) => return unusable.tell(NAME, &args.scenario),
    };
    let scenario = &file.parsed.scenario;
    if let Some(hosts) = &args.overrides.hosts {
        Needs::of(scenario).check_host_commands(scenario, Some(hosts)).await?;
    }
    let not_here = check_compose_file(scenario).await?;
    let preview = Preview::of(&file.parsed);
    let missing = || Needs::of(scenario).missing_here(scenario);
    let too_large = || host::lacks_memory(&TrialPlan::of(scenario), Slice::WHOLE);
    let not_here = not_here.or_else(missing).or_else(too_large);
    let not_here = not_here.as_deref();
    let found = ValidatedFile { preview: &preview, not_here, left_out: &file.left_out };
    output::tell(NAME, Exit::Held, &found, || {
        output::text(&preview.to_string())?;
        file.left_out.iter().for_each(|left| output::note(&format!("note: {left}")));
        let advice = &file.parsed.warnings;
        if !advice.is_empty() {
            output::verbatim(&advice.render(output::may_colour(&std::io::stderr())));
        }
        if let Some(why) = not_here {
            output::warn(format!("the scenario is valid, but cannot run here: {why}"));
        }
        Ok(())
    })
}
