//! `docs/locks.md`, made from the descriptions that stand beside the code.

use super::cards;
use crate::catalog::LockCard;
use crate::units::capitalised;

/// The page on every strategy.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Locks\n\n\
         Made from the descriptions in the code: `zklockbench strategies NAME` prints the same.\n\n\
         | strategy | how | exclusive | read side | order of arrival | reentrant | protected | waits by |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    text.extend(cards().iter().map(row));
    text.extend(cards().iter().map(section));
    text
}

fn row(card: &LockCard) -> String {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let given = card.guarantees;
    format!(
        "| [`{0}`](#{0}) | {1} | {2} | {3} | {4} | {5} | {6} | {7} |\n",
        card.name,
        card.summary,
        yes(given.exclusive),
        yes(given.has_read_side()),
        yes(given.fifo),
        yes(given.reentrant),
        yes(given.protected),
        if given.watches { "watches" } else { "looking again" },
    )
}

fn section(card: &LockCard) -> String {
    let mut text = format!(
        "\n## {}\n\n{}.\n\nSource: {}.\n\n```text\n{}\n```\n",
        card.name,
        capitalised(card.summary),
        card.source,
        card.details.trim()
    );
    if !card.params.is_empty() {
        text += "\n| parameter | values | default | meaning |\n|---|---|---|---|\n";
    }
    for param in card.params {
        let meaning = format!("{}{}", param.doc, card.only_with(param));
        let values = param.kind.in_words("`");
        text += &format!("| `{}` | {values} | `{}` | {meaning} |\n", param.name, param.default);
    }
    text
}
