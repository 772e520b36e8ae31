//! A broken rule and its place.

use std::fmt;

/// One place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the repository's root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and the rule.
    pub what: String,
}

impl Violation {
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }

    /// File and line, for tests of the rules.
    pub fn place(&self) -> (&str, usize) {
        (&self.path, self.line)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}
