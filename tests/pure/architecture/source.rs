//! Source files as the rules see them.

use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta};

use super::mention::{Mention, mentions};

pub struct Source {
    /// Its path from the repository's root, with `/` between the parts.
    pub path: String,
    pub file: syn::File,
    /// The paths in its tokens, which also show what macros are given; the syntax tree does not.
    pub mentions: Vec<Mention>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    pub fn parse(path: &str, text: &str) -> Self {
        let tokens = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file = syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut tests = TestItems::default();
        tests.visit_file(&file);
        Self { path: path.to_owned(), file, mentions: mentions(module_of(path), tokens), tests: tests.0 }
    }

    /// Whether that line belongs to an item that is compiled for tests only.
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// The path of the module that the file is: `src/load/worker.rs` is `load`, `worker`.
    pub fn module(&self) -> Vec<String> {
        module_of(&self.path)
    }
}

/// How the names of the crates begin that lie below `src`.
pub const OWN_CRATE: &str = "zklockbench_";

/// The roots of crates that consist of floors: each lists its own, and gives out those of the others.
pub const ROOTS: [&str; 4] = ["src/lib.rs", "src/measuring.rs", "src/reading.rs", "src/records.rs"];

/// Whether an item gives out floors of another of these crates.
pub fn gives_out_floors(item: &syn::Item) -> bool {
    let syn::Item::Use(item) = item else { return false };
    let root =
        |from: &syn::UsePath| Some(format!("src/{}.rs", from.ident.to_string().strip_prefix(OWN_CRATE)?));
    matches!(&item.tree, syn::UseTree::Path(from) if root(from).is_some_and(|root| ROOTS.contains(&root.as_str())))
}

/// The module that an item declares, if it does: by a `mod` line, or as a crate of its own, under its short name.
pub fn declared(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        syn::Item::Use(item) => match &item.tree {
            syn::UseTree::Rename(of) if of.ident == format!("{OWN_CRATE}{}", of.rename) => {
                Some(of.rename.to_string())
            }
            _ => None,
        },
        _ => None,
    }
}

fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    // A folder's `mod.rs` is the folder.
    if path.ends_with("/mod.rs") || ROOTS.contains(&path) {
        parts.pop();
    }
    parts
}

/// Sources of these paths and texts, for tests of the rules.
pub fn planted(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| Source::parse(path, text)).collect()
}

/// The crate's sources, in the order of their paths.
pub fn tree() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = walkdir::WalkDir::new(root.join("src"))
        .into_iter()
        .map(|entry| entry.expect("src can be walked").into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    files.iter().map(|path| read(root, path)).collect()
}

fn read(root: &Path, path: &Path) -> Source {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parts = path.strip_prefix(root).unwrap().components();
    let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
    Source::parse(&parts.join("/"), &text)
}

#[derive(Default)]
struct TestItems(Vec<RangeInclusive<usize>>);

impl TestItems {
    fn note(&mut self, attributes: &[Attribute], item: &impl Spanned) {
        if attributes.iter().any(is_for_tests) {
            self.0.push(item.span().start().line..=item.span().end().line);
        }
    }
}

impl<'ast> Visit<'ast> for TestItems {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.note(&item.attrs, item);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.attrs, item);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.attrs, item);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.note(&item.attrs, item);
        visit::visit_item_impl(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note(&item.attrs, item);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    if attribute.path().segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(|condition| needs_test(&condition))
}

/// Whether a condition of `cfg` holds for tests only. `not(…)` never does, nor does `any(…)`.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => {
            let parts =
                list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(needs_test))
        }
        _ => false,
    }
}

#[test]
fn code_for_tests_is_told_from_code_that_ships() {
    let source = Source::parse(
        "src/load/pace.rs",
        "//! Doc.\nfn ships() {}\n\n#[cfg(test)]\nmod tests {\n    fn helper() {}\n}\n\n\
         #[cfg(all(test, unix))]\nfn also() {}\n#[cfg(not(test))]\nfn never() {}\n",
    );
    let tests: Vec<usize> = (1..=12).filter(|line| source.is_test(*line)).collect();
    assert_eq!(tests, [4, 5, 6, 7, 9, 10]);
}

#[test]
fn a_file_knows_which_module_it_is() {
    let module = |path| Source::parse(path, "").module();
    assert_eq!(module("src/load/worker.rs"), ["load", "worker"]);
    assert_eq!(module("src/results/wire/mod.rs"), ["results", "wire"]);
    assert_eq!(module("src/clock.rs"), ["clock"]);
    assert_eq!(module("src/lib.rs"), [""; 0]);
}
