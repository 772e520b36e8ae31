//! `completions`, `man`, `schema`: texts that are made from the definitions of the command line and of scenario files.

use super::args::{CompletionsArgs, SchemaArgs, SchemaOf};
use super::{answers, output};
use crate::error::{Error, Exit};
use crate::{ab, compare, fault, lock, plan, report, results, scenario, sweep};

/// Prints a script that completes commands and options in a shell.
///
/// # Errors
/// When stdout cannot be written to.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "zklockbench", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Held)
}

/// Prints the manual page of the program, followed by those of its commands.
///
/// # Errors
/// When stdout cannot be written to.
pub fn man() -> Result<Exit, Error> {
    let mut page = Vec::new();
    let mut command = super::definition();
    command.build();
    let mut render = |command: clap::Command| clap_mangen::Man::new(command).render(&mut page);
    let commands: Vec<_> =
        command.get_subcommands().filter(|sub| sub.get_name() != "help").cloned().collect();
    std::iter::once(command)
        .chain(commands)
        .try_for_each(&mut render)
        .map_err(|error| Error::environment(format!("cannot write the page: {error}")))?;
    output::data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Held)
}

/// Prints the JSON Schema of scenario files, or those of the files of a run, of its summary or of a calibration.
///
/// # Errors
/// When stdout cannot be written to.
pub fn schema(args: &SchemaArgs) -> Result<Exit, Error> {
    match args.of {
        SchemaOf::Scenario => output::json(&scenario::schema(&lock::cards(), &fault::cards()))?,
        SchemaOf::Answer => output::json(&answers::schema())?,
        SchemaOf::Comparison => output::json(&compare::comparison_schema())?,
        SchemaOf::Calibration => output::json(&results::calibration_schema())?,
        SchemaOf::Run => output::json(&serde_json::Map::from_iter(
            results::schemas().map(|(file, schema)| (file.to_owned(), schema.to_value())),
        ))?,
        SchemaOf::Ab => output::json(ab::schema().as_value())?,
        SchemaOf::Sweep => output::json(sweep::schema().as_value())?,
        SchemaOf::Plan => output::json(plan::schema().as_value())?,
        SchemaOf::Summary => output::json(report::summary::schema().as_value())?,
    }
    Ok(Exit::Held)
}
