//! How much code a lock of the three-strategy comparison is here, counted in its source.

/// What a lock's own code comes to: what it shares with others is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Complexity {
    /// Lines that are neither empty nor a comment.
    pub lines: usize,
    /// Places where it goes one way or another: conditions, loops, arms of a `match`, and each `?`.
    pub branches: usize,
    /// States in which it may be waiting: for a reply, an event or a clock.
    pub states: usize,
}

/// The sources of polling, parent watch and predecessor watch.
pub const SOURCES: [&str; 3] = [
    include_str!("../../lock/articles/polling.rs"),
    include_str!("../../lock/articles/parent_watch.rs"),
    include_str!("../../lock/articles/predecessor_watch.rs"),
];

/// From the lock's type to the tests: its card before that is prose.
pub fn complexity(source: &str) -> Complexity {
    let code = source.split_once("\nstruct ").map_or(source, |(_, code)| code);
    let code = code.split_once("#[cfg(test)]").map_or(code, |(code, _)| code);
    let lines: Vec<&str> =
        code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
    let goes_on = |line: &&&str| !line.starts_with("impl ") && !line.starts_with("#[");
    let times =
        |what: &str| lines.iter().filter(goes_on).map(|line| line.matches(what).count()).sum::<usize>();
    let branching = ["if ", "while ", "loop ", "for ", " => ", "else {"];
    Complexity {
        lines: lines.len(),
        branches: branching.map(times).iter().sum::<usize>() + times("?"),
        states: times(".await"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_code_and_neither_card_nor_comments_nor_tests() {
        let source = "const CARD: &str = \"if it waits\";\nstruct Lock {\n    // if so\n    path: String,\n}\n\n\
                      async fn wait() {\n    if first().await? {\n        return;\n    }\n}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(complexity(source), Complexity { lines: 8, branches: 2, states: 1 });
        assert!(SOURCES.iter().all(|source| complexity(source).states > 0));
    }
}
