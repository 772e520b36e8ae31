//! What a run comes to, for a terminal and as Markdown.

use super::Style;
use super::markdown::bullets;
use crate::report::conclusions::Conclusion;
use crate::words::units::one_line;

/// The first, which is the most telling, to stand before everything else; and a line for each of the others, for the end.
/// Nothing where there is none.
pub fn said(conclusions: &[Conclusion], style: Style) -> (String, String) {
    let line = |one: &Conclusion, begin: &str| wrapped(&one_line(&one.sentence), begin, style);
    let Some((first, others)) = conclusions.split_first() else { return Default::default() };
    let others: String = others.iter().map(|one| line(one, "  - ") + "\n").collect();
    let others = if others.is_empty() { others } else { format!("Conclusions:\n{others}\n") };
    (line(first, "") + "\n", others)
}

/// A text in lines that fit, with that before the first one and as much room before the others.
fn wrapped(text: &str, begin: &str, style: Style) -> String {
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

/// The same as Markdown.
pub fn conclusions_markdown(conclusions: &[Conclusion]) -> String {
    bullets(conclusions.iter().map(|one| &one.sentence))
        .map_or_else(String::new, |lines| format!("\n#### Conclusions\n\n{lines}\n"))
}
