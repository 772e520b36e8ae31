//! Every diagnostic of keys that do not go together, and of text that is not TOML.

#[path = "support/cards.rs"]
mod cards;
#[path = "support/diagnosed.rs"]
mod diagnosed;

use cards::CARDS;
use diagnosed::{added, file};
use zklockbench::catalog::{Choice, LockCard, Param, ParamKind};
use zklockbench::scenario::parse;

#[test]
fn the_same_strategy_with_the_same_parameters_is_listed_once() {
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = [
  "polling",
  "polling",
  { name = "polling", poll_interval = "1s" },
  { name = "polling", poll_interval = "2s" },
]
"#,
        &[
            "6:3 `polling` is listed twice => use `repetitions` to run it again",
            "7:3 `polling` and `polling poll_interval=1s` have the same parameters in force => use `repetitions` to run it again",
        ],
    );
}

#[test]
fn a_poll_interval_needs_a_strategy_that_polls() {
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = ["parent-watch"]
poll_interval = "1s"
"#,
        &[
            "5:1 no listed strategy polls, so `poll_interval` means nothing => leave the key out; the strategies that poll: `polling`",
        ],
    );
}

#[test]
fn an_ensemble_is_either_started_or_connected_to() {
    added(
        &CARDS,
        r#"[ensemble]
servers = 3
connect = "zk1:2181"
data_dir = "/tmp""#,
        &[
            "7:1 `servers` is for an ensemble that the suite starts, but `connect` names an existing one => keep either `connect` or `servers`",
            "9:1 `data_dir` is for an ensemble that the suite starts, but `connect` names an existing one => keep either `connect` or `data_dir`",
        ],
    );
}

#[test]
fn a_compose_file_says_by_itself_how_many_servers_there_are_and_where_their_data_lie() {
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = ["polling"]
[ensemble]
compose = "compose.yaml"
servers = 3
"#,
        &[
            "7:1 `servers` is for servers that are processes of this host, but the file of `compose` says what its containers are => keep either `compose` or `servers`",
        ],
    );
}

#[test]
fn a_closed_load_ends_in_exactly_one_way() {
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling"]
contenders = 1
load = "closed"
"#,
        &[
            r#"4:1 nothing says when the measured phase ends => add `duration = "5s"`, or `acquisitions = 10` for each contender"#,
        ],
    );
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling"]
contenders = 1
acquisitions = 5
duration = "60s"
"#,
        &["5:1 both `duration` and `acquisitions` say when the measured phase ends => keep one of them"],
    );
}

#[test]
fn a_batch_is_one_queue_for_one_lock_and_nothing_else() {
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling", "no-lock"]
contenders = [1, 4]
load = "batch"
think = "1ms"
warm_up = "1s"
ramp_up = "1s"
locks = 2
duration = "1s"
acquisitions = 2
"#,
        &[
            r#"2:26 `no-lock` lets everybody in, so a batch of it never queues up => use load = "closed" for it"#,
            r#"5:9 a batch has no `think`: each contender acquires only once => leave the key out, or use load = "closed""#,
            r#"6:11 a batch has no `warm_up`: every acquisition of it is measured => leave the key out, or use load = "closed""#,
            r#"7:11 a batch has no `ramp_up`: contenders queue up one after the other => leave the key out, or use load = "closed""#,
            r#"8:9 a batch has one lock, for which all contenders queue => leave the key out, or use load = "closed""#,
            r#"9:1 a batch has no `duration`: it ends when each contender has acquired once => leave the key out, or use load = "closed""#,
            r#"10:16 in a batch each contender acquires once, not 2 times => leave the key out, or use load = "closed""#,
        ],
    );
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling"]
contenders = [1, 4]
load = "batch"
hold = "10s"
acquire_timeout = "20s"
"#,
        &[
            "6:19 the last of a batch of 4 waits at least 30s => give `acquire_timeout` more than that, or leave it out to wait for ever",
        ],
    );
}

#[test]
fn more_locks_than_contenders_cannot_be_used() {
    added(&CARDS, "locks = 3", &["6:9 3 locks are more than 2 contenders can use => write at most 2"]);
}

#[test]
fn only_a_reentrant_lock_is_taken_more_than_once_in_a_turn() {
    let help = "leave `depth` out, or list only reentrant strategies: `curator-mutex`";
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
depth = 3
contenders = 1
strategies = ["curator-mutex", "parent-watch", { name = "polling", poll_interval = "1s" }]
"#,
        &[
            &format!("5:32 `parent-watch` is not reentrant: its holder cannot take it 3 times => {help}"),
            &format!("5:48 `polling` is not reentrant: its holder cannot take it 3 times => {help}"),
        ],
    );
    added(&CARDS, "depth = 1", &[]);
    added(&CARDS, "depth = 0", &["6:9 `0` is out of bounds => write a whole number from 1 to 1000"]);
}

