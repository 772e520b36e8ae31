//! How large files and functions may get. Code for tests is not counted.

use syn::visit::{self, Visit};

use crate::source::Source;
use crate::violation::Violation;

/// A median, a size that nine of ten keep to, and one that none exceeds.
struct Budget {
    of: &'static str,
    median: usize,
    nine_of_ten: usize,
    most: usize,
}

/// Lines outside `#[cfg(test)]`.
const FILES: Budget = Budget { of: "file", median: 120, nine_of_ten: 400, most: 600 };
/// Lines of the body with code on them, as clippy's `too_many_lines` counts.
const FUNCTIONS: Budget = Budget { of: "function", median: 9, nine_of_ten: 30, most: 70 };
const PARAMETERS: usize = 5;

/// Something with a size, and its place.
struct Sized {
    path: String,
    line: usize,
    name: String,
    size: usize,
}

/// Files that are too large, one by one or taken together.
pub fn files(tree: &[Source]) -> Vec<Violation> {
    let sizes = tree.iter().map(|source| Sized {
        path: source.path.clone(),
        line: 0,
        name: source.path.clone(),
        size: source.lines_outside_tests(),
    });
    FILES.check(sizes.collect())
}

/// Functions that are too long, one by one or taken together.
pub fn functions(tree: &[Source]) -> Vec<Violation> {
    let with_body = |function: Function| {
        let Function { path, line, name, body, .. } = function;
        body.map(|size| Sized { path, line, name, size })
    };
    FUNCTIONS.check(tree.iter().flat_map(functions_of).filter_map(with_body).collect())
}

/// Functions with too many parameters, `self` included.
pub fn parameters(tree: &[Source]) -> Vec<Violation> {
    tree.iter()
        .flat_map(functions_of)
        .filter(|function| function.parameters > PARAMETERS)
        .map(|function| {
            let Function { name, parameters, .. } = &function;
            let what = format!("`{name}` takes {parameters} parameters; {PARAMETERS} is the most");
            Violation::at(&function.path, function.line, what)
        })
        .collect()
}

impl Budget {
    fn check(&self, sized: Vec<Sized>) -> Vec<Violation> {
        let mut sizes: Vec<usize> = sized.iter().map(|one| one.size).collect();
        sizes.sort_unstable();
        let together = [("median", 50, self.median), ("90th percentile", 90, self.nine_of_ten)];
        let together = together.into_iter().filter_map(|(what, percent, limit)| {
            let size = percentile(&sizes, percent)?;
            let what = format!("the {what} {} has {size} lines; the budget is {limit}", self.of);
            (size > limit).then(|| Violation::of_tree(what))
        });
        let alone = sized.iter().filter(|one| one.size > self.most).map(|one| {
            let what =
                format!("{} `{}` has {} lines; {} is the most", self.of, one.name, one.size, self.most);
            Violation::at(&one.path, one.line, what)
        });
        together.chain(alone).collect()
    }
}

/// The smallest size that so many percent do not exceed.
fn percentile(sorted: &[usize], percent: usize) -> Option<usize> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

struct Function {
    path: String,
    line: usize,
    name: String,
    body: Option<usize>,
    parameters: usize,
}

fn functions_of(source: &Source) -> Vec<Function> {
    let mut collector = Collector { source, functions: Vec::new() };
    collector.visit_file(&source.file);
    collector.functions
}

struct Collector<'a> {
    source: &'a Source,
    functions: Vec<Function>,
}

impl Collector<'_> {
    fn note(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) {
        let line = signature.ident.span().start().line;
        if self.source.is_test(line) {
            return;
        }
        self.functions.push(Function {
            path: self.source.path.clone(),
            line,
            name: signature.ident.to_string(),
            body: body.map(|body| lines_of(&self.source.text, body)),
            parameters: signature.inputs.len(),
        });
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.note(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }
}

/// Lines between a body's braces that are neither blank nor a comment.
fn lines_of(text: &str, body: &syn::Block) -> usize {
    let (open, close) = (body.brace_token.span.open().end(), body.brace_token.span.close().start());
    let inside = text.lines().enumerate().take(close.line).skip(open.line - 1).map(|(index, line)| {
        let begin = if index + 1 == open.line { open.column } else { 0 };
        let end = if index + 1 == close.line { close.column } else { usize::MAX };
        line.chars().take(end).skip(begin).collect::<String>()
    });
    inside.filter(|line| !line.trim().is_empty() && !line.trim().starts_with("//")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n    // A comment.\n\n{}}}\n", "    call();\n".repeat(lines))
    }

    fn sizes(text: &str) -> Vec<Option<usize>> {
        functions_of(&Source::parse("src/a.rs", text)).into_iter().map(|function| function.body).collect()
    }

    #[test]
    fn a_body_is_counted_without_braces_blank_lines_and_comments() {
        assert_eq!(sizes(&function("f", 3)), [Some(3)]);
        assert_eq!(sizes("fn f() { call() }\nfn g() {}\ntrait T { fn h(); }\n"), [Some(1), Some(0), None]);
        assert_eq!(sizes("fn µ() -> &'static str { \"µ\n\nµ\" }"), [Some(2)]);
    }

    #[test]
    fn a_function_of_71_lines_is_found_and_one_of_70_is_not() {
        let short = function("short", 1).repeat(20);
        let source = Source::parse("src/a.rs", &format!("{short}{}", function("long", 70)));
        assert_eq!(functions(&[source]), []);
        let source = Source::parse("src/a.rs", &format!("{}{short}", function("long", 71)));
        let found = functions(&[source]);
        assert_eq!(found.iter().map(Violation::place).collect::<Vec<_>>(), [("src/a.rs", 1)]);
    }

    #[test]
    fn too_long_on_the_whole_is_found_though_no_single_one_is() {
        let tree = |lines| [Source::parse("src/a.rs", &function("f", lines).repeat(3))];
        assert_eq!(functions(&tree(9)), []);
        assert_eq!(functions(&tree(10)).len(), 1, "the median");
        assert_eq!(functions(&tree(31)).len(), 2, "the median and the 90th percentile");
    }

    #[test]
    fn functions_for_tests_have_no_budget() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("f", 99));
        assert_eq!(functions(&[Source::parse("src/a.rs", &text)]), []);
    }

    #[test]
    fn a_file_of_601_lines_is_found_but_not_for_its_tests() {
        let tree = |text: &str| {
            let small = (0..20).map(|n| Source::parse(&format!("src/{n}.rs"), "//! Doc.\n"));
            small.chain([Source::parse("src/large.rs", text)]).collect::<Vec<_>>()
        };
        let lines = "const X: u8 = 1;\n".repeat(600);
        assert_eq!(files(&tree(&format!("{lines}#[cfg(test)]\nmod tests {{\n{lines}}}\n"))), []);
        assert_eq!(files(&tree(&format!("{lines}//\n")))[0].place(), ("src/large.rs", 0));
    }

    #[test]
    fn a_sixth_parameter_is_found_at_its_function() {
        let text = "fn five(a: A, b: B, c: C, d: D, e: E) {}\nimpl S {\n    fn six(&self, a: A, b: B, c: C, d: D, e: E) {}\n}\n";
        let found = parameters(&[Source::parse("src/a.rs", text)]);
        assert_eq!(found.iter().map(Violation::place).collect::<Vec<_>>(), [("src/a.rs", 3)]);
    }
}
