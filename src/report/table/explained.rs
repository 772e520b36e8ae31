//! A table with what is said of it.

use super::Table;

/// A table, what it shows in a few words, and what its columns are.
pub(in crate::report) struct ExplainedTable {
    pub caption: &'static str,
    pub table: Table,
    pub legend: String,
}

impl ExplainedTable {
    /// Columns that are 0 everywhere are told instead of shown.
    pub(super) fn without_zeros(caption: &'static str, table: Table, legend: String) -> Self {
        let (table, zeros) = table.without_zeros();
        let zeros =
            if zeros.is_empty() { String::new() } else { format!(" 0 in every row: {}.", zeros.join(", ")) };
        Self { caption, table, legend: legend + &zeros }
    }
}

/// The legend without the explanations of `known` columns that are not among those `shown`.
///
/// A legend is a row of explanations, `heading: what it is`, between semicolons, and of sentences.
pub(super) fn only(legend: &str, known: &[&str], shown: &[&str]) -> String {
    const CUT: char = '\u{1}';
    let cut = legend.replace("; ", &format!("; {CUT}")).replace(". ", &format!(". {CUT}"));
    let is_needed = |part: &&str| match part.split_once(": ") {
        Some((heading, _)) => !known.contains(&heading) || shown.contains(&heading),
        None => true,
    };
    let kept: String = cut.split(CUT).filter(is_needed).collect();
    let kept = kept.trim_end();
    kept.strip_suffix(';').map_or_else(|| kept.to_owned(), |kept| format!("{kept}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_not_explained() {
        let legend = "Medians. acq: acquisition; fan-out: notifications; fairness: Jain's index.";
        let known = ["acq/s", "fan-out", "fairness"];
        assert_eq!(only(legend, &known, &known), legend);
        assert_eq!(
            only(legend, &known, &["acq/s", "fan-out"]),
            "Medians. acq: acquisition; fan-out: notifications."
        );
        assert_eq!(only(legend, &known, &[]), "Medians. acq: acquisition.");
    }
}
