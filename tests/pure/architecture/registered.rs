//! What is written must also be listed: a file in its folder, a strategy or a fault in its registry, a chart
//! among those drawn, a command where commands are dispatched.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Item, Visibility};

use super::source::{ROOTS, Source, declared};
use super::violation::Violation;

const REGISTRY: &str = "src/lock/registry.rs";
const FAULTS: &str = "src/world/fault/registry.rs";
const CHARTS: &str = "src/report/chart/mod.rs";
const DISPATCH: &str = "src/cli/mod.rs";

/// Files that nothing declares: the compiler never sees them.
pub fn modules(tree: &[Source]) -> Vec<Violation> {
    let declared: Vec<Vec<String>> = tree.iter().flat_map(declared_by).collect();
    tree.iter()
        .filter(|source| source.path != "src/main.rs" && !ROOTS.contains(&source.path.as_str()))
        .filter(|source| !declared.contains(&source.module()))
        .map(|source| Violation::at(&source.path, 1, "no `mod` line declares this file"))
        .collect()
}

fn declared_by(source: &Source) -> Vec<Vec<String>> {
    let own = source.module();
    let names = source.file.items.iter().filter_map(declared);
    names.map(|name| [own.as_slice(), &[name]].concat()).collect()
}

/// Files with an `impl Strategy for …` that the registry does not name.
pub fn strategies(tree: &[Source]) -> Vec<Violation> {
    let is_one = |item: &Item| match item {
        Item::Impl(found) => found
            .trait_
            .as_ref()
            .is_some_and(|(path, _)| path.segments.last().is_some_and(|last| last.ident == "Strategy")),
        _ => false,
    };
    unlisted(tree, "src/lock/", REGISTRY, "strategy", is_one)
}

/// Files with a constant `CARD` that the registry does not name.
pub fn faults(tree: &[Source]) -> Vec<Violation> {
    let is_one = |item: &Item| matches!(item, Item::Const(constant) if constant.ident == "CARD");
    unlisted(tree, "src/world/fault/", FAULTS, "fault", is_one)
}

/// Functions that make a chart of a view, or say why there is none, and that the list of charts does not name.
pub fn charts(tree: &[Source]) -> Vec<Violation> {
    let is_one = |item: &Item| match item {
        Item::Fn(function) => {
            let takes_view = function.sig.inputs.first().is_some_and(|first| has_word(first, "View"));
            takes_view && ["Result", "Chart"].iter().all(|word| has_word(&function.sig.output, word))
        }
        _ => false,
    };
    unlisted(tree, "src/report/chart/", CHARTS, "chart", is_one)
}

/// Functions that other files may call and that give an exit code, but that nothing dispatches to.
pub fn commands(tree: &[Source]) -> Vec<Violation> {
    let is_one = |item: &Item| match item {
        Item::Fn(function) => {
            matches!(function.vis, Visibility::Public(_)) && has_word(&function.sig.output, "Exit")
        }
        _ => false,
    };
    unlisted(tree, "src/cli/", DISPATCH, "command", is_one)
}

/// What a folder's files define of a kind, but the list mentions in no path outside its imports: a function by its
/// module and its name, anything else by its module.
fn unlisted(
    tree: &[Source],
    folder: &str,
    list: &str,
    kind: &str,
    is_one: impl Fn(&Item) -> bool,
) -> Vec<Violation> {
    let listed = tree.iter().find(|source| source.path == list).map(paths_used).unwrap_or_default();
    let files = tree.iter().filter(|source| source.path.starts_with(folder) && source.path != list);
    let missing = |source: &Source, item: &Item| {
        let function = function_name(item);
        let name: Vec<String> = source.module().pop().into_iter().chain(function.clone()).collect();
        let is_listed = listed.iter().any(|path| match &function {
            Some(_) => path.ends_with(&name),
            None => path.iter().rev().skip(1).any(|part| *part == name[0]),
        });
        let what = format!("this {kind} is missing in {list}: nothing there uses `{}`", name.join("::"));
        (!is_listed).then(|| Violation::at(&source.path, item.span().start().line, what))
    };
    files
        .flat_map(|source| {
            let items = source.file.items.iter();
            let found = items.filter(|item| is_one(item) && !source.is_test(item.span().start().line));
            found.filter_map(|item| missing(source, item)).collect::<Vec<_>>()
        })
        .collect()
}

fn function_name(item: &Item) -> Option<String> {
    match item {
        Item::Fn(function) => Some(function.sig.ident.to_string()),
        _ => None,
    }
}

/// Each path that a file uses otherwise than to import it.
fn paths_used(source: &Source) -> Vec<Vec<String>> {
    let used = source.mentions.iter();
    let used = used.filter(|mention| !mention.imported && !source.is_test(mention.line));
    used.map(|mention| mention.path.clone()).collect()
}

