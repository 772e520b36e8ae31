//! Where text goes: data on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

use crate::error::Error;
use crate::units;

/// Writes data to stdout. A reader that went away (`| head`) is no error.
///
/// # Errors
/// When stdout cannot be written to for another reason.
pub fn data(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::environment(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes data to stdout as JSON.
///
/// # Errors
/// As [`data`].
pub fn json(value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::environment(error.to_string()))?;
    data(&text)
}

/// Writes a line for the person who watches to stderr.
pub fn note(text: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes an error to stderr.
pub fn complain(error: &Error) {
    let word = if may_colour(&io::stderr()) { "\u{1b}[1;31merror\u{1b}[0m" } else { "error" };
    note(&format!("{word}: {}", harmless(&error.to_string())));
}

/// The text without what would do something to a terminal: an error quotes whatever was given.
fn harmless(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| line.chars().map(units::harmless).collect()).collect();
    lines.join("\n")
}

/// Whether a stream may be coloured: a terminal, and no `NO_COLOR` in the environment.
pub fn may_colour(stream: &impl IsTerminal) -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !forbidden && !dumb
}

/// How many columns of characters stdout shows; `None` when it is no terminal.
pub fn width() -> Option<u16> {
    console::Term::stdout().size_checked().map(|(_, columns)| columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_lines_but_nothing_else_that_a_terminal_would_obey() {
        assert_eq!(harmless("a\nb\u{1b}[31mc\u{7}"), "a\nb\\u{1b}[31mc\\u{7}");
    }
}
