//! The reference page of the scenario file, generated from the tables that the reader uses.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::diagnostic::listed;
use super::fields::{
    ARRIVALS_MAX, DRAWN, Field, KeyKind, Need, PROCESSES, SHAPES, SIGMA, Section, fields_of,
};
use super::read::written;
use zklockbench_core::catalog::fault::{Ends, FaultCard};
use zklockbench_core::catalog::{LockCard, Param, ParamKind};

/// Markdown for `docs/reference/scenario-keys.md`.
pub fn reference(locks: &[LockCard], kinds: &[FaultCard]) -> String {
    let mut page = String::from(INTRODUCTION);
    for section in Section::ALL {
        let place = section.header().map_or("at the top".to_owned(), |header| format!("under `{header}`"));
        let _ = write!(page, "## Keys {place}\n\n{}{}", introduction(section), keys(section));
    }
    page.push_str(&distributions());
    page.push_str(&processes());
    page.push_str(&strategies(locks));
    page.push_str(&faults(kinds));
    page.push_str(COMBINATIONS);
    page
}

fn introduction(section: Section) -> &'static str {
    match section {
        Section::Top | Section::Ensemble => "",
        Section::Client => CLIENT_INTRODUCTION,
        Section::Fault => FAULT_INTRODUCTION,
        Section::Gate => GATE_INTRODUCTION,
    }
}

const INTRODUCTION: &str = "# Scenario keys\n\n\
    Generated from the code by `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`; do not edit. It lists every key of\n\
    a scenario file, with its values and its default.\n\n\
    A scenario is a TOML file. `zklockbench validate FILE` shows its trials, how long they take and every error \
    in it; `zklockbench schema` prints a JSON Schema for editors.\n\n\
    Durations are text with a unit: `\"20ms\"`, `\"1s\"`, `\"2m 30s\"`; only `\"0\"` needs none.\n\n";

const CLIENT_INTRODUCTION: &str = "Each `[[client]]` is a kind of clients, where they are not all alike: nine of ten that hold \
                                   for a moment, and jobs that hold for seconds.\n\n```toml\n[[client]]\nshare = \
                                   0.9\nhold = \"10ms\"\n\n[[client]]\nshare = 0.1\nhold = { exponential = { mean = \
                                   \"1s\" } }\n```\n\n";

const FAULT_INTRODUCTION: &str = "Each `[[fault]]` injects one fault into every trial. The parameters of its kind go \
                                  next to these keys:\n\n```toml\n[[fault]]\nkind = \"delay\"\ntarget = \
                                  \"holder\"\nat = \"5s\"\nduration = \"2s\"\nlatency = \"50ms\"\n```\n\n";

const GATE_INTRODUCTION: &str = "Each `[[gate]]` is a condition on the results. If one fails the run exits with \
                                 1; if one cannot be decided, with 4. `--gate CONDITION` adds one on the \
                                 command line:\n\n\
    ```toml\n\
    [[gate]]\n\
    require = \"wait.p99 of baton at 20 contenders < 50ms\"\n\
    ```\n\n\
    Without a name it may be written as its condition alone: `gate = [\"wait.p99 < 50ms\", \"violations == 0\"]`.\n\n";

const COMBINATIONS: &str = "## What goes together\n\n\
    - A closed load needs exactly one of `duration` and `acquisitions`; a batch takes no `duration`, and \
    each contender acquires once.\n\
    - An open load needs a `duration`, except a replay, and exactly one of `rate` and `rate_each`, unless its \
    `arrivals` have their own rates. It takes no `acquisitions`, no `think` and no `ramp_up`, and may have more locks \
    than contenders. `rate`, `rate_each`, `arrivals`, `popularity`, `late` and `backlog_at_most` are for open loads \
    only.\n\
    - A replay has no warm-up, and `locks` is at least the number of locks that its file names.\n\
    - `warm_up_at_most` is at least `warm_up`, and no more where the rate changes with time (`day`, `ramp`, `steps`): \
    those begin with the measured phase.\n\
    - A batch has one lock, no `think`, no `ramp_up`, no `warm_up`, and no strategy without exclusion.\n\
    - In a batch, `acquire_timeout` is longer than the holds of all others together.\n\
    - `repetitions_at_most` needs `precision`, and is at least as large as `repetitions`.\n\
    - `poll_interval` at the top needs a listed strategy that polls.\n\
    - `permits` are at most as many as `leases`.\n\
    - A closed load has at most as many locks as the largest number of contenders.\n\
    - `connect` excludes `servers`, `data_dir` and `compose`, which excludes the first two.\n\
    - No contender count and no strategy with the same parameters is listed twice: `repetitions` is for that.\n\
    - After `time_scale`, poll intervals and `duration` are at least 1ms.\n\
    - A fault has exactly one of `at` and `after_acquisitions`, at most one of `target`, `server` and \
    `contender`, and a `duration` exactly if it is healed.\n\
    - A fault that fires more than once has an `every`, longer than its `duration` and `jitter` together; each \
    has begun and ended before the measured phase is over.\n\
    - Faults of servers and of the network between them need an ensemble that the suite starts, not `connect`; \
    `isolate`, `partition`, `lose-majority` and `wipe` need at least 3 servers. `partition` is not for `compose`.\n\
    - `clock-jump` needs `acquire_timeout`.\n\
    - `server` is one of the `servers`, and `contender` is below the smallest number of contenders.\n\
    - A batch has no faults.\n\
    - A gate names only strategies and numbers of contenders of its scenario.\n";

fn keys(section: Section) -> String {
    let mut table = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
    for field in fields_of(section) {
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            field.name,
            cell(&kind(&field.kind)),
            need(field),
            cell(field.doc)
        );
    }
    table.push('\n');
    table
}

