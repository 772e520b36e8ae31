//! Every diagnostic of the values that have a shape of their own: strategies, distributions, connect strings.

#[path = "support/cards.rs"]
mod cards;
#[path = "support/diagnosed.rs"]
mod diagnosed;

use cards::CARDS;
use diagnosed::{added, file};

#[test]
fn strategies_exist_and_have_the_parameters_that_they_are_given() {
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = [
  "parent_watch",
  "zebra",
  { name = "predecessor" },
  { watch = "data" },
  5,
  { name = 5 },
]
"#,
        &[
            "5:3 unknown strategy `parent_watch` => did you mean `parent-watch`?",
            "6:3 unknown strategy `zebra` => the strategies are `polling`, `parent-watch`, `predecessor-watch`, `curator-mutex`, `no-lock`",
            "7:12 unknown strategy `predecessor` => did you mean `predecessor-watch`?",
            "8:3 the strategy has no `name` => the strategies are `polling`, `parent-watch`, `predecessor-watch`, `curator-mutex`, `no-lock`",
            r#"9:3 expected a strategy, found an integer: `5` => write its name in quotes, or { name = "polling", poll_interval = "500ms" }"#,
            "10:12 expected a strategy's name, found an integer: `5` => write it in quotes",
        ],
    );
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = [
  { name = "polling", poll_intervall = "1s" },
  { name = "polling", poll_interval = "0s" },
  { name = "polling", look_first = "yes" },
  { name = "parent-watch", poll_interval = "1s" },
  { name = "parent-watch", while_holding = "list" },
  { name = "predecessor-watch", watch = "exist" },
  { name = "curator-mutex", leases = 1 },
]
"#,
        &[
            "5:23 `polling` has no parameter `poll_intervall` => did you mean `poll_interval`?",
            "6:39 `0s` is out of bounds => write a duration from 1ms to 1h",
            r#"7:36 expected `true` or `false`, found a string: `"yes"` => write true or false, without quotes"#,
            "8:28 `parent-watch` has no parameter `poll_interval` => it is a parameter of `polling`",
            "9:44 `list` is not one of `stop`, `relist` => write one of them",
            "10:41 `exist` is not one of `data`, `exists` => did you mean `exists`?",
            "11:29 `curator-mutex` has no parameter `leases` => `curator-mutex` takes no parameters",
        ],
    );
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = "polling"
"#,
        &[
            r#"4:14 expected a list of strategies, found a string: `"polling"` => put it in brackets: strategies = ["polling"]"#,
        ],
    );
    file(
        &CARDS,
        r#"name = "x"
duration = "60s"
contenders = 1
strategies = []
"#,
        &[
            "4:14 the list is empty => the strategies are `polling`, `parent-watch`, `predecessor-watch`, `curator-mutex`, `no-lock`",
        ],
    );
}

#[test]
fn a_distribution_has_one_known_shape_with_all_its_parts() {
    added(
        &CARDS,
        "hold = {}",
        &[
            r#"6:8 expected one distribution, found 0 => name one of `uniform`, `exponential`, `log-normal`, or write a fixed time such as "20ms""#,
        ],
    );
    added(
        &CARDS,
        r#"hold = { min = "1ms", max = "2ms" }"#,
        &[r#"6:8 the distribution has no name => name it: { uniform = { min = "1ms", max = "5ms" } }"#],
    );
    added(
        &CARDS,
        r#"hold = { fixed = "1ms" }"#,
        &[r#"6:10 unknown distribution `fixed` => a fixed time is just the duration in quotes: "20ms""#],
    );
    added(
        &CARDS,
        r#"hold = { normal = { mean = "1ms" } }"#,
        &[
            "6:10 unknown distribution `normal` => the distributions are `uniform`, `exponential`, `log-normal`",
        ],
    );
    added(
        &CARDS,
        r#"hold = { lognormal = { median = "1ms", sigma = 9 } }"#,
        &[
            "6:10 unknown distribution `lognormal` => did you mean `log-normal`?",
            "6:48 `9` is out of bounds => write a number from 0 to 3",
        ],
    );
    added(
        &CARDS,
        r#"hold = { log-normal = { median = "1ms", sgma = 1 } }"#,
        &["6:41 `log-normal` has no `sgma` => did you mean `sigma`?"],
    );
}

#[test]
fn the_parts_of_a_distribution_are_all_there_and_make_sense() {
    added(
        &CARDS,
        r#"hold = { uniform = { min = "1ms" } }"#,
        &[r#"6:10 `uniform` needs `max` => for example { uniform = { min = "1ms", max = "5ms" } }"#],
    );
    added(
        &CARDS,
        r#"hold = { uniform = { min = "5ms", max = "1ms" } }"#,
        &["6:20 `min` 5ms is more than `max` 1ms => exchange the two"],
    );
    added(
        &CARDS,
        r#"hold = { uniform = "1ms" }"#,
        &[
            r#"6:20 expected a table, found a string: `"1ms"` => write { uniform = { min = "1ms", max = "5ms" } }"#,
        ],
    );
    added(
        &CARDS,
        r#"hold = { exponential = { mean = "1ms", max = "2ms" } }"#,
        &["6:40 `exponential` has no `max` => it takes `mean`"],
    );
    added(
        &CARDS,
        "hold = { exponential = { mean = 5 } }",
        &[
            r#"6:33 expected a duration, found an integer: `5` => write "5ms" or "5s", in quotes and with a unit"#,
        ],
    );
    added(
        &CARDS,
        r#"hold = { exponential = { mean = "1ms" }, uniform = { min = "1ms", max = "2ms" } }"#,
        &[
            r#"6:8 expected one distribution, found 2 => name one of `uniform`, `exponential`, `log-normal`, or write a fixed time such as "20ms""#,
        ],
    );
}

#[test]
fn a_connect_string_is_hosts_with_ports_and_one_chroot() {
    added(
        &CARDS,
        r#"[ensemble]
connect = """#,
        &[
            r#"7:11 `` is not a host => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
connect = "zk1:0""#,
        &[
            r#"7:11 `zk1:0` has no valid port => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
connect = "zk1:2181 zk2:2181""#,
        &[
            r#"7:11 a connect string has no spaces => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
connect = "http://zk1:1""#,
        &[
            r#"7:11 `http://zk1:1` is not a host => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
connect = "zk1:1/a,zk2:2""#,
        &[
            r#"7:11 `/a,zk2:2` is not a chroot => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
connect = "zk1:1/a/""#,
        &[
            r#"7:11 `/a/` is not a chroot => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
    added(
        &CARDS,
        r#"[ensemble]
connect = "zk1:2181,""#,
        &[
            r#"7:11 `` is not a host => write host:port pairs with commas between, and a chroot only after the last: "zk1:2181,zk2:2181/chroot""#,
        ],
    );
}
