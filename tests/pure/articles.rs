//! Claims of articles: the figures that confirm one, refute it, or leave it open; and the page that shows them.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use zklockbench::answer::articles::{
    Answer, BACKGROUND, CuratorWatches, Decision, Decisions, Evidence, FOREGROUND, Named, WatchStep, claims,
    decide, page, text,
};
use zklockbench::record::{
    Behaviour, Bystander, Calibration, Change, CreationOrder, FaultRecord, FencingCounts, Left, NodeSize,
    Numbers, OneShot, QueueSeen, Raced, Stuck, Tally, Timing, Trial, WatchCell, WatchedBy,
};
use zklockbench::results::{self, StoredRun};
use zklockbench::scenario::Distribution;
use zklockbench::words::catalog::ParamValue;
use zklockbench::words::measure::{Counts, Notifications, Outcome, RequestKind};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn example() -> StoredRun {
    static EXAMPLE: LazyLock<StoredRun> =
        LazyLock::new(|| results::read(&root().join("results/example")).unwrap());
    EXAMPLE.clone()
}

/// A sound trial in which nothing was counted yet.
fn trial(strategy: &str, contenders: usize) -> Trial {
    let mut trial = example().trials.swap_remove(0);
    trial.spec.strategy.name = strategy.to_owned();
    trial.spec.strategy.params.clear();
    trial.spec.contenders = contenders;
    trial.cut_short = None;
    trial.health.invalid = None;
    trial.measured = Counts::default();
    trial.whole = Counts::default();
    trial.violation_count = 0;
    trial.violations.clear();
    trial.faults.clear();
    trial.stuck.clear();
    trial.fencing = FencingCounts::default();
    trial.tallies.clear();
    trial.servers.clear();
    trial.accounting.clear();
    trial.full_crew = None;
    trial.excused.zombies = 0;
    trial.sessions.expired = 0;
    trial.sessions.rejoined = 0;
    trial
}

fn with_word(mut trial: Trial, param: &str, word: &str) -> Trial {
    trial.spec.strategy.params.insert(param.to_owned(), ParamValue::Word(word.to_owned()));
    trial
}

fn with(mut trial: Trial, change: impl FnOnce(&mut Trial)) -> Trial {
    change(&mut trial);
    trial
}

fn run(scenario: &str, trials: Vec<Trial>) -> Named<StoredRun> {
    let mut run = example();
    run.run.run.scenario = scenario.to_owned();
    run.trials = trials;
    Named { name: format!("{scenario}-run"), what: run }
}

fn of_runs(runs: Vec<Named<StoredRun>>) -> Evidence {
    Evidence { runs, ..Evidence::default() }
}

fn of_behaviour(behaviour: Behaviour) -> Evidence {
    let calibration = Calibration { behaviour: Some(behaviour), ..calibration() };
    let calibrations = vec![Named { name: "calibration".into(), what: calibration }];
    Evidence { calibrations, ..Evidence::default() }
}

pub fn calibration() -> Calibration {
    let run = example().run.run;
    Calibration {
        tool_version: String::new(),
        tool_commit: None,
        started_at: run.started_at,
        ended_at: run.ended_at,
        budget_us: 0,
        rest_us: None,
        saturating_sessions: 0,
        in_flight: 0,
        host: run.host,
        ensemble: run.ensemble,
        floor: Default::default(),
        synced_writes_per_s: None,
        servers: Vec::new(),
        pairs: Vec::new(),
        missing: Vec::new(),
        behaviour: None,
    }
}

fn claim(number: u8, evidence: &Evidence) -> Decision {
    decide(evidence).into_iter().find(|claim| claim.number == number).unwrap()
}

fn answer(number: u8, evidence: &Evidence) -> Answer {
    claim(number, evidence).answer
}

fn acquired(trial: &mut Trial, amount: u64) {
    trial.whole.outcomes.add(Outcome::Acquired, amount);
    trial.measured.outcomes.add(Outcome::Acquired, amount);
}