fn need(field: &Field) -> String {
    match field.need {
        Need::Required => "required".to_owned(),
        Need::Default(text) => format!("`{}`", cell(text)),
        Need::Absent(meaning) => format!("absent: {}", cell(meaning)),
    }
}

fn kind(kind: &KeyKind) -> String {
    match kind {
        KeyKind::Name => "name".to_owned(),
        KeyKind::Text => "text".to_owned(),
        KeyKind::Strategies => "list of [strategies](#strategies)".to_owned(),
        KeyKind::Counts(bounds) => format!("{}, or a list of them", count(bounds)),
        KeyKind::Count(bounds) => count(bounds),
        KeyKind::OneOfCounts(choices) => {
            choices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        KeyKind::Duration(bounds) => {
            format!("duration from {} to {}", written(*bounds.start()), written(*bounds.end()))
        }
        KeyKind::Distribution => {
            format!("duration or [distribution](#distributions) up to {}", written(*DRAWN.end()))
        }
        KeyKind::Word(words) => {
            words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(" or ")
        }
        KeyKind::Factor(bounds) => format!("number from {} to {}", bounds.start(), bounds.end()),
        KeyKind::Arrivals => "[process](#arrivals)".to_owned(),
        KeyKind::Popularity(bounds) => {
            format!("`\"uniform\"`, or `{{ zipf = s }}` with s from {} to {}", bounds.start(), bounds.end())
        }
        KeyKind::Percent(bounds) => {
            format!("share from `\"{}%\"` to `\"{}%\"`", bounds.start(), bounds.end())
        }
        KeyKind::Sensitivity => "probability and error rate, such as `\"0.99@1%\"`".to_owned(),
        KeyKind::Path => "path".to_owned(),
        KeyKind::Connect => "connect string".to_owned(),
        KeyKind::Fault => "[fault](#faults)".to_owned(),
        KeyKind::Gate => "[condition](../ci.md#gates)".to_owned(),
        KeyKind::Target => "word of its [fault](#faults)".to_owned(),
    }
}

fn count(bounds: &RangeInclusive<u64>) -> String {
    // The largest number that TOML can hold is no bound worth reading.
    if *bounds.end() == i64::MAX as u64 {
        return format!("whole number from {}", bounds.start());
    }
    format!("whole number from {} to {}", bounds.start(), bounds.end())
}

fn distributions() -> String {
    let mut section = String::from("## Distributions\n\nA plain duration is fixed. Otherwise:\n\n");
    section.push_str("| distribution | draws |\n|---|---|\n");
    for shape in SHAPES {
        let _ = writeln!(section, "| `{}` | {} |", shape.example, shape.doc);
    }
    let _ = writeln!(section, "\n`sigma` is a number from {} to {}.\n", SIGMA.start(), SIGMA.end());
    section
}

fn processes() -> String {
    let mut section = String::from("## Arrivals\n\n| arrivals | rate | how they come |\n|---|---|---|\n");
    for process in PROCESSES {
        let rate = if process.takes_rate { "`rate` or `rate_each`" } else { "its own" };
        let _ = writeln!(section, "| `{}` | {rate} | {} |", process.example, process.doc);
    }
    let _ = writeln!(section, "\nA trial has at most {ARRIVALS_MAX} arrivals.\n");
    section
}

fn strategies(cards: &[LockCard]) -> String {
    let mut section = String::from(
        "## Strategies\n\nA strategy is its name, or a table of its `name` and parameters: \
         `{ name = \"polling\", poll_interval = \"500ms\" }`.\n\n\
         | strategy | parameter | value | default | meaning |\n|---|---|---|---|---|\n",
    );
    for card in cards {
        if card.params.is_empty() {
            let _ = writeln!(section, "| `{}` | | | | {} |", card.name, cell(card.summary));
        }
        for param in card.params {
            let _ = writeln!(
                section,
                "| `{}` | `{}` | {} | `{}` | {}{} |",
                card.name,
                param.name,
                values(param),
                param.default,
                cell(param.doc),
                card.only_with(param)
            );
        }
    }
    section.push('\n');
    section
}

fn values(param: &Param) -> String {
    match param.kind {
        ParamKind::Duration => "duration".to_owned(),
        ParamKind::Bool => "`true` or `false`".to_owned(),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => listed(param.kind.words()),
        ParamKind::Count(least, most) => format!("{least} to {most}"),
        ParamKind::CountWithin(least, most, whole) => format!("{least} to {most}, at most `{whole}`"),
    }
}

fn faults(cards: &[FaultCard]) -> String {
    let mut section = String::from(
        "## Faults\n\n[Faults](faults.md) describes how each is injected, verified and ended.\n\n\
         | fault | what | target | duration |\n|---|---|---|---|\n",
    );
    for card in cards {
        let default = |word: &str| if word == card.default_target { " (default)" } else { "" };
        let words: Vec<_> = card.words().iter().map(|word| format!("`{word}`{}", default(word))).collect();
        let target = if words.is_empty() { "-".to_owned() } else { words.join(", ") };
        let _ = writeln!(
            section,
            "| `{}` | {} | {target} | {} |",
            card.name,
            cell(card.summary),
            if card.ends == Ends::Healed { "required" } else { "-" }
        );
    }
    section.push_str("\n| fault | parameter | value | default | meaning |\n|---|---|---|---|---|\n");
    for (card, param) in cards.iter().flat_map(|card| card.params.iter().map(move |param| (card, param))) {
        let (name, key, values) = (card.name, param.name, values(param));
        let _ = writeln!(
            section,
            "| `{name}` | `{key}` | {values} | `{}` | {} |",
            param.default,
            cell(param.doc)
        );
    }
    section.push('\n');
    section
}

/// A text that stays inside its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
