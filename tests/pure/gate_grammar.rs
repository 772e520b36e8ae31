//! Syntax of gates: accepted forms, error messages, and robustness against arbitrary text.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;
use zklockbench_core::catalog::LockCard;
use zklockbench_core::measure::{Better, Figure, FigureCard, Measure, Statistic, Unit};
use zklockbench_record::figures;
use zklockbench_scenario::gate::{
    Condition, Known, KnownCells, Limit, Quantity, Reference, Relation, Rule, Scope, Subject, Written,
    has_floor, parse,
};

use crate::support::{answered::answered, cards::CARDS, diagnosed::said_of_files};

static FIGURES: LazyLock<Vec<&FigureCard>> = LazyLock::new(figures::cards);

/// Knows only the metrics, as if the scenario's strategies and contenders were unknown.
fn anything() -> Known<'static> {
    Known { figures: &FIGURES, cells: None }
}

/// One gate of each form, in canonical notation.
const RIGHT: [&str; 14] = [
    "wait.p99 < 50ms",
    "wait.p99.9 <= 1.5s",
    "throughput >= 100/s",
    "violations == 0",
    "requests_per_acquisition <= 4",
    "fairness > 0.9",
    "utilisation_busiest < 95%",
    "bytes_per_acquisition < 2kB",
    "throughput of baton > 1.2 * throughput of curator-mutex",
    "throughput of baton at 20 contenders > throughput of baton at 1 contender",
    "handoff.p50 < 3 * floor",
    "uncontended.p99 of \"polling poll_interval=500ms\" < floor",
    "wait.p99 not regressed by 5% against baseline",
    "throughput of baton at 20 contenders not regressed by 2.5% against baseline",
];

#[test]
fn every_gate_form_round_trips() {
    for text in RIGHT {
        let condition = parse(text, anything()).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
        assert_eq!(condition.to_string(), text);
    }
}

#[test]
fn gate_accepts_an_alias_of_a_strategy() {
    let lock = LockCard { name: "ours", aliases: &["theirs"], ..LockCard::OF_ZOOKEEPER };
    let strategies = ["ours", "ours wait=1s", "baton+ours"].map(str::to_owned);
    let cells = KnownCells { strategies: &strategies, locks: &[lock], contenders: &[1] };
    let known = Known { cells: Some(cells), ..anything() };
    let of = |text| parse(text, known).map(|gate| gate.to_string()).map_err(|mistake| mistake.message);
    assert_eq!(of("wait.p99 of theirs < 50ms"), Ok("wait.p99 of ours < 50ms".to_owned()));
    assert_eq!(of("wait.p99 of 'theirs wait=1s' < 50ms"), of("wait.p99 of 'ours wait=1s' < 50ms"));
    assert_eq!(of("wait.p99 of baton+theirs < 50ms"), of("wait.p99 of baton+ours < 50ms"));
    assert_eq!(of("wait.p99 of other < 50ms"), Err("the scenario has no strategy `other`".to_owned()));
}

#[test]
fn gates_are_parsed_or_rejected_with_an_explanation() {
    let strategies = ["baton".to_owned(), "polling poll_interval=500ms".to_owned()];
    let cells = KnownCells { strategies: &strategies, locks: &[], contenders: &[1, 20] };
    let known = Known { cells: Some(cells), ..anything() };
    let answer = |text: &str| match parse(text.trim_end_matches('\n'), known) {
        Ok(condition) => format!("reads as {condition}"),
        Err(mistake) => format!(
            "{} `{}`: {} => {}",
            mistake.column,
            &text[mistake.span.clone()],
            mistake.message,
            mistake.help
        ),
    };
    let snapshot = include_str!("snapshots/pure__gate_grammar__gates.snap");
    insta::assert_snapshot!("gates", answered(snapshot, answer));
}

#[test]
fn empty_gates_control_characters_and_infinite_numbers_are_rejected() {
    let told = |text: &str| parse(text, anything()).unwrap_err().to_string();
    assert!(told("wait.p99 < 50ms\u{1b}[31m").starts_with("column 16: `\\u{1b}` is not allowed in a gate"));
    assert!(["", "   "].iter().all(|text| told(text).starts_with("column 1: expected a metric")));
    for (digits, unit) in [(400, "ms"), (300, "h")] {
        let huge = format!("wait.p99 < {}{unit}", "9".repeat(digits));
        assert!(told(&huge).starts_with("column 12: the number is too large"), "{}", told(&huge));
    }
}

#[test]
fn invalid_gates_in_a_file_are_explained() {
    insta::assert_snapshot!(
        "errors_in_files_with_gates",
        said_of_files(&CARDS, include_str!("snapshots/pure__gate_grammar__errors_in_files_with_gates.snap"))
    );
}

