//! Output for GitHub workflows: a step summary in Markdown, and annotations.
//!
//! GitHub drops a step summary above 1 MiB, and all but ten annotations of a kind. So the worst entries come
//! first, and omitted entries are counted.

use super::{CellFigures, Check, CiReport};
use zklockbench_core::units::counted;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Figure;

/// GitHub's size limit for a step summary, in bytes.
pub const SUMMARY_AT_MOST: usize = 1024 * 1024;
/// GitHub's limit for annotations of one kind per step.
pub const ANNOTATIONS_AT_MOST: usize = 10;

/// Bytes reserved for the counts of omitted entries.
const RESERVE: usize = 500;
const TEXT_AT_MOST: usize = 500;

/// Returns the summary, at most `most` bytes long; empty if not even its first lines fit.
pub fn summary(document: &CiReport, most: usize) -> String {
    let mut page = Page { text: String::new(), left: most.saturating_sub(RESERVE) };
    let (about, counts) = (format!("zklockbench: {}", text(&document.title)), document.counts());
    let (title, bold) = match &document.headline {
        Some(headline) => (text(headline), format!("{about}: {counts}")),
        None => (about, counts),
    };
    if !page.push(&format!("### {title}\n\n**{bold}**\n\n")) {
        return String::new();
    }
    let troubles = document.troubles();
    let heading = "| check | verdict | why |\n| --- | --- | --- |\n";
    let more = ["more check did not pass", "more checks did not pass"];
    let trouble = |check: &&Check| {
        let sign = if matches!(check.verdict, Verdict::Violated(_)) { "❌" } else { "❔" };
        let [name, why] = [check.name.clone(), check.verdict.why().unwrap_or_default()].map(|one| text(&one));
        format!("| {}: {name} | {sign} {} | {why} |\n", check.kind.name(), check.word())
    };
    page.list(heading, troubles.iter().map(trouble), more);
    if let Some(place) = document.fact("measured on") {
        page.push(&format!("Measured on: {}.\n\n", text(place)));
    }
    let values = || document.cells.iter().flat_map(|cell| &cell.values);
    let is_measured = |figure: &Figure| values().any(|value| value.figure == *figure);
    let columns: Vec<Figure> = super::tracked().filter(is_measured).collect();
    let rows = document.cells.iter().map(|cell| row(cell, &columns));
    let names: String = columns.iter().map(|figure| format!(" {} |", text(&figure.to_string()))).collect();
    let rules = " ---: |".repeat(columns.len());
    let heading = format!("| strategy, contenders | valid | verdict |{names}\n| --- | ---: | --- |{rules}\n");
    page.list(&heading, rows, ["more row", "more rows"]);
    let notes = document.notes.iter().map(|note| format!("- {}\n", text(note)));
    page.list("", notes, ["more note", "more notes"]);
    page.text
}

/// Text up to a size limit.
struct Page {
    text: String,
    left: usize,
}

impl Page {
    fn push(&mut self, text: &str) -> bool {
        let fits = text.len() <= self.left;
        if fits {
            self.left -= text.len();
            self.text += text;
        }
        fits
    }

    /// Adds a heading, as many lines as fit, and the number of omitted lines. `more` is the noun for the
    /// omitted lines, in the singular and plural. Omits the heading if there are no lines.
    fn list(&mut self, heading: &str, lines: impl ExactSizeIterator<Item = String>, more: [&str; 2]) {
        let count = lines.len();
        let mut shown = 0;
        for line in lines {
            // The heading is written together with the first line.
            let line = if shown == 0 { format!("{heading}{line}") } else { line };
            if !self.push(&line) {
                break;
            }
            shown += 1;
        }
        if shown < count {
            self.text += &format!("\n… and {}\n", counted(count - shown, more[0], more[1]));
            self.left = 0;
        }
        if count > 0 {
            self.text += "\n";
        }
    }
}

fn row(cell: &CellFigures, columns: &[Figure]) -> String {
    let value = |figure: &Figure| {
        let value = cell.values.iter().find(|value| value.figure == *figure);
        format!(" {} |", value.map_or_else(|| "-".to_owned(), |value| text(&value.shown())))
    };
    let verdict = cell.verdict.as_ref().map_or("-", Verdict::word);
    let (sound, ran) = (cell.repetitions.sound, cell.repetitions.ran);
    let values: String = columns.iter().map(value).collect();
    format!("| {} | {sound} of {ran} | {verdict} |{values}\n", text(&cell.name()))
}

/// Returns a text that Markdown shows verbatim, on one line and cut to [`TEXT_AT_MOST`] characters.
fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for letter in raw.chars().take(TEXT_AT_MOST) {
        match letter {
            '\\' | '`' | '*' | '_' | '~' | '|' | '[' | ']' | '$' | '#' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("&#64;"),
            ':' => safe.push_str("&#58;"),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe + if raw.chars().nth(TEXT_AT_MOST).is_some() { "…" } else { "" }
}

/// Returns the annotations, one workflow command per line. All are errors, because an unknown verdict also
/// fails the step.
pub fn annotations(document: &CiReport) -> Vec<String> {
    let troubles = document.troubles();
    let is_too_many = troubles.len() > ANNOTATIONS_AT_MOST;
    // The last annotation counts the omitted ones.
    let shown = if is_too_many { ANNOTATIONS_AT_MOST - 1 } else { troubles.len() };
    let cut = |text: String| text.chars().take(TEXT_AT_MOST).collect::<String>();
    let annotation = |check: &&Check| {
        let title = format!("{} {}: {}", check.kind.name(), check.word(), check.name);
        command(&cut(title), &cut(check.verdict.why().unwrap_or_default()))
    };
    let mut lines: Vec<String> = troubles.iter().take(shown).map(annotation).collect();
    if is_too_many {
        let rest = counted(troubles.len() - shown, "more check", "more checks");
        lines.push(command("zklockbench", &format!("and {rest} did not pass; see the step summary")));
    }
    lines
}

/// Returns a workflow command with the escapes that the runner expects.
fn command(title: &str, message: &str) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = data(title).replace(':', "%3A").replace(',', "%2C");
    format!("::error title={property}::{}", data(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_a_github_annotation() {
        let line = command("a::b,c=d\ne", "100% sure\r\n::set-output name=x::y");
        assert_eq!(line, "::error title=a%3A%3Ab%2Cc=d%0Ae::100%25 sure%0D%0A::set-output name=x::y");
        assert_eq!(line.lines().count(), 1);
        // Text that looks escaped is unchanged after unescaping.
        assert_eq!(command("%0A", "%3A"), "::error title=%250A::%253A");
    }

    #[test]
    fn markdown_text_is_shown_verbatim() {
        assert_eq!(text("<b>|`*_#@x https://y & z"), "&lt;b&gt;\\|\\`\\*\\_\\#&#64;x https&#58;//y &amp; z");
        assert_eq!(text("a\nb"), "a b");
        assert_eq!(text(&"x".repeat(600)).chars().count(), TEXT_AT_MOST + 1);
    }
}