fn has_word(part: &impl ToTokens, word: &str) -> bool {
    fn within(tokens: TokenStream, word: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(ident) => ident == word,
            proc_macro2::TokenTree::Group(group) => within(group.stream(), word),
            _ => false,
        })
    }
    within(part.to_token_stream(), word)
}

#[cfg(test)]
mod tests {
    use super::super::source::planted;
    use super::*;

    fn places(found: &[Violation]) -> Vec<(&str, usize)> {
        found.iter().map(Violation::place).collect()
    }

    #[test]
    fn a_file_that_nobody_declares_is_found() {
        let tree = planted(&[
            ("src/lib.rs", "pub mod lock;\n"),
            ("src/lock/mod.rs", "mod polling;\n"),
            ("src/lock/polling.rs", "//! Polls.\n"),
            ("src/lock/forgotten.rs", "//! Forgotten.\n"),
        ]);
        assert_eq!(places(&modules(&tree)), [("src/lock/forgotten.rs", 1)]);
    }

    #[test]
    fn a_strategy_that_is_imported_but_not_listed_is_found() {
        let strategy = "//! Doc.\nstruct S;\n#[async_trait(?Send)]\nimpl Strategy for S {}\n";
        let tree = planted(&[
            ("src/lock/polling.rs", strategy),
            ("src/lock/no_lock.rs", strategy),
            ("src/lock/retry.rs", "pub struct Retry;\nimpl Clone for Retry {}\n"),
            ("src/lock/broken.rs", "#[cfg(test)]\nimpl Strategy for Broken {}\n"),
            (REGISTRY, "use super::{no_lock, polling};\npub const ALL: &[Entry] = &[polling::ENTRY];\n"),
        ]);
        assert_eq!(places(&strategies(&tree)), [("src/lock/no_lock.rs", 3)]);
    }

    #[test]
    fn a_fault_that_is_imported_but_not_listed_is_found() {
        let card = "//! Doc.\n\npub const CARD: FaultCard = FaultCard {};\n";
        let tree = planted(&[
            ("src/world/fault/kill.rs", card),
            ("src/world/fault/pause.rs", card),
            ("src/world/fault/reference.rs", "pub fn reference() {}\n"),
            ("src/lock/polling.rs", card),
            (FAULTS, "use super::{kill, pause};\npub const FAULTS: &[FaultCard] = &[kill::CARD];\n"),
        ]);
        assert_eq!(places(&faults(&tree)), [("src/world/fault/pause.rs", 3)]);
    }

    #[test]
    fn a_chart_that_is_not_drawn_is_found_but_a_part_of_a_chart_is_none() {
        let tree = planted(&[
            ("src/report/chart/fan_out.rs", "pub fn draw(view: &View) -> Result<Chart, String> {}\n"),
            ("src/report/chart/lost.rs", "pub fn draw(view: &View) -> Result<Chart, String> {}\n"),
            (
                "src/report/chart/two.rs",
                "pub fn one(view: &View) -> Result<Chart, String> {}\npub fn other(view: &View) -> Result<Chart, String> {}\n",
            ),
            ("src/report/chart/keys.rs", "pub fn draw(picture: &mut Picture, plot: &Plot) {}\n"),
            ("src/report/chart/bars.rs", "pub fn draw(view: &View, bars: &Bars) -> Chart {}\n"),
            (
                CHARTS,
                "mod fan_out;\nmod lost;\nfn charts(view: &View) { fan_out::draw(view); two::one(view) }\n",
            ),
        ]);
        assert_eq!(places(&charts(&tree)), [("src/report/chart/lost.rs", 1), ("src/report/chart/two.rs", 2)]);
    }

    #[test]
    fn a_command_that_is_not_dispatched_is_found() {
        let command =
            "//! Doc.\npub async fn execute(args: Args) -> Result<Exit, Error> {}\nfn part() -> Exit {}\n";
        let tree = planted(&[
            ("src/cli/run/mod.rs", command),
            ("src/cli/clean.rs", command),
            ("src/cli/output.rs", "pub fn complain() {}\n"),
            (
                "src/cli/texts.rs",
                "pub fn man() -> Result<Exit, Error> {}\npub fn schema() -> Result<Exit, Error> {}\n",
            ),
            (DISPATCH, "use clean;\nfn dispatch() { run::execute(x); texts::man() }\n"),
        ]);
        assert_eq!(places(&commands(&tree)), [("src/cli/clean.rs", 2), ("src/cli/texts.rs", 2)]);
    }

    #[test]
    fn without_its_list_nothing_counts_as_listed() {
        let found = strategies(&planted(&[("src/lock/polling.rs", "impl Strategy for S {}\n")]));
        assert_eq!(places(&found), [("src/lock/polling.rs", 1)]);
    }
}
