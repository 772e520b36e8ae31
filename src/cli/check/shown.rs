//! A finding as it is shown.

use crate::check::history::Finding;

/// A finding with the text of its lines.
#[derive(Debug)]
pub struct Shown<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// The text of each of its lines.
    pub lines: Vec<String>,
}
