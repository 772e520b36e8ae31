//! The nearest valid name to one that was mistyped.

/// The candidate that the writer most likely meant, if one is near enough to suggest.
///
/// Case and `_` against `-` cost nothing, the order of a name's words and what stands before `:` or `/` next to nothing;
/// otherwise about one slip in three characters is forgiven.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = plain(typed).chars().count();
    candidates
        .into_iter()
        .map(|candidate| (how_far(typed, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count().min(letters) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn how_far(typed: &str, candidate: &str) -> usize {
    const OWNED_BY: [char; 2] = [':', '/'];
    let whole = distance(&plain(typed), &plain(candidate));
    let without_owner = candidate.rsplit_once(OWNED_BY).filter(|_| !typed.contains(OWNED_BY));
    let without_owner =
        without_owner.map(|(_, name)| 1 + strsim::damerau_levenshtein(&plain(typed), &plain(name)));
    let turned = has_same_words(typed, candidate).then_some(1);
    [without_owner, turned].into_iter().flatten().fold(whole, usize::min)
}

/// Whether they have the same words in whatever order: `kill-leader` and `leader-killed`.
fn has_same_words(typed: &str, candidate: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        name.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (typed, mut left) = (words(typed), words(candidate));
    if typed.len() < 2 || typed.len() != left.len() {
        return false;
    }
    let takes = |word: &String| {
        let found = left.iter().position(|other| is_same_word(word, other));
        found.map(|at| left.swap_remove(at)).is_some()
    };
    typed.iter().all(takes)
}

/// The same word, perhaps with another ending.
fn is_same_word(one: &str, other: &str) -> bool {
    let (shorter, longer) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let ending = longer.strip_prefix(shorter);
    ending.is_some_and(|ending| ending.is_empty() || shorter.len() >= 3 && ending.len() <= 3)
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
    fn words_in_another_order_and_with_another_ending_are_the_same_name() {
        let names = ["faults/slow-reader", "faults/leader-killed", "parent-watch"];
        assert_eq!(nearest("faults/kill-leader", names), Some("faults/leader-killed"));
        assert_eq!(nearest("watch-parent", names), Some("parent-watch"));
        assert_eq!(nearest("faults/slow-reader", names), Some("faults/slow-reader"));
        assert_eq!(nearest("watch-the-parent", names), None);
    }

    #[test]
    fn whose_it_is_may_be_left_out() {
        let names = ["baton", "team:TeamLock", "faults/leader-killed"];
        for typed in ["TeamLock", "team_lock", "TeamLok"] {
            assert_eq!(nearest(typed, names), Some("team:TeamLock"), "{typed}");
        }
        assert_eq!(nearest("leader-killed", names), Some("faults/leader-killed"));
        assert_eq!(nearest("other:Batn", names), None);
    }

    #[test]
    fn an_empty_name_is_near_nothing() {
        assert_eq!(nearest("", NAMES), None);
    }
}
