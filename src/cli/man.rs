//! `man`: the manual page, from the same definition as `--help`.

use super::output;
use crate::error::{Error, Exit};

/// Prints the page of the program, followed by those of its commands.
///
/// # Errors
/// When stdout cannot be written to.
pub fn execute() -> Result<Exit, Error> {
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
