//! Every path that a source mentions, in imports, code and the arguments of macros alike.

use std::sync::LazyLock;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use super::source::OWN_CRATE;

/// One path as written; `use a::{b, c::d}` mentions `a::b` and `a::c::d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Its parts; the last is `*` for everything and `self` for the module itself.
    pub path: Vec<String>,
    /// The line on which it ends.
    pub line: usize,
    /// Whether it stands in a `use`.
    pub imported: bool,
    /// The name that it gets there, if another than its own.
    pub alias: Option<String>,
    /// The path from the crate's root; `None` for what lies outside the crate.
    pub within_crate: Option<Vec<String>>,
}

impl Mention {
    /// The name by which the file calls it.
    pub fn name(&self) -> &str {
        let own = self.path.iter().rev().find(|part| *part != "self");
        self.alias.as_deref().or(own.map(String::as_str)).unwrap_or_default()
    }
}

/// All mentions in the file that is this module. A name alone is none, except in a `use`.
pub fn mentions(module: Vec<String>, tokens: TokenStream) -> Vec<Mention> {
    let mut walk = Walk { found: Vec::new(), module, imported: false };
    walk.stream(tokens);
    walk.found
}

struct Walk {
    found: Vec<Mention>,
    /// The module of the tokens at hand, which may be one within the file.
    module: Vec<String>,
    imported: bool,
}

impl Walk {
    fn stream(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut position = 0;
        while position < tokens.len() {
            position = self.token(&tokens, position);
        }
    }

    fn token(&mut self, tokens: &[TokenTree], position: usize) -> usize {
        match &tokens[position] {
            TokenTree::Ident(word) if word == "use" => {
                // `impl Future + use<'a>` imports nothing.
                self.imported = !is_punct(tokens.get(position + 1), '<');
                position + 1
            }
            TokenTree::Ident(word) if word == "mod" => self.module(tokens, position + 1),
            TokenTree::Ident(_) => self.path(tokens, position, &mut Vec::new()),
            TokenTree::Group(group) => {
                self.stream(group.stream());
                position + 1
            }
            TokenTree::Punct(punct) => {
                self.imported &= punct.as_char() != ';';
                position + 1
            }
            TokenTree::Literal(_) => position + 1,
        }
    }

    fn module(&mut self, tokens: &[TokenTree], position: usize) -> usize {
        if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
            (tokens.get(position), tokens.get(position + 1))
        {
            self.module.push(name.to_string());
            self.stream(body.stream());
            self.module.pop();
        }
        position + 2
    }

    /// Follows a path from its next part on; returns the position after it.
    fn path(&mut self, tokens: &[TokenTree], mut position: usize, path: &mut Vec<String>) -> usize {
        loop {
            let Some(token) = tokens.get(position) else { return position };
            match token {
                TokenTree::Ident(part) => path.push(part.to_string()),
                TokenTree::Punct(star) if star.as_char() == '*' => path.push("*".into()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    self.branches(group, path);
                    return position + 1;
                }
                _ => {
                    self.note(path, tokens.get(position - 1), None);
                    return position;
                }
            }
            let ended = position;
            position += 1;
            if !is_separator(tokens, position) {
                return self.ended(tokens, ended, path);
            }
            position += 2;
        }
    }

    fn ended(&mut self, tokens: &[TokenTree], last: usize, path: &[String]) -> usize {
        if let (true, Some(TokenTree::Ident(word)), Some(TokenTree::Ident(alias))) =
            (self.imported, tokens.get(last + 1), tokens.get(last + 2))
            && word == "as"
        {
            self.note(path, tokens.get(last), Some(alias.to_string()));
            return last + 3;
        }
        self.note(path, tokens.get(last), None);
        last + 1
    }

    /// The branches of a `use` tree, each with what stands before the brace.
    fn branches(&mut self, group: &Group, before: &[String]) {
        let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
        let mut position = 0;
        while position < tokens.len() {
            position = self.path(&tokens, position, &mut before.to_vec());
            position += 1; // the comma
        }
    }