fn costing(strategy: &str, contenders: usize, requests: u64, bytes: u64) -> Trial {
    with(trial(strategy, contenders), |trial| {
        acquired(trial, 1);
        trial.whole.requests.add(RequestKind::GetChildren, requests);
        trial.whole.bytes_received = bytes;
    })
}

fn told(trial: &mut Trial, waiters: u64) {
    trial.whole.notifications = Notifications { by_release_useful: waiters, ..Notifications::default() };
}

#[test]
fn every_claim_has_its_number_once_from_1_to_40() {
    let numbers: Vec<u8> = claims().iter().map(|claim| claim.number).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<u8>>());
}

#[test]
fn without_any_run_nothing_is_decided_and_each_claim_says_what_it_needs() {
    for decision in decide(&Evidence::default()) {
        assert_eq!(decision.answer, Answer::NotDecided, "{decision:?}");
        assert!(decision.runs.is_empty());
        let says = ["scenarios/articles/", "calibrate", "coordinator", "scripts/articles"];
        assert!(says.iter().any(|word| decision.sentence.contains(word)), "{decision:?}");
    }
}

#[test]
fn what_a_claim_needs_is_a_scenario_that_ships_and_names_the_claim() {
    for claim in claims() {
        for need in claim.needs.iter().filter(|need| need.starts_with("articles-")) {
            let path = root().join(format!("scenarios/articles/{need}.toml"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{need}: {error}"));
            assert!(text.contains("claim"), "{need}");
        }
    }
}

#[test]
fn a_claim_that_is_not_decided_for_want_of_a_run_names_its_scenario() {
    let decision = claim(7, &Evidence::default());
    assert_eq!(decision.sentence, "needs scenarios/articles/articles-majority.toml");
}

#[test]
fn other_coordinators_leave_their_claims_open() {
    for number in [5, 35] {
        assert_eq!(answer(number, &Evidence::default()), Answer::NotDecided);
    }
}

fn race_and_queue(race: [u64; 2], queue: [u64; 2]) -> Evidence {
    let of = |strategy: &str, n: usize, wait: u64| {
        with(trial(strategy, n), |trial| {
            trial.tallies = vec![Tally { acquired: 10, unserved: 0, longest_wait_us: wait }; n];
        })
    };
    let mut trials = Vec::new();
    for (at, n) in [2, 50].into_iter().enumerate() {
        trials.push(with_word(of("ephemeral-node", n, race[at]), "wait", "watch"));
        trials.push(with_word(of("predecessor-watch", n, queue[at]), "watch", "data"));
    }
    of_runs(vec![run("articles-waits", trials)])
}

#[test]
fn claim_1_a_race_waits_without_bound_if_far_longer_than_a_queue_of_as_many() {
    assert_eq!(answer(1, &race_and_queue([10, 900], [10, 100])), Answer::Confirmed);
    assert_eq!(answer(1, &race_and_queue([10, 90], [10, 100])), Answer::Refuted);
    assert_eq!(answer(1, &race_and_queue([10, 150], [10, 100])), Answer::NotDecided);
}

#[test]
fn claims_2_and_16_and_37_count_whom_the_releases_of_a_batch_tell() {
    let batch = |predecessor: u64, parent: u64, child: u64, n: usize| {
        let queue = |name: &str| with(trial(name, n), |trial| told(trial, predecessor));
        let herd = with(trial("parent-watch", n), |trial| told(trial, parent));
        let race = with(trial("ephemeral-child", n), |trial| {
            told(trial, child);
            trial.whole.requests.add(RequestKind::Create, (n * (n + 1) / 2) as u64);
        });
        let closed = with(trial("curator-mutex", n), |trial| {
            trial.whole.releases = 100;
            trial.whole.notifications.by_release_useful = 90;
        });
        let predecessor = with_word(queue("predecessor-watch"), "watch", "data");
        let batch = run("articles-batch", vec![predecessor, queue("curator-mutex"), herd, race]);
        of_runs(vec![batch, run("articles-waits", vec![closed])])
    };
    let right = batch(19, 190, 190, 20);
    assert_eq!(
        [2, 16, 37].map(|number| answer(number, &right)),
        [Answer::Confirmed, Answer::HoldsWhen, Answer::Confirmed]
    );
    assert!(claim(16, &right).sentence.contains("the largest was 20"));
    assert_eq!(answer(16, &batch(999, 499_500, 499_500, 1000)), Answer::Confirmed);
    let wrong = batch(25, 19, 19, 20);
    assert_eq!([2, 16, 37].map(|number| answer(number, &wrong)), [Answer::Refuted; 3]);
}

#[test]
fn claim_36_of_all_creates_as_many_succeed_as_locks_are_acquired() {
    let race = |succeeded: u64| {
        let trial = with(trial("ephemeral-node", 20), |trial| {
            acquired(trial, 20);
            trial.whole.requests.add(RequestKind::Create, 210);
            trial.whole.succeeded.add(RequestKind::Create, succeeded);
        });
        of_runs(vec![run("articles-batch", vec![trial])])
    };
    assert_eq!((answer(36, &race(20)), answer(36, &race(21))), (Answer::Confirmed, Answer::Refuted));
}

#[test]
fn claim_18_is_refuted_by_an_early_entry_and_open_where_nobody_left() {
    let leaves = |violations: u64, left: bool| {
        let class = with(trial("predecessor-watch-wait-limited", 6), |trial| {
            trial.violation_count = violations;
            trial.faults = vec![FaultRecord { proved: left, ..fault("expire") }];
        });
        of_runs(vec![run("articles-waiter-leaves", vec![class, trial("predecessor-watch", 6)])])
    };
    assert_eq!(answer(18, &leaves(3, true)), Answer::Refuted);
    assert_eq!(answer(18, &leaves(0, true)), Answer::NotDecided);
    assert_eq!(answer(18, &leaves(0, false)), Answer::NotDecided);
}

#[test]
fn claim_19_holds_only_while_waits_are_shorter_than_the_session_timeout() {
    let class = |got: u64, gave_up: u64| {
        let of = |acquires: u64, timed_out: u64| {
            with(trial("predecessor-watch-wait-limited", 5), |trial| {
                acquired(trial, acquires);
                trial.whole.outcomes.add(Outcome::TimedOut, timed_out);
            })
        };
        of_runs(vec![
            run("articles-wait-limited", vec![of(got, 0)]),
            run("articles-wait-too-limited", vec![of(2, gave_up)]),
        ])
    };
    assert_eq!(answer(19, &class(5, 3)), Answer::HoldsWhen);
    assert_eq!(answer(19, &class(5, 0)), Answer::Confirmed);
    assert_eq!(answer(19, &class(4, 3)), Answer::Refuted);
}

#[test]
fn claims_20_and_32_count_creates_deletes_and_requests_of_turns() {
    let turns = |deletes: u64, lists: u64| {
        let trial = with(trial("curator-mutex", 1), |trial| {
            acquired(trial, 10);
            trial.whole.requests.add(RequestKind::Create, 10);
            trial.whole.requests.add(RequestKind::Delete, deletes);
            trial.whole.requests.add(RequestKind::GetChildren, lists);
        });
        of_runs(vec![run("articles-reentrant", vec![trial])])
    };
    assert_eq!([20, 32].map(|number| answer(number, &turns(10, 10))), [Answer::Confirmed; 2]);
    assert_eq!([20, 32].map(|number| answer(number, &turns(30, 30))), [Answer::Refuted; 2]);
}

#[test]
fn claim_29_asks_whom_a_later_arrival_has_overtaken() {
    let fairness = |retry: u64, queue: u64| {
        let of = |name: &str, overtaken: u64| {
            with(trial(name, 20), |trial| {
                acquired(trial, 200);
                trial.measured.overtaken = overtaken;
                trial.spec.stop = zklockbench::scenario::Stop::After(Duration::from_secs(5));
                trial.tallies = vec![Tally { acquired: 10, unserved: 0, longest_wait_us: 1 }; 20];
            })
        };
        let retry = with_word(of("ephemeral-node", retry), "wait", "retry");
        of_runs(vec![run("articles-waits", vec![retry, of("curator-mutex", queue)])])
    };
    assert_eq!(answer(29, &fairness(80, 0)), Answer::Confirmed);
    assert_eq!(answer(29, &fairness(0, 0)), Answer::Refuted);
    assert_eq!(answer(29, &fairness(80, 80)), Answer::Refuted);
}

fn costs(exact: [u64; 3], map: [u64; 3]) -> Evidence {
    let names = ["polling", "parent-watch", "predecessor-watch"];
    let of = |requests: [u64; 3]| -> Vec<Trial> {
        let each = names.into_iter().zip(requests);
        each.map(|(name, requests)| {
            with(costing(name, 20, requests, requests * 100), |trial| {
                trial.spec.hold = Distribution::Fixed(Duration::from_millis(100));
                let interval = ParamValue::Duration(Duration::from_millis(100));
                trial.spec.strategy.params.insert("poll_interval".into(), interval);
            })
        })
        .collect()
    };
    of_runs(vec![run("articles-exact", of(exact)), run("articles-network-cost", of(map))])
}

#[test]
fn claim_25_is_confirmed_refuted_or_holds_where_the_map_says() {
    assert_eq!(answer(25, &costs([100, 40, 5], [100, 40, 5])), Answer::Confirmed);
    assert_eq!(answer(25, &costs([20, 39, 30], [20, 39, 30])), Answer::Refuted);
    let half = claim(25, &costs([24, 22, 5], [24, 22, 5]));
    assert_eq!(half.answer, Answer::HoldsWhen);
    assert!(
        half.sentence.contains("the first ≫ holds in 0 of 1 cells, the second in 1"),
        "{}",
        half.sentence
    );
}

#[test]
fn claim_26_weighs_the_waste_beyond_predecessor_watch() {
    assert_eq!(answer(26, &costs([100, 20, 5], [1, 1, 1])), Answer::Confirmed);
    assert_eq!(answer(26, &costs([24, 22, 5], [1, 1, 1])), Answer::Refuted);
    assert_eq!(
        answer(26, &of_runs(vec![run("articles-exact", vec![costing("polling", 20, 9, 9)])])),
        Answer::NotDecided
    );
}

#[test]
fn claim_24_is_about_time_and_order() {
    let polling = |got: u64, us: u64, overtaken: u64| {
        let trial = with(trial("polling", 20), |trial| {
            acquired(trial, got);
            trial.measured_us = us;
            trial.measured.overtaken = overtaken;
        });
        of_runs(vec![run("articles-exact", vec![trial])])
    };
    assert_eq!(answer(24, &polling(20, 60_000_000, 0)), Answer::HoldsWhen);
    assert_eq!(answer(24, &polling(20, 60_000_000, 4)), Answer::Confirmed);
    assert_eq!(answer(24, &polling(20, 101_000_000, 4)), Answer::Refuted);
    assert_eq!(answer(24, &polling(19, 60_000_000, 4)), Answer::Refuted);
}

fn fault(kind: &str) -> FaultRecord {
    FaultRecord {
        number: 1,
        kind: kind.into(),
        label: kind.into(),
        target: String::new(),
        asked_us: 0,
        effective_us: Some(0),
        ended_us: Some(1),
        proved: true,
        proof: String::new(),
        left: None,
        elected_us: None,
        longest_gap_us: Some(1_000_000),
        wait_p99: None,
        disturbance: None,
        meanwhile: None,
        recovered_us: Some(1_000_000),
    }
}

#[test]
fn claims_8_and_23_ask_whether_sessions_outlive_their_connections() {
    let resets = |rejoined: u64, overtaken: u64, proved: bool| {
        let trial = with(trial("curator-mutex", 10), |trial| {
            trial.sessions.rejoined = rejoined;
            acquired(trial, 100);
            trial.measured.overtaken = overtaken;
            trial.faults = vec![FaultRecord { proved, ..fault("reset") }];
        });
        of_runs(vec![run("articles-disconnected", vec![trial])])
    };
    let both = |evidence: &Evidence| [8, 23].map(|number| answer(number, evidence));
    assert_eq!(both(&resets(0, 1, true)), [Answer::Confirmed, Answer::Refuted]);
    assert_eq!(both(&resets(0, 30, true)), [Answer::HoldsWhen, Answer::Refuted]);
    assert_eq!(both(&resets(4, 0, true)), [Answer::Refuted, Answer::NotDecided]);
    assert_eq!(both(&resets(0, 0, false)), [Answer::NotDecided, Answer::NotDecided]);
}

#[test]
fn claim_33_compares_watches_on_the_servers_after_removals_in_the_foreground_and_in_the_background() {
    let counted = |set: u64, foreground: u64, background: u64| {
        let step = |what: &str, after: u64| WatchStep { what: what.into(), before: 1, set, after };
        let steps = vec![step(FOREGROUND, foreground), step(BACKGROUND, background)];
        let what = CuratorWatches { curator: "5.4.0".into(), zookeeper: "3.8.0".into(), steps };
        answer(
            33,
            &Evidence { curators: vec![Named { name: "curator".into(), what }], ..Evidence::default() },
        )
    };
    assert_eq!(counted(2, 1, 2), Answer::Confirmed);
    assert_eq!(counted(2, 2, 2), Answer::Refuted);
    assert_eq!(counted(2, 1, 1), Answer::Refuted);
    assert_eq!(counted(2, 2, 1), Answer::Refuted);
    assert_eq!(counted(1, 1, 1), Answer::NotDecided, "no watch was counted at all");
    assert_eq!(answer(33, &Evidence::default()), Answer::NotDecided);
}

#[test]
fn claim_14_compares_a_dead_holders_lock_with_its_session_timeout() {
    let crashed = |recovered_us: u64, left: Left| {
        let trial = with(trial("predecessor-watch", 5), |trial| {
            trial.sessions.negotiated_timeout_us = 2_000_000;
            trial.faults = vec![FaultRecord { recovered_us: Some(recovered_us), ..fault("crash") }];
        });
        let mut evidence = of_behaviour(Behaviour { left: Some(left), ..Behaviour::default() });
        evidence.runs.push(run("articles-holder-crashed", vec![trial]));
        evidence
    };
    let right = Left { ephemeral: false, persistent: true };
    assert_eq!(answer(14, &crashed(2_100_000, right)), Answer::Confirmed);
    assert_eq!(answer(14, &crashed(9_000_000, right)), Answer::NotDecided);
    assert_eq!(answer(14, &crashed(2_100_000, Left { ephemeral: true, persistent: true })), Answer::Refuted);
}

#[test]
fn claim_30_asks_who_is_stuck_with_and_without_a_guid() {
    let lost = |with_guid: usize, without: usize| {
        let of = |name: &str, stuck: usize| {
            with(trial(name, 5), |trial| {
                let one = Stuck {
                    contender: 0,
                    lock: 0,
                    waited_us: 1,
                    node: None,
                    position: None,
                    blocked_by: None,
                    blocker: None,
                    watches: Vec::new(),
                };
                trial.stuck = vec![one; stuck];
                trial.faults = vec![fault("drop-reply")];
            })
        };
        of_runs(vec![run(
            "articles-reply-lost",
            vec![of("curator-mutex", with_guid), of("predecessor-watch", without)],
        )])
    };
    assert_eq!(answer(30, &lost(0, 5)), Answer::Confirmed);
    assert_eq!(answer(30, &lost(2, 5)), Answer::Refuted);
    assert_eq!(answer(30, &lost(0, 0)), Answer::Refuted);
}

#[test]
fn claims_31_and_34_count_zombies_violations_and_what_the_token_stopped() {
    let zombie = |zombies: u64, violations: u64, stopped: u64| {
        let trial = with(trial("local-then-remote", 6), |trial| {
            trial.excused.zombies = zombies;
            trial.violation_count = violations;
            trial.fencing =
                FencingCounts { writes: 9, stale: 2, stale_rejected: stopped, ..FencingCounts::default() };
        });
        let others = ["articles-disconnected", "articles-holder-crashed"].map(|name| run(name, Vec::new()));
        of_runs([vec![run("articles-zombie", vec![trial])], others.into()].concat())
    };
    let both = |evidence: &Evidence| [31, 34].map(|number| answer(number, evidence));
    assert_eq!(both(&zombie(1, 0, 2)), [Answer::Refuted, Answer::HoldsWhen]);
    assert_eq!(both(&zombie(0, 0, 2)), [Answer::NotDecided, Answer::Confirmed]);
    assert_eq!(both(&zombie(1, 1, 2)), [Answer::Refuted, Answer::Refuted]);
    assert!(claim(34, &zombie(1, 0, 1)).sentence.contains("not every stale write was stopped"));
}

#[test]
fn claim_28_compares_what_the_articles_classes_lose() {
    let classes = |gave_up: [u64; 3]| {
        let names = ["polling", "parent-watch", "predecessor-watch"];
        let of = |(name, gave_up): (&str, u64)| {
            let class = with(trial(name, 10), |trial| {
                acquired(trial, 100);
                trial.whole.outcomes.add(Outcome::ConnectionLost, gave_up);
            });
            let recipe = with(trial(name, 10), |trial| acquired(trial, 100));
            [with_word(class, "class", "article"), with_word(recipe, "class", "textbook")]
        };
        let trials: Vec<Trial> = names.into_iter().zip(gave_up).flat_map(of).collect();
        of_runs(vec![run("articles-disconnected", trials), run("articles-holder-crashed", Vec::new())])
    };
    assert_eq!(answer(28, &classes([50, 10, 5])), Answer::Confirmed);
    assert_eq!(answer(28, &classes([30, 30, 40])), Answer::Refuted);
}

#[test]
fn claims_38_and_40_look_into_shared_locks() {
    let shared = |most: u64, violations: u64, useful: u64| {
        let trial = with(trial("shared-predecessor-watch", 20), |trial| {
            acquired(trial, 10);
            trial.measured.reads_acquired = 5;
            trial.measured.read_held_us = trial.measured_us * 2;
            trial.most_inside = most;
            trial.violation_count = violations;
            trial.measured.notifications.by_release_useful = useful;
            trial.measured.notifications.by_release_spurious = 100 - useful;
        });
        of_runs(vec![run("articles-shared", vec![trial])])
    };
    let both = |evidence: &Evidence| [38, 40].map(|number| answer(number, evidence));
    assert_eq!(both(&shared(7, 0, 100)), [Answer::Confirmed, Answer::Confirmed]);
    assert_eq!(both(&shared(1, 0, 80)), [Answer::NotDecided, Answer::HoldsWhen]);
    assert_eq!(both(&shared(7, 1, 20)), [Answer::Refuted, Answer::Refuted]);
}

#[test]
fn claims_about_zookeeper_itself_follow_from_what_was_tried() {
    let queue = QueueSeen {
        in_order: true,
        owners_told: 3,
        next_woken: true,
        owner_told: true,
        owner_gets_no_node: true,
    };
    let raced = Raced { rounds: 300, listed: 100, notified: 200, lost: 0 };
    let tried = Behaviour {
        node_size: Some(NodeSize { accepted_bytes: 1_048_500, refused_bytes: 1_048_501 }),
        numbers: Some(Numbers { second: 1, children_then: 1, third: 2 }),
        one_shot: Some(OneShot { changes: 5, events: 1 }),
        raced: Some(raced),
        order: Some(CreationOrder { sessions: 12, nodes: 600, out_of_order: 0 }),
        queue: Some(queue),
        ..Behaviour::default()
    };
    let answers = |behaviour: Behaviour| {
        let evidence = of_behaviour(behaviour);
        [4, 6, 10, 11, 13, 15, 21].map(|number| answer(number, &evidence))
    };
    use Answer::{Confirmed, HoldsWhen, NotDecided, Refuted};
    let real = [HoldsWhen, Confirmed, Confirmed, Refuted, Confirmed, Confirmed, Refuted];
    assert_eq!(answers(tried), real);
    let other = Behaviour {
        node_size: Some(NodeSize { accepted_bytes: 2_000_000, refused_bytes: 2_000_001 }),
        numbers: Some(Numbers { second: 1, children_then: 1, third: 1 }),
        one_shot: Some(OneShot { changes: 5, events: 5 }),
        raced: Some(Raced { lost: 1, ..raced }),
        order: Some(CreationOrder { sessions: 12, nodes: 600, out_of_order: 3 }),
        queue: Some(QueueSeen { in_order: false, owner_gets_no_node: false, ..queue }),
        ..Behaviour::default()
    };
    assert_eq!(answers(other), [Refuted, Refuted, Refuted, Confirmed, Refuted, Refuted, Confirmed]);
    assert_eq!(answers(Behaviour::default()), [NotDecided; 7]);
}

#[test]
fn claim_12_depends_on_which_watch_sees_which_change() {
    let matrix = |fires: fn(WatchedBy, Change) -> bool| {
        let mut cells = Vec::new();
        for watch in [WatchedBy::GetData, WatchedBy::Exists, WatchedBy::GetChildren] {
            for change in [Change::ChildCreated, Change::DataSet, Change::ChildDeleted, Change::Deleted] {
                cells.push(WatchCell {
                    watch,
                    change,
                    event: fires(watch, change).then(|| "Fired".to_owned()),
                });
            }
        }
        of_behaviour(Behaviour { watches: Some(cells), ..Behaviour::default() })
    };
    let real = |watch, change| {
        change == Change::Deleted || (watch == WatchedBy::GetChildren) == (change != Change::DataSet)
    };
    assert_eq!(answer(12, &matrix(real)), Answer::HoldsWhen);
    assert_eq!(answer(12, &matrix(|_, _| true)), Answer::Confirmed);
    assert_eq!(answer(12, &matrix(|_, change| change != Change::DataSet)), Answer::Refuted);
}

#[test]
fn claim_17_needs_a_delay_that_is_more_than_noise() {
    // Given 90th percentiles beside the wake-up of all, of rounds that were 100 µs beside that of one
    let delayed = |p90s: &[u64]| {
        let of = |round: u64, woken: u64, p90_us: u64| {
            let timing = Some(Timing { count: 500, p50_us: 90, p90_us, p99_us: p90_us });
            Bystander { round, waiting: 100, woken, changes: 90, read: timing, write: timing }
        };
        let rounds = (0..).zip(p90s).flat_map(|(round, all)| [of(round, 1, 100), of(round, 100, *all)]);
        of_behaviour(Behaviour { bystander: Some(rounds.collect()), ..Behaviour::default() })
    };
    // Then a delay that every round shows is one, however small
    assert_eq!(answer(17, &delayed(&[130, 128, 141, 125, 133, 150, 127, 129])), Answer::Confirmed);
    // And what noise does to some rounds is none
    assert_eq!(answer(17, &delayed(&[104, 99, 105, 101, 97, 106, 103, 102])), Answer::Refuted);
    assert_eq!(answer(17, &delayed(&[300, 95, 180, 104, 99, 160, 90, 240])), Answer::NotDecided);
    // And one round says nothing, however clear it looks
    assert_eq!(answer(17, &delayed(&[900])), Answer::NotDecided);
}

#[test]
fn trials_that_were_cut_short_or_are_invalid_decide_nothing() {
    let mut evidence = race_and_queue([10, 900], [10, 100]);
    for trial in &mut evidence.runs[0].what.trials {
        trial.health.invalid = Some("the generator was late".into());
    }
    let decision = claim(1, &evidence);
    assert_eq!(decision.answer, Answer::NotDecided);
    assert!(decision.sentence.contains("cut short or is invalid"), "{}", decision.sentence);
}

#[test]
fn of_two_runs_of_a_scenario_the_newer_one_counts() {
    let mut evidence = race_and_queue([10, 90], [10, 100]);
    let mut newer = race_and_queue([10, 900], [10, 100]).runs.swap_remove(0);
    newer.what.run.run.started_at += Duration::from_secs(60);
    newer.name = "newer".into();
    evidence.runs.insert(0, newer);
    let decision = claim(1, &evidence);
    assert_eq!((decision.answer, decision.runs), (Answer::Confirmed, vec!["newer".to_owned()]));
}

#[test]
fn the_text_names_each_claim_its_answer_and_its_runs() {
    let text = text(&Decisions::by(&race_and_queue([10, 900], [10, 100]), None));
    assert!(text.contains(" 1  confirmed    With one ephemeral node and n clients"), "{text}");
    assert!(text.contains("from articles-waits-run"));
    assert!(text.starts_with("40 claims: 1 confirmed, 0 refuted, 0 holds when, 39 not decided.\n"), "{text}");
}

#[test]
fn the_page_says_where_it_was_measured_and_what_else_there_is_to_say() {
    let note = "With a debug build.";
    let page = page(&Decisions::by(&race_and_queue([10, 900], [10, 100]), Some(note.into())));
    assert!(page.contains("\nMeasured with 2 processors") && page.contains(note), "{page}");
    assert!(page.contains("| [1](#claim-1) | A1 | With one ephemeral node"), "{page}");
}

#[test]
fn claims_whose_runs_are_missing_keep_the_decision_that_was_kept() {
    // Given decisions on claims 1 and 12
    let whole = Decisions::by(&race_and_queue([10, 900], [10, 100]), Some("On a quiet host.".into()));
    let of = |decisions: &Decisions, number: u8| {
        decisions.claims.iter().find(|claim| claim.number == number).unwrap().clone()
    };
    // When a calibration is looked at that says nothing of claim 1
    let calibrated = Decisions::by(&of_behaviour(Behaviour::default()), None).or_kept(whole.clone());
    // Then that decision is as it was, with its figures and its run
    assert_eq!(of(&calibrated, 1), of(&whole, 1));
    assert_eq!((&calibrated.note, &calibrated.measured_on), (&whole.note, &whole.measured_on));
    // But what a run does say replaces what was kept
    let anew = Decisions::by(&race_and_queue([10, 90], [10, 100]), None);
    assert_ne!(of(&anew, 1), of(&whole, 1));
    assert_eq!(of(&anew.clone().or_kept(whole), 1), of(&anew, 1));
}

/// The page that is kept says what the decisions that are kept say.
#[test]
fn the_page_on_the_articles_is_fresh() {
    let json = std::fs::read_to_string(root().join("results/articles/decisions.json")).unwrap();
    let decisions: Decisions = serde_json::from_str(&json).unwrap();
    crate::generated_docs::assert_fresh("docs/articles.md", &page(&decisions));
}
