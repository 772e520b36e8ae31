//! What a run comes to, for a terminal and as Markdown.

use super::Style;
use super::markdown::bullets;
use crate::report::conclusions::Conclusion;
use crate::units::one_line;

/// A line for each; nothing where there is none.
pub fn said(conclusions: &[Conclusion], style: Style) -> String {
    if conclusions.is_empty() {
        return String::new();
    }
    let width = style.width.map_or(usize::MAX, usize::from).max(40);
    let line = |one: &Conclusion| wrapped(&one_line(&one.sentence), width);
    let lines: Vec<String> = conclusions.iter().map(line).collect();
    format!("Conclusions:\n{}\n\n", lines.join("\n"))
}

/// A text in lines of so many characters, the first with a dash before it.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::from("  -")];
    for word in text.split(' ') {
        let free = lines.last().is_none_or(|line| line.chars().count() + 1 + word.chars().count() <= width);
        if !free {
            lines.push(String::from("   "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// The same as Markdown.
pub fn conclusions_markdown(conclusions: &[Conclusion]) -> String {
    bullets(conclusions.iter().map(|one| &one.sentence))
        .map_or_else(String::new, |lines| format!("\n#### Conclusions\n\n{lines}\n"))
}