    fn note(&mut self, path: &[String], at: Option<&TokenTree>, alias: Option<String>) {
        if path.len() < 2 && !self.imported {
            return;
        }
        let line = at.map_or(0, |token| token.span().start().line);
        let within_crate = self.within_crate(path);
        self.found.push(Mention { path: path.to_vec(), line, imported: self.imported, alias, within_crate });
    }

    fn within_crate(&self, path: &[String]) -> Option<Vec<String>> {
        let mut at = self.module.clone();
        let mut parts = path.iter().map(String::as_str).peekable();
        match parts.next()? {
            "crate" | "zklockbench" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            other => at = place_of_crate(other.strip_prefix(OWN_CRATE)?),
        }
        while parts.next_if_eq(&"super").is_some() {
            at.pop();
        }
        at.extend(parts.filter(|part| *part != "self").map(str::to_owned));
        Some(at)
    }
}

/// The module as which a crate of its own is given out, which is its folder; those that consist of floors are the root.
fn place_of_crate(name: &str) -> Vec<String> {
    static MEMBERS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
        let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
        let members =
            manifest["workspace"]["members"].as_array().unwrap().iter().filter_map(toml::Value::as_str);
        members.map(|folder| folder.split('/').skip(1).map(str::to_owned).collect()).collect()
    });
    let is_it = |folder: &&Vec<String>| folder.last().is_some_and(|last| last == name);
    MEMBERS.iter().find(is_it).cloned().unwrap_or_default()
}

fn is_separator(tokens: &[TokenTree], position: usize) -> bool {
    let joint = matches!(tokens.get(position), Some(TokenTree::Punct(p)) if p.spacing() == Spacing::Joint);
    joint && is_punct(tokens.get(position), ':') && is_punct(tokens.get(position + 1), ':')
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;

    fn found(text: &str) -> Vec<(String, usize)> {
        let mentions = Source::parse("src/load/worker.rs", text).mentions.into_iter();
        mentions.filter_map(|mention| Some((mention.within_crate?.join("::"), mention.line))).collect()
    }

    fn one(text: &str) -> String {
        let found = found(text);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].0.clone()
    }

    #[test]
    fn a_tree_of_imports_is_told_apart_branch_by_branch() {
        let text = "use crate::{\n    lock,\n    zk::{self, admin::*, Session as S},\n};\n";
        let expected = [("lock", 2), ("zk", 3), ("zk::admin::*", 3), ("zk::Session", 3)];
        assert_eq!(found(text), expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn super_counts_the_modules_within_the_file() {
        assert_eq!(one("use super::shared::Shared;"), "load::shared::Shared");
        assert_eq!(one("use super::super::zk::Session;"), "zk::Session");
        assert_eq!(one("mod inner { use super::super::pace; }"), "load::pace");
        assert_eq!(one("fn f() { self::g::<u8>(1) }"), "load::worker::g");
    }

    #[test]
    fn paths_in_code_types_attributes_and_macros_are_seen() {
        assert_eq!(one("fn f(x: &crate::zk::Session<'_>) {}"), "zk::Session");
        assert_eq!(one("fn f() { println!(\"{}\", crate::clock::now()) }"), "clock::now");
        assert_eq!(one("#[serde(with = x)]\nstruct S(Vec<crate::zk::Arm>);"), "zk::Arm");
        assert!(found("/// See [`crate::report`].\npub(crate) fn f() { std::mem::take(x) }").is_empty());
    }

    #[test]
    fn an_import_is_called_by_its_alias() {
        let source = Source::parse("src/load/mod.rs", "pub use pace::Pace as Tempo;\nuse scene::Scene;\n");
        assert_eq!(source.mentions.iter().map(|found| found.name()).collect::<Vec<_>>(), ["Tempo", "Scene"]);
    }
}
