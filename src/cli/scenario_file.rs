//! Reading a scenario file and making the command line's changes to it.

use std::path::Path;

use super::output;
use super::overrides::Overrides;
use crate::error::Error;
use crate::scenario::{Diagnostics, Parsed, parse};
use crate::{fault, lock};

/// A scenario, ready to run.
pub struct ScenarioFile {
    /// What it says, and advice.
    pub parsed: Parsed,
    /// The text as run.
    pub text: String,
    /// The changes in words.
    pub overrides: Vec<String>,
}

/// Why a scenario cannot be run.
pub enum Unusable {
    /// The file's mistakes.
    Mistakes(Diagnostics),
    /// Something else: no such file, a change that was not understood.
    Other(Error),
}

impl ScenarioFile {
    /// Reads the file, then makes the changes and reads the result again.
    ///
    /// # Errors
    /// Every mistake of the file, each at its place; mistakes that only the changes make are reported for the
    /// changed text.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self, Unusable> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| Unusable::Other(cannot_read(path, &error)))?;
        let (locks, faults) = (lock::cards(), fault::cards());
        let parsed = parse(&name, &text, &locks, &faults).map_err(Unusable::Mistakes)?;
        let Some((text, told)) = overrides.apply(&text).map_err(Unusable::Other)? else {
            return Ok(Self { parsed, text, overrides: Vec::new() });
        };
        let name = format!("{name} with {}", told.join(" "));
        let parsed = parse(&name, &text, &locks, &faults).map_err(Unusable::Mistakes)?;
        Ok(Self { parsed, text, overrides: told })
    }
}

impl Unusable {
    /// Prints the mistakes for people; returns the error that ends the program.
    pub fn report(self, path: &Path) -> Error {
        match self {
            Self::Other(error) => error,
            Self::Mistakes(mistakes) => {
                output::note(&mistakes.render(output::may_colour(&std::io::stderr())));
                let count = mistakes.len();
                let noun = if count == 1 { "mistake" } else { "mistakes" };
                Error::usage(format!("{}: {count} {noun}; nothing was started", path.display()))
            }
        }
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    let help = if error.kind() == std::io::ErrorKind::NotFound {
        "; scenarios that come with zklockbench are in its directory scenarios/"
    } else {
        ""
    };
    Error::usage(format!("cannot read the scenario {}: {error}{help}", path.display()))
}
