//! Every diagnostic of a single key and its value, with its place and what to do.

#[path = "support/cards.rs"]
mod cards;
#[path = "support/diagnosed.rs"]
mod diagnosed;

use cards::CARDS;
use diagnosed::{added, file};

#[test]
fn a_key_that_is_not_known_is_answered_with_the_one_that_was_meant() {
    added(&CARDS, r#"warmup = "1s""#, &["6:1 unknown key `warmup` => did you mean `warm_up`?"]);
    added(&CARDS, "clients = 5", &["6:1 unknown key `clients` => did you mean `contenders`?"]);
    added(&CARDS, r#"rampup = "1s""#, &["6:1 unknown key `rampup` => did you mean `ramp_up`?"]);
    added(
        &CARDS,
        "zebra = 1",
        &[
            "6:1 unknown key `zebra` => the keys here are `name`, `description`, `strategies`, `contenders`, `locks`, `hold`, `think`, `read_ratio`, `depth`, `poll_interval`, `load`, `duration`, `acquisitions`, `ramp_up`, `warm_up`, `repetitions`, `order`, `seed`, `session_timeout`, `acquire_timeout`, `in_doubt`, `time_scale`, `ensemble`, `fault`",
        ],
    );
    added(&CARDS, "servers = 3", &["6:1 unknown key `servers` => `servers` belongs under `[ensemble]`"]);
    added(
        &CARDS,
        "[ensemble]
seed = 3",
        &[
            "7:1 unknown key `seed` in `[ensemble]` => `seed` belongs at the top of the file, before `[ensemble]`",
        ],
    );
    added(
        &CARDS,
        "[ensemble]
server = 3",
        &["7:1 unknown key `server` in `[ensemble]` => did you mean `servers`?"],
    );
    added(
        &CARDS,
        "[ensembel]
servers = 3",
        &["6:2 unknown key `ensembel` => did you mean `ensemble`?"],
    );
    added(
        &CARDS,
        r#"[ensemble]
colour = "red""#,
        &[
            "7:1 unknown key `colour` in `[ensemble]` => the keys here are `servers`, `data_dir`, `compose`, `connect`",
        ],
    );
}

#[test]
fn a_misspelt_key_does_not_hide_what_is_wrong_with_its_value() {
    added(
        &CARDS,
        r#"tink = "5 parsecs""#,
        &[
            "6:1 unknown key `tink` => did you mean `think`?",
            r#"6:8 `5 parsecs` is not a duration (unknown time unit "parsecs", supported units: ns, us/µs, ms, sec, min, hours, days, weeks, months, years (and few variations)) => write e.g. `20ms`, `1s` or `2m 30s`"#,
        ],
    );
}

#[test]
fn what_must_be_there_and_is_not_is_named_with_an_example() {
    file(
        &CARDS,
        "",
        &[
            r#"1:1 `name` is missing => add a line such as name = "quick""#,
            r#"1:1 `strategies` is missing => add a line such as strategies = ["polling", { name = "predecessor-watch", watch = "exists" }]"#,
            "1:1 `contenders` is missing => add a line such as contenders = [1, 5, 20]",
            r#"1:1 nothing says when the measured phase ends => add `duration = "5s"`, or `acquisitions = 10` for each contender"#,
        ],
    );
    file(
        &CARDS,
        "locks = 1
",
        &[
            r#"1:1 `name` is missing => add a line such as name = "quick""#,
            r#"1:1 `strategies` is missing => add a line such as strategies = ["polling", { name = "predecessor-watch", watch = "exists" }]"#,
            "1:1 `contenders` is missing => add a line such as contenders = [1, 5, 20]",
            r#"1:1 nothing says when the measured phase ends => add `duration = "5s"`, or `acquisitions = 10` for each contender"#,
        ],
    );
}

#[test]
fn a_value_of_the_wrong_type_is_quoted_with_the_type_expected() {
    added(
        &CARDS,
        r#"locks = "2""#,
        &[r#"6:9 expected a whole number, found a string: `"2"` => write 2 without quotes"#],
    );
    added(
        &CARDS,
        "locks = 2.5",
        &["6:9 expected a whole number, found a float: `2.5` => write a whole number from 1 to 100000"],
    );
    added(
        &CARDS,
        "hold = 20",
        &[
            r#"6:8 expected a duration, found an integer: `20` => write "20ms" or "20s", in quotes and with a unit"#,
        ],
    );
    added(
        &CARDS,
        "hold = 1.5",
        &[
            r#"6:8 expected a duration, found a float: `1.5` => write "1.5ms" or "1.5s", in quotes and with a unit"#,
        ],
    );
    added(
        &CARDS,
        "hold = true",
        &[
            r#"6:8 expected a duration, found a boolean: `true` => write it as text with a unit, such as "20ms" or "1s""#,
        ],
    );
    added(&CARDS, "description = 5", &["6:15 expected text, found an integer: `5` => write it in quotes"]);
    added(
        &CARDS,
        r#"time_scale = "1""#,
        &[r#"6:14 expected a number, found a string: `"1"` => write a number from 0.000001 to 1000"#],
    );
    added(
        &CARDS,
        "order = 1",
        &[
            "6:9 expected one of `shuffled`, `as-written`, found an integer: `1` => write one of these words in quotes",
        ],
    );
}

#[test]
fn a_value_of_the_wrong_type_in_the_ensemble_is_quoted_too() {
    added(
        &CARDS,
        r#"ensemble = "zk1:2181""#,
        &[
            r#"6:12 expected a table, found a string: `"zk1:2181"` => write `[ensemble]` and, under it, `servers = 3` or `connect = "zk1:2181"`"#,
        ],
    );
    added(
        &CARDS,
        "[ensemble]
data_dir = 3",
        &["7:12 expected a directory, found an integer: `3` => write its path in quotes"],
    );
    added(
        &CARDS,
        r#"[ensemble]
servers = "3""#,
        &[r#"7:11 expected a whole number, found a string: `"3"` => write 3 without quotes"#],
    );
    added(
        &CARDS,
        "[ensemble]
connect = 2181",
        &[
            r#"7:11 expected a connect string, found an integer: `2181` => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
}

#[test]
fn a_duration_needs_a_known_unit() {
    added(&CARDS, r#"hold = "20""#, &["6:8 `20` has no unit => write `20ms` or `20s`"]);
    added(
        &CARDS,
        r#"hold = "5 parsecs""#,
        &[
            r#"6:8 `5 parsecs` is not a duration (unknown time unit "parsecs", supported units: ns, us/µs, ms, sec, min, hours, days, weeks, months, years (and few variations)) => write e.g. `20ms`, `1s` or `2m 30s`"#,
        ],
    );
    added(
        &CARDS,
        r#"hold = "-5ms""#,
        &["6:8 `-5ms` is not a duration (expected number at 0) => write e.g. `20ms`, `1s` or `2m 30s`"],
    );
    added(
        &CARDS,
        r#"hold = """#,
        &["6:8 `` is not a duration (value was empty) => write e.g. `20ms`, `1s` or `2m 30s`"],
    );
    added(
        &CARDS,
        r#"hold = "99999999999999999999s""#,
        &[
            "6:8 `99999999999999999999s` is not a duration (number is too large or cannot be represented without a lack of precision (values below 1ns are not supported)) => write e.g. `20ms`, `1s` or `2m 30s`",
        ],
    );
}

#[test]
fn a_value_out_of_bounds_is_answered_with_the_bounds() {
    added(&CARDS, "locks = 0", &["6:9 `0` is out of bounds => write a whole number from 1 to 100000"]);
    added(
        &CARDS,
        "locks = 100001",
        &["6:9 `100001` is out of bounds => write a whole number from 1 to 100000"],
    );
    added(
        &CARDS,
        "seed = -1",
        &["6:8 `-1` is out of bounds => write a whole number from 0 to 9223372036854775807"],
    );
    added(
        &CARDS,
        "seed = 9223372036854775808",
        &["6:8 `9223372036854775808` is out of bounds => write a whole number from 0 to 9223372036854775807"],
    );
    added(&CARDS, "repetitions = 0", &["6:15 `0` is out of bounds => write a whole number from 1 to 1000"]);
    added(&CARDS, "time_scale = 0", &["6:14 `0` is out of bounds => write a number from 0.000001 to 1000"]);
    added(
        &CARDS,
        "time_scale = nan",
        &["6:14 `nan` is out of bounds => write a number from 0.000001 to 1000"],
    );
    added(
        &CARDS,
        "time_scale = inf",
        &["6:14 `inf` is out of bounds => write a number from 0.000001 to 1000"],
    );
    added(&CARDS, r#"hold = "2d""#, &["6:8 `2d` is out of bounds => write a duration from 0s to 1day"]);
    added(
        &CARDS,
        r#"acquire_timeout = "0s""#,
        &["6:19 `0s` is out of bounds => write a duration from 1ms to 7days"],
    );
    added(
        &CARDS,
        r#"session_timeout = "50ms""#,
        &["6:19 `50ms` is out of bounds => write a duration from 200ms to 10m"],
    );
    added(
        &CARDS,
        r#"session_timeout = "1h""#,
        &["6:19 `1h` is out of bounds => write a duration from 200ms to 10m"],
    );
    added(
        &CARDS,
        r#"poll_interval = "1us""#,
        &["6:17 `1us` is out of bounds => write a duration from 1ms to 1h"],
    );
    added(
        &CARDS,
        "[ensemble]
servers = 2",
        &[
            "7:11 `2` is not one of 1, 3, 5 => write one of them: a majority gains nothing from an even server",
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
data_dir = """#,
        &["7:12 the path is empty => name a directory, or leave the key out"],
    );
}

#[test]
fn contenders_are_different_positive_whole_numbers() {
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling"]
duration = "60s"
contenders = [1, 0, 5, 5, "20", 2.5, 100001]
"#,
        &[
            "4:18 `0` is out of bounds => write a whole number from 1 to 100000",
            "4:24 `5` is listed twice => use `repetitions` to run it again",
            r#"4:27 expected a whole number, found a string: `"20"` => write 20 without quotes"#,
            "4:33 expected a whole number, found a float: `2.5` => write a whole number from 1 to 100000",
            "4:38 `100001` is out of bounds => write a whole number from 1 to 100000",
        ],
    );
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling"]
duration = "60s"
contenders = []
"#,
        &["4:14 the list is empty => list at least one count, such as [1, 5, 20]"],
    );
    file(
        &CARDS,
        r#"name = "x"
strategies = ["polling"]
duration = "60s"
contenders = "20"
"#,
        &[r#"4:14 expected a whole number, found a string: `"20"` => write 20 without quotes"#],
    );
}

#[test]
fn a_name_can_become_a_directory() {
    file(
        &CARDS,
        r#"name = "My Scenario"
strategies = ["polling"]
duration = "60s"
contenders = 1
"#,
        &[
            "1:8 `My Scenario` is not a name: up to 60 lower-case letters, digits and hyphens, not beginning with a hyphen => for example `my-scenario`",
        ],
    );
    file(
        &CARDS,
        r#"name = ""
strategies = ["polling"]
duration = "60s"
contenders = 1
"#,
        &[
            "1:8 `` is not a name: up to 60 lower-case letters, digits and hyphens, not beginning with a hyphen => for example `quick`",
        ],
    );
}

#[test]
fn a_word_is_one_of_the_list() {
    added(&CARDS, r#"load = "open""#, &["6:8 `open` is not one of `closed`, `batch` => write one of them"]);
    added(
        &CARDS,
        r#"order = "shufled""#,
        &["6:9 `shufled` is not one of `shuffled`, `as-written` => did you mean `shuffled`?"],
    );
}
