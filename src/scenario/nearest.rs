//! The nearest valid name to one that was mistyped.

/// The candidate that the writer most likely meant, if one is near enough to suggest.
///
/// Case and `_` against `-` cost nothing; otherwise about one slip in three characters is forgiven.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = plain(typed);
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.chars().count().min(typed.chars().count()) / 3).max(1)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The names in backticks, separated by commas.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// `did you mean …?` when something is near, otherwise the other advice.
pub fn did_you_mean<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    nearest(typed, candidates).map_or_else(|| otherwise.to_owned(), |name| format!("did you mean `{name}`?"))
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

fn distance(typed: &str, candidate: &str) -> usize {
    let shorter = typed.len().min(candidate.len());
    let prefix = shorter >= 4 && (typed.starts_with(candidate) || candidate.starts_with(typed));
    if prefix { 1 } else { strsim::damerau_levenshtein(typed, candidate) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["parent-watch", "predecessor-watch", "polling", "no-lock"];

    #[test]
    fn separators_and_case_cost_nothing() {
        assert_eq!(nearest("Parent_Watch", NAMES), Some("parent-watch"));
        assert_eq!(nearest("nolock", NAMES), Some("no-lock"));
    }

    #[test]
    fn a_slip_or_a_beginning_is_forgiven_and_a_stranger_is_not() {
        assert_eq!(nearest("predecesor-watch", NAMES), Some("predecessor-watch"));
        assert_eq!(nearest("predecessor", NAMES), Some("predecessor-watch"));
        assert_eq!(nearest("zebra", NAMES), None);
    }

    #[test]
    fn an_empty_name_is_near_nothing() {
        assert_eq!(nearest("", NAMES), None);
    }
}
