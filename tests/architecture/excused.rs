//! Outside tests, `unwrap` and `expect` need an `#[allow]` that covers them, with a reason beside it.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::source::Source;
use crate::violation::Violation;

const METHODS: [(&str, &str); 2] = [("unwrap", "unwrap_used"), ("expect", "expect_used")];

/// Calls without an excuse, and excuses without a reason.
pub fn check(tree: &[Source]) -> Vec<Violation> {
    tree.iter().flat_map(file).collect()
}

fn file(source: &Source) -> Vec<Violation> {
    let mut seen = Seen::default();
    seen.stream(&source.tokens);
    let unexcused = seen.calls.iter().filter(|(lint, line)| {
        !seen.excuses.iter().any(|excuse| excuse.lint == *lint && excuse.covers.contains(line))
    });
    let unexcused = unexcused
        .map(|(lint, line)| (*line, format!("a call that `clippy::{lint}` finds: handle the failure")));
    let without_reason = seen.excuses.iter().filter(|excuse| !has_reason(source, excuse.line));
    let without_reason = without_reason
        .map(|excuse| (excuse.line, format!("`{}` is allowed without a `//` reason", excuse.lint)));
    unexcused
        .chain(without_reason)
        .filter(|(line, _)| !source.is_test(*line))
        .map(|(line, what)| Violation::at(&source.path, line, what))
        .collect()
}

fn has_reason(source: &Source, line: usize) -> bool {
    let text = |line: usize| source.text.lines().nth(line - 1).unwrap_or_default();
    let is_comment = |text: &str| text.trim().starts_with("//") && !text.trim().starts_with("///");
    text(line).contains("//") || (line > 1 && is_comment(text(line - 1)))
}

/// An `#[allow]` of one lint, and the lines of what it stands before.
struct Excuse {
    lint: &'static str,
    line: usize,
    covers: RangeInclusive<usize>,
}

#[derive(Default)]
struct Seen {
    calls: Vec<(&'static str, usize)>,
    excuses: Vec<Excuse>,
}

impl Seen {
    fn stream(&mut self, stream: &TokenStream) {
        let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
        for (position, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    self.attribute(&tokens, position, group);
                    self.stream(&group.stream());
                }
                TokenTree::Ident(name) => self.call(&tokens, position, name),
                _ => {}
            }
        }
    }

    /// `.unwrap(`, and `Option::unwrap` given as a function.
    fn call(&mut self, tokens: &[TokenTree], position: usize, name: &proc_macro2::Ident) {
        let before = position.checked_sub(1).and_then(|before| tokens.get(before));
        let is_call = matches!(before, Some(TokenTree::Punct(punct)) if matches!(punct.as_char(), '.' | ':'));
        let Some((_, lint)) = METHODS.iter().find(|(method, _)| name == method) else { return };
        // Clippy's own lint names stand after `::` as well, but are other words.
        if is_call {
            self.calls.push((lint, name.span().start().line));
        }
    }

    fn attribute(&mut self, tokens: &[TokenTree], position: usize, group: &Group) {
        let before = |back: usize| position.checked_sub(back).and_then(|at| tokens.get(at));
        let is_punct = |token: Option<&TokenTree>, wanted| matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted);
        let inner = is_punct(before(1), '!') && is_punct(before(2), '#');
        if group.delimiter() != Delimiter::Bracket || !(inner || is_punct(before(1), '#')) {
            return;
        }
        let line = group.span_open().start().line;
        let end =
            if inner { tokens.last() } else { tokens[position + 1..].iter().find(|token| ends_item(token)) };
        let end = end.map_or(line, |token| token.span().end().line);
        for lint in lints_allowed(group) {
            self.excuses.push(Excuse { lint, line, covers: line..=end });
        }
    }
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    }
}

fn lints_allowed(attribute: &Group) -> Vec<&'static str> {
    let text = attribute.stream().to_string();
    if !text.starts_with("allow") && !text.starts_with("expect") {
        return Vec::new();
    }
    METHODS.iter().map(|(_, lint)| *lint).filter(|lint| text.contains(lint)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&[Source::parse("src/a.rs", text)]).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_bare_unwrap_and_a_bare_expect_are_found() {
        assert_eq!(lines("fn f() {\n    a.unwrap();\n    b\n        .expect(\"c\");\n}\n"), [2, 4]);
        assert_eq!(lines("fn f() {\n    vec![a.unwrap()];\n    b.map(Option::unwrap);\n}\n"), [2, 3]);
        assert_eq!(lines("fn f() { a.unwrap_or_default(); expect(); }\n"), []);
    }

    #[test]
    fn an_allowed_call_needs_a_reason_beside_or_above() {
        let call = "fn f() { a.unwrap() }\n";
        assert_eq!(lines(&format!("#[allow(clippy::unwrap_used)] // Cannot fail.\n{call}")), []);
        assert_eq!(lines(&format!("// Cannot fail.\n#[allow(clippy::unwrap_used)]\n{call}")), []);
        assert_eq!(lines(&format!("/// Doc.\n#[allow(clippy::unwrap_used)]\n{call}")), [2]);
    }

    #[test]
    fn an_allowance_reaches_no_further_than_its_item() {
        let text = "// Reason.\n#[allow(clippy::expect_used)]\nfn f() { a.expect(\"\") }\nfn g() { a.expect(\"\") }\n";
        assert_eq!(lines(text), [4]);
        assert_eq!(lines("// Reason.\n#[allow(clippy::expect_used)]\nfn f() { a.unwrap() }\n"), [3]);
        assert_eq!(
            lines("// Reason.\n#![allow(clippy::expect_used)]\nfn f() {}\nfn g() { a.expect(\"\") }\n"),
            []
        );
    }

    #[test]
    fn tests_may_unwrap() {
        assert_eq!(lines("#[cfg(test)]\nmod tests {\n    fn f() { a.unwrap() }\n}\n"), []);
    }
}
