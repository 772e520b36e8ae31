//! What must be written down: what each file holds, and what each public item is.

use syn::visit::{self, Visit};
use syn::{Attribute, Visibility};

use crate::source::Source;
use crate::violation::Violation;

/// The share of public items that must be documented, in percent.
const DOCUMENTED: usize = 95;

/// Every file that does not open with a `//!` line.
pub fn files(tree: &[Source]) -> Vec<Violation> {
    tree.iter()
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| Violation::at(&source.path, 1, "the file does not open with a `//!` line"))
        .collect()
}

/// The public items without documentation, when they are too many.
pub fn public_items(tree: &[Source]) -> Vec<Violation> {
    let items: Vec<Item> = tree.iter().flat_map(items_of).collect();
    let documented = items.iter().filter(|item| item.documented).count();
    if documented * 100 >= items.len() * DOCUMENTED {
        return Vec::new();
    }
    let share = format!("{documented} of {} public items are documented, not {DOCUMENTED} %", items.len());
    std::iter::once(Violation::of_tree(share))
        .chain(items.into_iter().filter(|item| !item.documented).map(|item| {
            Violation::at(&item.path, item.line, format!("public `{}` is not documented", item.name))
        }))
        .collect()
}

struct Item {
    path: String,
    line: usize,
    name: String,
    documented: bool,
}

fn items_of(source: &Source) -> Vec<Item> {
    let mut collector = Collector { source, within_public_type: false, items: Vec::new() };
    collector.visit_file(&source.file);
    collector.items
}

struct Collector<'a> {
    source: &'a Source,
    within_public_type: bool,
    items: Vec<Item>,
}

impl Collector<'_> {
    fn note(&mut self, visibility: &Visibility, attributes: &[Attribute], name: &syn::Ident) {
        if matches!(visibility, Visibility::Public(_)) {
            self.note_public(attributes, name);
        }
    }

    fn note_public(&mut self, attributes: &[Attribute], name: &syn::Ident) {
        let line = name.span().start().line;
        if self.source.is_test(line) {
            return;
        }
        self.items.push(Item {
            path: self.source.path.clone(),
            line,
            name: name.to_string(),
            documented: attributes.iter().any(|attribute| attribute.path().is_ident("doc")),
        });
    }

    fn within(&mut self, visibility: &Visibility, visit: impl FnOnce(&mut Self)) {
        let before = self.within_public_type;
        self.within_public_type = matches!(visibility, Visibility::Public(_));
        visit(self);
        self.within_public_type = before;
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.note(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.note(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.note(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.note(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(&item.vis, &item.attrs, &item.ident);
        self.within(&item.vis, |this| visit::visit_item_struct(this, item));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.note(&item.vis, &item.attrs, &item.ident);
        self.within(&item.vis, |this| visit::visit_item_enum(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.note(&item.vis, &item.attrs, &item.ident);
        self.within(&item.vis, |this| visit::visit_item_trait(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if self.within_public_type {
            self.note_public(&item.attrs, &item.sig.ident);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if self.within_public_type {
            self.note_public(&variant.attrs, &variant.ident);
        }
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let (true, Some(name)) = (self.within_public_type, &field.ident) {
            self.note(&field.vis, &field.attrs, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_opening_line_is_found() {
        let tree = [
            Source::parse("src/a.rs", "//! Doc.\n"),
            Source::parse("src/b.rs", "use x;\n//! Doc.\n".trim_end_matches("//! Doc.\n")),
        ];
        assert_eq!(files(&tree).iter().map(Violation::place).collect::<Vec<_>>(), [("src/b.rs", 1)]);
    }

    #[test]
    fn each_kind_of_public_item_without_documentation_is_found_at_its_line() {
        let text = "//! Doc.\npub fn a() {}\npub struct B {\n    pub c: u8,\n    hidden: u8,\n}\n\
                    pub enum D {\n    E { f: u8 },\n}\npub trait G {\n    fn h();\n}\nimpl B {\n    pub fn i() {}\n}\n\
                    pub const J: u8 = 1;\nfn private() {}\n";
        let found = public_items(&[Source::parse("src/a.rs", text)]);
        let lines: Vec<usize> = found.iter().skip(1).map(|violation| violation.line).collect();
        assert_eq!(lines, [2, 3, 4, 7, 8, 10, 11, 14, 16]);
    }

    #[test]
    fn one_in_twenty_may_be_missing_and_no_more() {
        let with = |missing: usize, of: usize| {
            let fine = "/// Doc.\npub fn a() {}\n".repeat(of - missing);
            public_items(&[Source::parse("src/a.rs", &(fine + &"pub fn b() {}\n".repeat(missing)))])
        };
        assert_eq!(with(1, 20), []);
        assert_eq!(with(2, 20).len(), 3);
    }
}