/// A lock of which one parameter decides what others mean.
const DECIDES: [LockCard; 1] = [LockCard {
    name: "decides",
    params: &[
        Param {
            name: "policy",
            kind: ParamKind::Choice(&[
                Choice { word: "never", takes: &[] },
                Choice { word: "some", takes: &["pause", "times"] },
                Choice { word: "always", takes: &["pause"] },
            ]),
            default: "never",
            doc: "Decides.",
        },
        Param { name: "pause", kind: ParamKind::Duration, default: "1s", doc: "A pause." },
        Param { name: "times", kind: ParamKind::Count(1, 9), default: "3", doc: "A number." },
    ],
    ..CARDS[4]
}];

fn decided(strategies: &str) -> String {
    format!("name = \"x\"\nduration = \"60s\"\ncontenders = 1\nstrategies = [{strategies}]\n")
}

#[test]
fn a_parameter_that_means_nothing_beside_the_others_is_a_mistake() {
    file(
        &DECIDES,
        &decided(
            "{ name = \"decides\", times = 2 }, { name = \"decides\", policy = \"always\", pause = \"1s\", times = 2 }",
        ),
        &[
            "4:35 `times` means nothing with policy = \"never\" => leave it out, or set `policy` to one of `some`",
            "4:101 `times` means nothing with policy = \"always\" => leave it out, or set `policy` to one of `some`",
        ],
    );
    file(&DECIDES, &decided("{ name = \"decides\", policy = \"some\", times = 2 }"), &[]);
}

#[test]
fn a_parameter_that_means_nothing_is_not_in_force() {
    let strategies =
        "\"decides\", { name = \"decides\", policy = \"always\" }, { name = \"decides\", policy = \"some\" }";
    let parsed =
        parse("x.toml", &decided(strategies), &DECIDES, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let names = |at: usize| parsed.scenario.strategies[at].params.keys().cloned().collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["policy".into()], vec!["pause".into(), "policy".into()]));
    assert_eq!(names(2), ["pause", "policy", "times"]);
}

#[test]
fn what_is_scaled_stays_measurable() {
    added(
        &CARDS,
        "time_scale = 1e-6",
        &[
            "6:14 `time_scale` makes `poll_interval` 1s shorter than 1ms => scale less, or give a longer `poll_interval`",
            "6:14 `time_scale` makes `duration` 1m shorter than 1ms => scale less, or give a longer `duration`",
        ],
    );
}

#[test]
fn a_plan_is_no_longer_than_anybody_would_wait_for() {
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
repetitions = 1000
strategies = ["parent-watch"]
contenders = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
"#,
        &[
            "5:14 the plan has 11000 trials, more than 10000 => list fewer contender counts or strategies, or repeat less",
        ],
    );
}

#[test]
fn text_that_is_not_toml_is_reported_line_by_line_with_the_usual_slip() {
    added(
        &CARDS,
        "hold = 20ms",
        &[
            r#"6:8 not TOML: string values must be quoted, expected literal string => text and durations stand in quotes: hold = "20ms""#,
        ],
    );
    added(
        &CARDS,
        r#"name = "again""#,
        &["6:1 not TOML: duplicate key => the key stands above already: keep one of the two"],
    );
    added(
        &CARDS,
        r#"locks 2
hold = fast
lod = "batch""#,
        &[
            "6:7 not TOML: key with no value, expected `=` => write key = value; a comment begins with #",
            r#"7:8 not TOML: invalid boolean, expected `false` => text and durations stand in quotes: hold = "fast""#,
            "8:1 unknown key `lod` => did you mean `load`?",
        ],
    );
    added(
        &CARDS,
        r#"hold = "20ms"#,
        &[
            r#"6:13 not TOML: invalid basic string, expected `"` => close the text with the quote that opened it"#,
        ],
    );
}

#[test]
fn a_line_that_stops_the_parser_hides_nothing_after_it() {
    file(
        &CARDS,
        r#"hold 5
think = fast
lod = "batch"
[ensemble
servers = 2
"#,
        &[
            "1:6 not TOML: key with no value, expected `=` => write key = value; a comment begins with #",
            r#"2:9 not TOML: invalid boolean, expected `false` => text and durations stand in quotes: think = "fast""#,
            "3:1 unknown key `lod` => did you mean `load`?",
            "4:10 not TOML: unclosed table, expected `]` => close the header with `]`, as in [ensemble]",
        ],
    );
}

#[test]
fn a_list_that_is_not_closed_is_said_once() {
    file(
        &CARDS,
        r#"strategies = [
 "polling",
hold = "20ms"
name = "x"
[ensemble]
servers = 2
"#,
        &[
            "3:6 not TOML: unexpected `=` in array, expected value, `]` => close the list or table that was opened above",
        ],
    );
}