fn figures() -> impl Strategy<Value = Figure> {
    use Statistic::{Max, Mean, Min, Percentile};
    let each = [Mean, Min, Percentile(50_000), Percentile(99_900), Max];
    let of_samples =
        Measure::all().into_iter().flat_map(|measure| each.map(|of| Figure::Latency(measure, of)));
    select(FIGURES.iter().map(|card| Figure::Plain(card)).chain(of_samples).collect::<Vec<_>>())
}

fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        (1_u32..1_000_000).prop_map(f64::from),
        (1_u32..1_000_000).prop_map(|n| f64::from(n) / 1_000.0)
    ]
}

fn scopes() -> impl Strategy<Value = Scope> {
    let label = prop_oneof!["[a-z][a-z-]{0,12}", "[a-z -~&&[^\"]]{1,12}[a-z]", "[a-z]\" [a-z]{1,3}"];
    let scope = (proptest::option::of(label), proptest::option::of(1_usize..100_000));
    scope.prop_map(|(strategy, contenders)| Scope { strategy, contenders })
}

fn units(unit: Unit) -> impl Strategy<Value = Written> {
    select(Written::ALL.into_iter().filter(|written| written.fits(unit)).collect::<Vec<_>>())
}

/// Random conditions of every form.
fn conditions() -> impl Strategy<Value = Condition> {
    let relations = select(vec![Relation::Less, Relation::AtMost, Relation::More, Relation::AtLeast]);
    let value = (figures(), numbers()).prop_flat_map(|(figure, number)| {
        // Shares are at most 1.
        let number = if figure.unit() == Unit::Share { number / 2e6 } else { number };
        let limit = units(figure.unit()).prop_map(move |unit| Limit::Value(Quantity { number, unit }));
        (Just(figure), limit)
    });
    let floor = (figures().prop_filter("metric with a floor", |figure| has_floor(*figure)), numbers())
        .prop_map(|(figure, factor)| (figure, Limit::Times(factor, Reference::Floor)));
    let other = (figures(), numbers(), scopes()).prop_map(|(figure, factor, mut scope)| {
        scope.strategy = Some("another".into());
        (figure, Limit::Times(factor, Reference::Figure(Subject { figure, scope })))
    });
    let compared = (prop_oneof![value, floor, other], relations)
        .prop_map(|((figure, limit), relation)| (figure, Rule::Compare(relation, limit)));
    let regressed = (figures(), 1_u32..1_000)
        .prop_filter("metric that can be worse", |(figure, _)| figure.better() != Better::Neither)
        .prop_map(|(figure, percent)| (figure, Rule::NotRegressed { percent: f64::from(percent) }));
    (prop_oneof![compared, regressed], scopes()).prop_map(|((figure, rule), scope)| Condition {
        across: None,
        subject: Subject { figure, scope },
        rule,
    })
}

/// At least ten thousand cases, and more if configured.
fn ten_thousand() -> ProptestConfig {
    ProptestConfig { cases: crate::cases().cases.max(10_000), ..crate::cases() }
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn random_gates_round_trip(condition in conditions()) {
        prop_assert_eq!(parse(&condition.to_string(), anything()), Ok(condition));
    }
}

proptest! {
    #![proptest_config(ten_thousand())]

    #[test]
    fn any_gate_text_is_parsed_or_rejected_with_a_valid_position(
        text in prop_oneof![
            any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            proptest::collection::vec(select(pieces()), 0..14).prop_map(|words| words.join(" ")),
            mutations(),
        ]
    ) {
        let cells = KnownCells { strategies: &["baton".to_owned()], locks: &[], contenders: &[20] };
        for known in [anything(), Known { cells: Some(cells), ..anything() }] {
            if let Err(mistake) = parse(&text, known) {
                prop_assert!(text.get(mistake.span.clone()).is_some(), "{mistake:?}");
                prop_assert_eq!(mistake.column, text[..mistake.span.start].chars().count() + 1);
                prop_assert!(!mistake.message.is_empty() && !mistake.help.is_empty());
                prop_assert!(!mistake.to_string().contains(char::is_control), "{}", mistake);
            } else {
                prop_assert!(parse(&text, anything()).is_ok());
            }
        }
    }
}

fn pieces() -> Vec<&'static str> {
    let text = "wait.p99 throughput violations fairness of baton at 20 contenders < >= == 50ms 100/s 1.2 * floor \
    not regressed by 5% against baseline \"";
    text.split(' ').collect()
}

/// A valid gate with some characters replaced, removed or inserted.
fn mutations() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), proptest::option::of(any::<char>()), any::<bool>());
    let changes = proptest::collection::vec(change, 1..4);
    (select(RIGHT.to_vec()), changes).prop_map(|(text, changes)| {
        let mut letters: Vec<char> = text.chars().collect();
        for (at, new, stays) in changes {
            let at = at.index(letters.len());
            let old = letters.remove(at);
            letters.splice(at..at, stays.then_some(old).into_iter().chain(new));
            letters.push(' ');
        }
        letters.into_iter().collect()
    })
}
