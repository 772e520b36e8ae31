//! What a run comes to, for a terminal and as Markdown.

use super::Style;
use super::markdown_parts::bullets;
use crate::report::conclusions::Conclusion;
use crate::words::units::one_line;

/// A line for each; nothing where there is none.
pub(super) fn conclusions_list(conclusions: &[Conclusion], style: Style) -> Option<String> {
    let line = |one: &Conclusion| wrapped(&one_line(&one.sentence), "  - ", style);
    let lines: Vec<String> = conclusions.iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("Conclusions:\n{}\n", lines.join("\n")))
}

/// A text in lines that fit, with that before the first one and as much room before the others.
pub(super) fn wrapped(text: &str, begin: &str, style: Style) -> String {
    let width = style.width.map_or(usize::MAX, usize::from).max(40);
    let indent = " ".repeat(begin.len());
    let mut lines = vec![begin.to_owned()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { continue };
        if line.chars().count() + word.chars().count() > width && line.len() > indent.len() {
            line.truncate(line.trim_end().len());
            lines.push(format!("{indent}{word} "));
        } else {
            line.push_str(word);
            line.push(' ');
        }
    }
    lines.join("\n").trim_end().to_owned()
}

pub(super) fn conclusions_markdown(conclusions: &[Conclusion]) -> Option<String> {
    bullets(conclusions.iter().map(|one| &one.sentence)).map(|lines| format!("#### Conclusions\n\n{lines}"))
}
