//! One meaning a name: some nouns are so general that, unwatched, each room grows one of its own.

use std::collections::BTreeMap;

use syn::Item;
use syn::spanned::Spanned;

use super::source::Source;
use super::violation::Violation;

const NAMES: &str = "Cell Change Compared Contender Document Ended Fact Family Field Gated Interval Kind Life Lines \
    Lost Missing Pair Reading Shut Spread Told Value Verdict";

/// Second definitions of a type by one of those names.
pub fn check(tree: &[Source]) -> Vec<Violation> {
    let mut first: BTreeMap<&str, &Source> = BTreeMap::new();
    let mut found = Vec::new();
    for source in tree {
        for item in &source.file.items {
            let name = match item {
                Item::Struct(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Type(item) => &item.ident,
                _ => continue,
            };
            let Some(name) = NAMES.split(' ').find(|one| name == one) else { continue };
            if let Some(other) = first.get(name) {
                let line = item.span().start().line;
                found.push(Violation::at(&source.path, line, format!("`{name}` is also in {}", other.path)));
            } else {
                first.insert(name, source);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::source::planted;
    use super::*;

    #[test]
    fn a_second_definition_is_found_and_other_names_are_not() {
        let found = check(&planted(&[
            ("src/record/figure.rs", "pub struct Reading;\npub struct Dot;\n"),
            ("src/sweep/sample.rs", "struct Dot;\nfn f() {}\n\nenum Reading {}\n"),
            ("src/sweep/next.rs", "struct CellKey;\n"),
        ]));
        assert_eq!(found.iter().map(Violation::place).collect::<Vec<_>>(), [("src/sweep/sample.rs", 4)]);
        assert!(found[0].what.contains("src/record/figure.rs"), "{}", found[0].what);
    }
}
