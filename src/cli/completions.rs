//! `completions`: a script that completes commands and options in a shell.

use super::args::CompletionsArgs;
use super::output;
use crate::error::{Error, Exit};

/// Prints it.
///
/// # Errors
/// When stdout cannot be written to.
pub fn execute(args: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "zklockbench", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Held)
}
