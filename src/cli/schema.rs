//! `schema`: the JSON Schema of scenario files.

use super::output;
use crate::error::{Error, Exit};
use crate::{fault, lock, scenario};

/// Prints it.
///
/// # Errors
/// When stdout cannot be written to.
pub fn execute() -> Result<Exit, Error> {
    output::json(&scenario::schema(&lock::cards(), &fault::cards()))?;
    Ok(Exit::Held)
}
