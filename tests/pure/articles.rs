//! Claims of articles: the figures that confirm one, refute it, or leave it open; and the page that shows them.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use zklockbench_analysis::articles::Answer::{Confirmed, HoldsWhen, NotDecided, Refuted};
use zklockbench_analysis::articles::{
    Answer, Decision, Decisions, Evidence, Named, TESTS, claims, decide, evidence_page, overview, sources,
    text,
};
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::catalog::fault::FaultChoice;
use zklockbench_core::measure::RequestKind::{Create, Delete, ExistsWatch, GetChildren, GetDataWatch};
use zklockbench_core::measure::{Counts, Measure, Notifications, Outcome, Woken, new_histogram};
use zklockbench_record::{
    Accounting, Calibration, Counted, Counting, FaultRecord, FencingCounts, RawRequest, RequestFigures,
    Saturation, ServerFigures, Tally, Timing, Trial,
};
use zklockbench_results::StoredRun;
use zklockbench_scenario::{Distribution, Stop};

use crate::support::views;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A run that is kept as an example. It holds many histograms, so nobody copies the whole.
fn example() -> &'static StoredRun {
    static EXAMPLE: LazyLock<StoredRun> =
        LazyLock::new(|| zklockbench_results::read(&root().join("results/example")).unwrap());
    &EXAMPLE
}

/// A sound trial in which nothing was counted yet.
fn trial(label: &str, contenders: usize) -> Trial {
    static EMPTY: LazyLock<Trial> = LazyLock::new(|| emptied(example().trials[0].clone()));
    let mut trial = EMPTY.clone();
    trial.spec.strategy.name = label.split(' ').next().unwrap().to_owned();
    trial.spec.strategy.label = label.to_owned();
    trial.spec.contenders = contenders;
    trial
}

fn emptied(mut trial: Trial) -> Trial {
    trial.spec.strategy.params.clear();
    trial.spec.repetition = 1;
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
    trial.histograms.clear();
    trial.herd = None;
    trial.full_crew = None;
    trial.excused.zombies = 0;
    trial.sessions.expired = 0;
    trial.sessions.rejoined = 0;
    trial
}

fn with(mut trial: Trial, change: impl FnOnce(&mut Trial)) -> Trial {
    change(&mut trial);
    trial
}

/// Six repetitions, each made by its number.
fn six(make: impl Fn(u64) -> Trial) -> Vec<Trial> {
    (1..=6)
        .map(|number| with(make(number), |trial| trial.spec.repetition = u32::try_from(number).unwrap()))
        .collect()
}

fn run(scenario: &str, trials: Vec<Trial>) -> Named<StoredRun> {
    let mut run = example().run.clone();
    run.run.scenario = scenario.to_owned();
    Named { name: format!("{scenario}-run"), what: StoredRun { run, trials, replaced: Vec::new() } }
}

fn of_runs(runs: Vec<Named<StoredRun>>) -> Evidence {
    Evidence { runs, sources: Some(zklockbench_locks::COMPARED_SOURCES), ..Evidence::default() }
}

fn of_run(scenario: &str, trials: Vec<Trial>) -> Evidence {
    of_runs(vec![run(scenario, trials)])
}

fn of_curator(facts: serde_json::Value) -> Evidence {
    Evidence { curators: vec![Named { name: "curator".into(), what: facts }], ..Evidence::default() }
}

pub fn calibration() -> Calibration {
    let run = &example().run.run;
    Calibration {
        tool_version: String::new(),
        tool_commit: None,
        started_at: run.started_at,
        ended_at: run.ended_at,
        budget_us: 0,
        rest_us: None,
        saturating_sessions: 0,
        in_flight: 0,
        host: run.host.clone(),
        ensemble: run.ensemble.clone(),
        floor: Default::default(),
        synced_writes_per_s: None,
        servers: Vec::new(),
        pairs: Vec::new(),
        missing: Vec::new(),
    }
}

fn claim(number: u8, evidence: &Evidence) -> Decision {
    decide(evidence).into_iter().find(|claim| claim.number == number).unwrap()
}

struct Claim(u8);

impl Claim {
    /// Each way in which it can be decided, by evidence that was made for it.
    fn is_decided(&self, ways: Vec<(&str, Evidence, Answer)>) {
        let Self(number) = *self;
        for (what, evidence, answer) in ways {
            let decision = claim(number, &evidence);
            assert_eq!(decision.answer, answer, "claim {number}, {what}: {}", decision.sentence);
            assert_ne!(decision.sentence, LACKING, "claim {number}, {what}");
        }
    }
}

const LACKING: &str =
    "its run does not have the figures: a trial was cut short or is invalid, or a strategy is missing";

fn acquired(trial: &mut Trial, amount: u64) {
    trial.whole.outcomes.add(Outcome::Acquired, amount);
    trial.measured.outcomes.add(Outcome::Acquired, amount);
}

fn told(trial: &mut Trial, waiters: u64) {
    trial.whole.notifications = Notifications { by_release_useful: waiters, ..Notifications::default() };
}

fn fault(kind: &str) -> FaultRecord {
    let fault = views::fault(kind, 1_000_000);
    FaultRecord {
        asked_us: 0,
        effective_us: Some(0),
        ended_us: Some(1),
        longest_gap_us: fault.recovered_us,
        ..fault
    }
}

#[test]
fn every_claim_has_its_number_once_from_1_to_40_and_each_article_its_source() {
    let numbers: Vec<u8> = claims().iter().map(|claim| claim.number).collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<u8>>());
    assert_eq!(sources().len(), 5);
}

#[test]
fn without_any_run_only_tests_decide_and_each_other_claim_says_what_it_needs() {
    let (by_tests, others): (Vec<_>, Vec<_>) =
        decide(&Evidence::default()).into_iter().partition(|one| one.answer != NotDecided);
    let numbers: Vec<u8> = by_tests.iter().map(|decision| decision.number).collect();
    assert_eq!(numbers, [6, 10, 11, 12, 13, 15, 17]);
    assert!(by_tests.iter().all(|decision| !decision.tests.is_empty()));
    for decision in others {
        assert!(decision.runs.is_empty());
        assert!(
            ["scripts/articles", "calibrate"].iter().any(|word| decision.sentence.contains(word)),
            "{decision:?}"
        );
    }
    assert_eq!(claim(7, &Evidence::default()).sentence, "needs `scripts/articles majority`");
}

#[test]
fn tests_that_decide_claims_exist() {
    for test in claims().iter().flat_map(|claim| &claim.tests) {
        let (file, name) = test.split_once("::").unwrap();
        let source = std::fs::read_to_string(root().join(TESTS).join(format!("{file}.rs"))).unwrap();
        assert!(source.contains(&format!("]\nfn {name}()")), "{test}");
    }
}

#[test]
fn every_claim_needs_a_shipped_scenario_that_names_it() {
    let folders = ["scenarios/articles", "drivers/redis", "drivers/curator"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let texts: Vec<String> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for claim in claims() {
        for scenario in claim.scenarios() {
            let named = format!("\nname = \"{scenario}\"\n");
            let text =
                texts.iter().find(|text| text.contains(&named)).unwrap_or_else(|| panic!("{scenario}"));
            let head: String = text.split("\nname").next().unwrap().replace("\n#", "");
            let numbers = head.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
            assert!(numbers.collect::<Vec<u8>>().contains(&claim.number), "{scenario}: {}", claim.number);
        }
    }
}

/// Longest waits of the race of 2 and of 30, and of a queue of 30, in each repetition a little more.
fn waits(few: u64, many: u64, queue: u64) -> Evidence {
    let of = |label: &'static str, contenders: usize, wait: u64| {
        six(move |number| {
            with(trial(label, contenders), |trial| {
                let tally = Tally { acquired: 10, unserved: 0, longest_wait_us: wait * 100 + number };
                trial.tallies = vec![tally; contenders];
            })
        })
    };
    let race = [of("ephemeral-node", 2, few), of("ephemeral-node", 30, many)];
    of_run("articles-waits", [race.concat(), of("predecessor-watch", 30, queue)].concat())
}

#[test]
fn claim_1_compares_the_longest_wait_with_that_of_an_equally_long_queue() {
    Claim(1).is_decided(vec![
        ("far longer", waits(100, 900, 100), Confirmed),
        ("shorter", waits(10, 90, 100), Refuted),
        ("a little longer", waits(10, 150, 100), NotDecided),
        ("no longer than of two", waits(900, 900, 100), NotDecided),
    ]);
    let figure = claim(1, &waits(100, 900, 100))
        .figures
        .into_iter()
        .find(|figure| figure.what.contains("by the queue's"));
    assert!(figure.unwrap().bounds.unwrap().coverage.unwrap() > 0.95);
}

#[test]
fn claim_2_a_release_wakes_only_the_next_waiter() {
    let batch_and_load = |in_batch: u64, from_rank: u32| {
        let queue = |name: &str| with(trial(name, 20), |trial| told(trial, in_batch));
        let woken = Woken { from_rank, to_rank: None, count: 1, p50_us: 1, p99_us: 1 };
        let closed = with(trial("predecessor-watch", 30), |trial| trial.herd = Some(vec![woken]));
        let batch = run("articles-batch", vec![queue("predecessor-watch"), queue("curator-mutex")]);
        of_runs(vec![batch, run("articles-waits", vec![closed])])
    };
    Claim(2).is_decided(vec![
        ("one each", batch_and_load(19, 1), Confirmed),
        ("a release that woke two", batch_and_load(19, 2), Refuted),
        ("a batch with too many", batch_and_load(25, 1), Refuted),
    ]);
}

#[test]
fn claim_3_a_waiter_sends_nothing_beyond_the_model() {
    let batch = |sent: u64| {
        let line =
            Accounting { what: Counted::Requests, client: Some(sent), expected: Some(98), servers: None };
        of_run(
            "articles-batch",
            vec![with(trial("curator-mutex", 20), |trial| trial.accounting = vec![line])],
        )
    };
    Claim(3).is_decided(vec![("as modelled", batch(98), Confirmed), ("more", batch(101), Refuted)]);
}

#[test]
fn claims_4_21_and_33_follow_from_observed_curator_behaviour() {
    let queue = |order: bool, owners: u64, entered: bool, told: bool| {
        let facts = json!({ "inOrder": order, "ownersTold": owners, "nextEntered": entered, "holderTold": told, "holderBelieves": !told });
        of_curator(json!({ "queue": facts }))
    };
    Claim(4).is_decided(vec![
        ("all of it", queue(true, 3, true, true), Confirmed),
        ("nobody is told", queue(true, 3, true, false), HoldsWhen),
        ("not in order", queue(false, 3, true, true), Refuted),
        ("an owner is missing", queue(true, 2, true, true), Refuted),
        ("nobody enters", queue(true, 3, false, true), Refuted),
    ]);
    let no_node = |thrown: bool, alive: bool, retried: bool| {
        let facts = json!({ "thrownWithoutRetries": thrown, "sessionLived": alive, "acquiredWithRetries": retried, "nodesCreated": 2 });
        of_curator(json!({ "noNode": facts }))
    };
    Claim(21).is_decided(vec![
        ("thrown", no_node(true, true, true), Refuted),
        ("thrown for good", no_node(true, true, false), Refuted),
        ("not thrown", no_node(false, true, true), Confirmed),
        ("session lost", no_node(true, false, true), NotDecided),
    ]);
    let removed = |set: u64, foreground: u64, background: u64| {
        let step = |left: u64| json!({ "set": set, "left": left });
        of_curator(json!({
            "foreground": step(foreground), "background": step(background), "removeWatchers": step(1), "removeAll": step(0),
            "mutex": step(0), "semaphore": step(1),
        }))
    };
    Claim(33).is_decided(vec![
        ("in the foreground only", removed(1, 0, 1), Confirmed),
        ("in neither", removed(1, 1, 1), Refuted),
        ("in both", removed(1, 0, 0), Refuted),
        ("the other way round", removed(1, 1, 0), Refuted),
        ("nothing set", removed(0, 0, 0), NotDecided),
    ]);
}

#[test]
fn claims_5_and_35_compare_with_a_lock_in_redis() {
    let redis = |fine: u64, broken: u64| {
        let lives = with(trial("redis:SetNx (not ZooKeeper)", 20), |trial| {
            acquired(trial, 100);
            trial.violation_count = fine;
        });
        let dies = with(trial("redis:SetNx lease=2s (not ZooKeeper)", 5), |trial| {
            acquired(trial, 20);
            trial.violation_count = broken;
        });
        of_runs(vec![run("articles-redis", vec![lives]), run("redis-primary-dies", vec![dies])])
    };
    Claim(5).is_decided(vec![
        ("broken by a failover", redis(0, 1), HoldsWhen),
        ("broken without one", redis(1, 1), Refuted),
        ("not broken", redis(0, 0), NotDecided),
    ]);
    let cost = |wait: [u64; 2], served: [u64; 2]| {
        let of = |label: &'static str, at: usize| {
            let free = six(move |number| {
                with(trial(label, 1), |trial| {
                    let mut waits = new_histogram();
                    waits.record(wait[at] + number).unwrap();
                    trial.histograms.insert(Measure::Wait, waits);
                })
            });
            let busy = six(move |number| {
                with(trial(label, 20), |trial| {
                    acquired(trial, served[at] + number);
                    trial.measured_us = 1_000_000;
                })
            });
            [free, busy].concat()
        };
        let both = [of("curator:InterProcessMutex", 0), of("redis:SetNx (not ZooKeeper)", 1)];
        of_run("articles-redis", both.concat())
    };
    Claim(35).is_decided(vec![
        ("slower both ways", cost([1_000, 300], [1_000, 2_000]), Confirmed),
        ("slower where it is free", cost([1_000, 300], [2_000, 1_000]), HoldsWhen),
        ("faster", cost([300, 1_000], [2_000, 1_000]), Refuted),
    ]);
}

#[test]
fn claim_7_needs_acquisitions_by_two_of_three_and_none_by_one() {
    let played = |one_gap: u64, two_gap: u64, recovered_us: Option<u64>| {
        with(trial("curator-mutex", 5), |trial| {
            let of = |kind: &str, gap| FaultRecord { longest_gap_us: Some(gap), recovered_us, ..fault(kind) };
            trial.faults = vec![of("kill", one_gap), of("lose-majority", two_gap)];
            trial.spec.faults = vec![asked("kill", 3), asked("lose-majority", 4)];
        })
    };
    let as_claimed = || played(100_000, 4_100_000, Some(1));
    // A trial beside one that is as claimed.
    let majority = |other: Trial| of_run("articles-majority", vec![as_claimed(), other]);
    Claim(7).is_decided(vec![
        ("as claimed", majority(as_claimed()), Confirmed),
        ("stopped with two", majority(played(3_000_000, 4_100_000, Some(1))), Refuted),
        ("went on with one", majority(played(100_000, 100_000, Some(1))), Refuted),
    ]);
    let never_back = claim(7, &majority(played(100_000, 4_100_000, None)));
    assert_eq!(never_back.answer, NotDecided);
}

fn asked(kind: &str, seconds: u64) -> FaultChoice {
    let text = format!(
        "name = \"x\"\ndescription = \"x\"\nstrategies = [\"curator-mutex\"]\ncontenders = 2\nduration = \"60s\"\n\
         [[fault]]\nkind = \"{kind}\"\nat = \"1s\"\nduration = \"{seconds}s\"\n"
    );
    let parsed = zklockbench_scenario::parse("x.toml", &text, &zklockbench_load::catalog());
    parsed.unwrap_or_else(|errors| panic!("{errors}")).scenario.faults.swap_remove(0)
}

#[test]
fn claim_8_asks_whether_sessions_go_on_while_their_server_is_dead() {
    let killed = |rejoined: u64, gap: u64, overtaken: u64| {
        let trial = with(trial("curator-mutex", 12), |trial| {
            trial.sessions.rejoined = rejoined;
            acquired(trial, 100);
            trial.measured.overtaken = overtaken;
            trial.faults = vec![FaultRecord { longest_gap_us: Some(gap), ..fault("kill") }];
            trial.spec.faults = vec![asked("kill", 4)];
        });
        of_run("articles-server-killed", vec![trial])
    };
    Claim(8).is_decided(vec![
        ("elsewhere", killed(0, 100_000, 1), Confirmed),
        ("places lost", killed(0, 100_000, 30), HoldsWhen),
        ("sessions lost", killed(4, 100_000, 0), Refuted),
        ("only when it is back", killed(0, 4_000_000, 0), Refuted),
        ("hard to say", killed(0, 3_500_000, 0), NotDecided),
    ]);
}

#[test]
fn claim_9_needs_separate_hosts() {
    let servers = |shares_host: bool, reads: [f64; 3], writes: [f64; 3]| {
        let of = |at: usize, count: usize| {
            let mut what = calibration();
            what.ensemble.shares_host = shares_host;
            what.synced_writes_per_s = Some(writes[at]);
            let alone = Some(Timing { count: 9, p50_us: 300, p90_us: 400, p99_us: 500 });
            let figures = |request, per_s| RequestFigures {
                request,
                alone,
                saturated: Some(Saturation { per_s, count: 1, lasted_us: 1, generator_share: None }),
            };
            let server = ServerFigures {
                address: String::new(),
                role: String::new(),
                requests: vec![
                    figures(RawRequest::GetData, reads[at] / count as f64),
                    figures(RawRequest::SetData, writes[at]),
                ],
                watch: None,
                session_open: None,
                session_close: None,
                ruok: None,
            };
            what.servers = vec![server; count];
            Named { name: format!("calibration-{count}"), what }
        };
        Evidence { calibrations: vec![of(0, 1), of(1, 3), of(2, 5)], ..Evidence::default() }
    };
    let (rise, fall) = ([10.0, 30.0, 50.0], [9.0, 6.0, 3.0]);
    Claim(9).is_decided(vec![
        ("as claimed", servers(false, rise, fall), Confirmed),
        ("reads don't rise", servers(false, fall, fall), HoldsWhen),
        ("writes rise", servers(false, rise, rise), Refuted),
        ("on one host", servers(true, rise, fall), NotDecided),
    ]);
}

#[test]
fn claim_14_compares_the_time_a_dead_holder_keeps_its_lock_with_the_session_timeout() {
    let crashed = |recovered_us: u64| {
        let trial = with(trial("predecessor-watch", 5), |trial| {
            trial.sessions.negotiated_timeout_us = 2_000_000;
            let of =
                |number: u64| FaultRecord { recovered_us: Some(recovered_us + number), ..fault("crash") };
            trial.faults = (1..=6).map(of).collect();
        });
        of_run("articles-holder-crashed", vec![trial])
    };
    Claim(14).is_decided(vec![
        ("as claimed", crashed(2_100_000), Confirmed),
        ("far too late", crashed(9_000_000), NotDecided),
    ]);
}

#[test]
fn claim_16_needs_a_thousand_waiters() {
    let herd = |contenders: usize, told_of: u64| {
        let trial = with(trial("parent-watch", contenders), |trial| told(trial, told_of));
        of_run("articles-herd-1000", vec![trial])
    };
    Claim(16).is_decided(vec![
        ("a thousand", herd(1_000, 499_500), Confirmed),
        ("some were not told", herd(1_000, 499_000), Refuted),
        ("too few", herd(20, 190), NotDecided),
    ]);
}

#[test]
fn claim_18_is_refuted_by_an_early_entry() {
    let leaves = |violations: u64| {
        let class = with(trial("predecessor-watch-wait-limited", 6), |trial| {
            trial.violation_count = violations;
            trial.faults = vec![fault("expire")];
        });
        of_run("articles-waiter-leaves", vec![class, trial("predecessor-watch", 6)])
    };
    Claim(18).is_decided(vec![("early", leaves(3), Refuted), ("none seen", leaves(0), NotDecided)]);
}

#[test]
fn claim_19_holds_only_while_waits_are_shorter_than_the_session_timeout() {
    let class = |got: u64, gave_up: u64, violations: u64| {
        let of = |acquires: u64, timed_out: u64| {
            with(trial("predecessor-watch-wait-limited", 5), |trial| {
                trial.spec.stop = Stop::Acquisitions(1);
                trial.violation_count = violations;
                acquired(trial, acquires);
                trial.whole.outcomes.add(Outcome::TimedOut, timed_out);
            })
        };
        of_runs(vec![
            run("articles-wait-limited", vec![of(got, 0)]),
            run("articles-wait-too-limited", vec![of(2, gave_up)]),
        ])
    };
    Claim(19).is_decided(vec![
        ("gives up later", class(5, 3, 0), HoldsWhen),
        ("never gives up", class(5, 0, 0), Confirmed),
        ("not everybody", class(4, 3, 0), Refuted),
        ("two inside", class(5, 3, 1), Refuted),
    ]);
}

#[test]
fn claims_20_and_32_count_the_originals_requests_on_the_wire() {
    let turns = |creates: u64, deletes: u64, violations: u64| {
        let trial = with(trial("curator:InterProcessMutex", 1), |trial| {
            trial.violation_count = violations;
            let mut counting = Counting { missing: None, ..Counting::failed(String::new()) };
            counting.counted.acquired = 10;
            counting.counted.requests.add(Create, creates);
            counting.counted.requests.add(GetChildren, creates);
            counting.counted.requests.add(Delete, deletes);
            trial.counting = Some(counting);
        });
        of_run("curator-reentrant", vec![trial])
    };
    Claim(20).is_decided(vec![
        ("one each", turns(10, 10, 0), Confirmed),
        ("one for each release", turns(10, 30, 0), Refuted),
        ("entered too early", turns(10, 10, 1), Refuted),
    ]);
    Claim(32).is_decided(vec![("three", turns(10, 10, 0), Confirmed), ("more", turns(30, 10, 0), Refuted)]);
}

#[test]
fn claim_22_compares_watches_left_with_races_lost() {
    let left = |exists: [u64; 2], data: [u64; 2]| {
        let of = |label: &str, kind, [lost, left]: [u64; 2]| {
            with(trial(label, 2), |trial| {
                trial.whole.requests.add(kind, 100);
                trial.whole.succeeded.add(kind, 100 - lost);
                let mut server = example().trials[0].servers[0].clone();
                server.before.insert("zk_watch_count".into(), 0);
                server.after.insert("zk_watch_count".into(), i64::try_from(left).unwrap());
                trial.servers = vec![server];
            })
        };
        let both = vec![
            of("predecessor-watch watch=exists", ExistsWatch, exists),
            of("predecessor-watch", GetDataWatch, data),
        ];
        of_run("articles-waits", both)
    };
    Claim(22).is_decided(vec![
        ("one each, and none", left([5, 5], [4, 0]), Confirmed),
        ("getData as well", left([5, 5], [4, 4]), Refuted),
        ("none", left([5, 0], [4, 0]), Refuted),
        ("no race lost", left([0, 0], [4, 0]), NotDecided),
        ("none of getData's", left([5, 5], [0, 0]), NotDecided),
        ("not the same", left([5, 3], [4, 0]), NotDecided),
    ]);
}

#[test]
fn claim_23_asks_whether_nodes_outlive_connections() {
    let resets = |rejoined: u64, overtaken: u64| {
        let trial = with(trial("curator-mutex", 10), |trial| {
            trial.sessions.rejoined = rejoined;
            acquired(trial, 100);
            trial.measured.overtaken = overtaken;
            trial.faults = vec![fault("reset")];
        });
        of_run("articles-disconnected", vec![trial])
    };
    Claim(23).is_decided(vec![
        ("kept", resets(0, 1), Refuted),
        ("places lost", resets(0, 30), NotDecided),
        ("sessions lost", resets(4, 0), NotDecided),
    ]);
}

#[test]
fn claim_24_checks_total_time_and_order_of_arrival() {
    let polling = |got: u64, us: u64, apart: u64| {
        let of = |amount: u64, overtaken: u64| {
            with(trial("polling class=article", 20), |trial| {
                trial.spec.stop = Stop::Acquisitions(1);
                acquired(trial, amount);
                trial.measured_us = us;
                trial.measured.overtaken = overtaken;
            })
        };
        of_runs(vec![
            run("articles-exact", vec![of(got, 15)]),
            run("articles-exact-3-servers", vec![of(20, 15)]),
            run("articles-order", vec![of(20, apart)]),
        ])
    };
    Claim(24).is_decided(vec![
        ("in order", polling(20, 60_000_000, 0), HoldsWhen),
        ("in none", polling(20, 60_000_000, 4), Confirmed),
        ("too late", polling(20, 101_000_000, 4), Refuted),
        ("not all", polling(19, 60_000_000, 4), Refuted),
    ]);
}

const CLASSES: [&str; 3] = [
    "polling class=article poll_interval=50ms",
    "parent-watch class=article flag_interval=50ms",
    "predecessor-watch class=article flag_interval=50ms",
];

/// Requests per acquisition of the article's classes, and of the recipes in a cell with a hold of one interval.
fn costs(classes: [u64; 3], recipes: [u64; 3]) -> Evidence {
    let of = |labels: [&'static str; 3], requests: [u64; 3]| -> Vec<Trial> {
        let each = labels.into_iter().zip(requests).flat_map(|(label, requests)| {
            six(move |number| {
                with(trial(label, 20), |trial| {
                    acquired(trial, 1_000);
                    trial.whole.requests.add(GetChildren, requests * 1_000 + number);
                    trial.whole.bytes_received = requests * 100_000;
                    trial.spec.hold = Distribution::Fixed(Duration::from_millis(100));
                    let interval = ParamValue::Duration(Duration::from_millis(100));
                    trial.spec.strategy.params.insert("poll_interval".into(), interval);
                })
            })
        });
        each.collect()
    };
    of_runs(vec![
        run("articles-cost", of(CLASSES, classes)),
        run("articles-network-cost", of(["polling", "parent-watch", "predecessor-watch"], recipes)),
    ])
}

#[test]
fn claims_25_and_26_hold_in_the_cells_that_they_name() {
    Claim(25).is_decided(vec![
        ("everywhere", costs([100, 40, 5], [100, 40, 5]), Confirmed),
        ("nowhere", costs([20, 39, 30], [20, 39, 30]), Refuted),
        ("the second", costs([24, 22, 5], [24, 22, 5]), HoldsWhen),
        ("the first", costs([24, 10, 9], [24, 10, 9]), HoldsWhen),
        ("both, but not of the classes", costs([24, 22, 5], [100, 40, 5]), HoldsWhen),
    ]);
    let half = claim(25, &costs([24, 22, 5], [24, 22, 5])).sentence;
    assert!(half.contains("the first ≫ holds in 0 of 1 cells, the second in 1"), "{half}");
    Claim(26).is_decided(vec![
        ("most", costs([100, 20, 5], [100, 20, 5]), Confirmed),
        ("little", costs([24, 22, 5], [24, 22, 5]), Refuted),
        ("of the classes only", costs([100, 20, 5], [24, 22, 5]), HoldsWhen),
        ("of the recipes only", costs([24, 22, 5], [100, 20, 5]), HoldsWhen),
    ]);
}

#[test]
fn claim_27_counts_requests_and_source_lines() {
    let batch = |kinds: [usize; 3]| {
        let of = |(label, kinds): (&str, usize)| {
            with(trial(label, 20), |trial| {
                for kind in [Create, Delete, GetChildren, GetDataWatch].into_iter().take(kinds) {
                    trial.whole.requests.add(kind, 1);
                }
            })
        };
        let names = ["polling", "parent-watch", "predecessor-watch"];
        of_run("articles-batch", names.into_iter().zip(kinds).map(of).collect())
    };
    // Lines, branches and states are those of the sources; one measure more or less of four is not all.
    let (rising, falling) = (claim(27, &batch([1, 2, 3])), claim(27, &batch([3, 2, 1])));
    let measure = |decision: &Decision| {
        decision.figures.iter().find(|figure| figure.what.contains("more than the one")).unwrap().value
    };
    assert!((measure(&rising) - measure(&falling) - 1.0).abs() < 1e-9);
    assert_ne!(falling.answer, Confirmed, "{}", falling.sentence);
}

#[test]
fn claim_28_compares_failures_of_the_articles_classes() {
    let of = |(label, gave_up): (&str, u64)| {
        with(trial(label, 6), |trial| {
            acquired(trial, 100);
            trial.whole.outcomes.add(Outcome::ConnectionLost, gave_up);
            trial.faults = vec![fault("reset")];
        })
    };
    let classes = |repetitions: &[[u64; 3]]| {
        let trials = repetitions.iter().flat_map(|gave_up| CLASSES.into_iter().zip(*gave_up)).map(of);
        let safety = run("articles-safety", vec![of(("curator-mutex", 0))]);
        of_runs(vec![run("articles-reliability", trials.collect()), safety])
    };
    Claim(28).is_decided(vec![
        ("as claimed", classes(&[[50, 10, 5], [60, 11, 6]]), Confirmed),
        ("about as many", classes(&[[30, 30, 40], [31, 30, 40]]), Refuted),
        ("predecessor loses more", classes(&[[90, 10, 20], [90, 11, 21]]), Refuted),
        ("as many", classes(&[[90, 10, 10]]), NotDecided),
        ("now the one, now the other", classes(&[[50, 10, 5], [50, 40, 45]]), NotDecided),
    ]);
}

#[test]
fn claim_29_counts_overtaken_waiters() {
    let fairness = |retry: u64, queue: u64, uneven: u64| {
        let of = |label: &'static str, overtaken: u64, first: u64| {
            six(move |number| {
                with(trial(label, 30), |trial| {
                    acquired(trial, 997 + number);
                    trial.measured.overtaken = overtaken;
                    trial.spec.stop = Stop::After(Duration::from_secs(5));
                    trial.tallies = vec![Tally { acquired: 10, unserved: 0, longest_wait_us: 1 }; 30];
                    trial.tallies[0].acquired = first;
                })
            })
        };
        let both =
            [of("ephemeral-node owner=value wait=retry", retry, 10), of("predecessor-watch", queue, uneven)];
        of_run("articles-waits", both.concat())
    };
    Claim(29).is_decided(vec![
        ("fair and unfair", fairness(400, 0, 10), Confirmed),
        ("both fair", fairness(0, 0, 10), Refuted),
        ("both unfair", fairness(400, 400, 10), Refuted),
        ("uneven", fairness(400, 0, 500), Refuted),
        ("on the limit", fairness(50, 0, 10), NotDecided),
    ]);
}

#[test]
fn claim_30_compares_stuck_contenders_with_and_without_a_guid() {
    let lost = |with_guid: usize, without: usize, proved: bool| {
        let of = |name: &str, stuck: usize, proved: bool| {
            with(trial(name, 5), |trial| {
                trial.stuck = vec![views::stuck(0); stuck];
                trial.faults = vec![FaultRecord { proved, ..fault("drop-reply") }];
            })
        };
        // A trial of each beside one that is as claimed.
        let as_claimed = [of("curator-mutex", 0, true), of("predecessor-watch", 5, true)];
        let others = [of("curator-mutex", with_guid, proved), of("predecessor-watch", without, proved)];
        of_run("articles-reply-lost", [as_claimed, others].concat())
    };
    Claim(30).is_decided(vec![
        ("without one", lost(0, 5, true), Confirmed),
        ("with one, too", lost(2, 5, true), Refuted),
        ("nobody", lost(0, 0, true), Refuted),
        ("only some", lost(0, 3, true), Refuted),
        ("no reply lost", lost(0, 5, false), NotDecided),
    ]);
}

#[test]
fn claims_31_and_34_count_overlaps_with_lost_holders_and_writes_stopped_by_the_token() {
    let zombie = |entries: u64, violations: u64, stopped: u64| {
        let of = |name: &str| {
            with(trial(name, 6), |trial| {
                acquired(trial, 50);
                trial.faults = vec![fault("freeze")];
                trial.excused.zombies = entries;
                trial.violation_count = violations;
                trial.fencing = FencingCounts {
                    writes: 9,
                    stale: 2,
                    stale_rejected: stopped,
                    ..FencingCounts::default()
                };
            })
        };
        let zombie = run("articles-zombie", vec![of("local-then-remote"), of("curator-mutex")]);
        of_runs(vec![zombie, run("articles-safety", vec![of("curator-mutex")])])
    };
    Claim(31).is_decided(vec![
        ("beside one", zombie(1, 0, 2), Refuted),
        ("beside none", zombie(0, 0, 2), NotDecided),
    ]);
    Claim(34).is_decided(vec![
        ("stopped", zombie(1, 0, 2), HoldsWhen),
        ("passed", zombie(1, 0, 1), HoldsWhen),
        ("nobody beside", zombie(0, 0, 2), Confirmed),
        ("violated", zombie(1, 1, 2), Refuted),
    ]);
    assert!(claim(34, &zombie(1, 0, 1)).sentence.contains("2 of 4 stale writes passed"));
}

#[test]
fn claims_36_and_37_count_creates_and_notifications_of_the_races() {
    let race = |succeeded: u64, told_of: u64, creates: u64, violations: u64| {
        let trial = with(trial("ephemeral-child", 20), |trial| {
            acquired(trial, 20);
            told(trial, told_of);
            trial.violation_count = violations;
            trial.whole.requests.add(Create, creates);
            trial.whole.succeeded.add(Create, succeeded);
        });
        of_run("articles-batch", vec![trial])
    };
    Claim(36).is_decided(vec![
        // The directory's is one more.
        ("one each", race(21, 190, 210, 0), Confirmed),
        ("one more", race(22, 190, 210, 0), Refuted),
        ("two inside", race(21, 190, 210, 1), Refuted),
    ]);
    Claim(37).is_decided(vec![
        ("all", race(20, 190, 210, 0), Confirmed),
        ("not all told", race(20, 19, 210, 0), Refuted),
        ("not all again", race(20, 190, 200, 0), Refuted),
    ]);
}

#[test]
fn claims_38_39_and_40_concern_shared_locks() {
    let shared = |most: u64, violations: u64, spurious: u64| {
        let trial = with(trial("shared-predecessor-watch", 100), |trial| {
            acquired(trial, 10);
            trial.most_inside = most;
            trial.violation_count = violations;
            trial.measured.notifications.by_release_useful = 50;
            trial.measured.notifications.by_release_spurious = spurious;
        });
        of_run("articles-shared", vec![trial])
    };
    Claim(38).is_decided(vec![
        ("several", shared(7, 0, 0), Confirmed),
        ("never", shared(1, 0, 0), NotDecided),
        ("a writer, too", shared(7, 1, 0), Refuted),
    ]);
    Claim(40).is_decided(vec![
        ("all", shared(7, 0, 0), Confirmed),
        ("all but one", shared(7, 0, 1), HoldsWhen),
        ("less than half", shared(7, 0, 60), Refuted),
    ]);
    let group = |small: u64, large: u64| {
        let of = |label: &'static str, contenders: usize, served: u64| {
            six(move |number| {
                with(trial(label, contenders), |trial| {
                    acquired(trial, served + number);
                    trial.measured_us = 1_000_000;
                })
            })
        };
        let first = [of("shared-parent-watch", 2, small), of("shared-parent-watch", 100, large)];
        let improved = [of("shared-predecessor-watch", 2, 2_000), of("shared-predecessor-watch", 100, 2_000)];
        of_run("articles-shared", [first.concat(), improved.concat()].concat())
    };
    Claim(39).is_decided(vec![
        ("as claimed", group(2_000, 1_000), Confirmed),
        ("slower in the small group", group(1_500, 1_000), Refuted),
        ("not slower in the large one", group(2_000, 1_900), Refuted),
        ("on the limit", group(2_000, 1_399), NotDecided),
    ]);
}

#[test]
fn partial_and_invalid_trials_decide_no_claim() {
    let mut evidence = waits(100, 900, 100);
    for trial in &mut evidence.runs[0].what.trials {
        trial.health.invalid = Some("the generator was late".into());
    }
    let decision = claim(1, &evidence);
    assert_eq!(decision.answer, Answer::NotDecided);
    assert!(decision.sentence.contains("cut short or is invalid"), "{}", decision.sentence);
}

#[test]
fn the_newer_of_two_runs_of_a_scenario_counts() {
    let mut evidence = waits(10, 90, 100);
    let mut newer = waits(100, 900, 100).runs.swap_remove(0);
    newer.what.run.run.started_at += Duration::from_secs(60);
    newer.name = "newer".into();
    evidence.runs.insert(0, newer);
    let decision = claim(1, &evidence);
    assert_eq!((decision.answer, decision.runs), (Answer::Confirmed, vec!["newer".to_owned()]));
}

#[test]
fn the_text_names_each_claim_its_answer_and_its_runs() {
    let text = text(&Decisions::by(&waits(100, 900, 100), None));
    assert!(text.contains(" 1  confirmed    With one ephemeral node and n clients"), "{text}");
    assert!(text.contains("from articles-waits-run"));
    assert!(text.starts_with("40 claims: 6 confirmed, 1 refuted, 1 holds when, 32 not decided.\n"), "{text}");
}

#[test]
fn the_page_states_the_host_and_the_limits_of_the_measurements() {
    let note = "With a debug build.";
    let decisions = Decisions::by(&waits(100, 900, 100), Some(note.into()));
    let page = evidence_page(&decisions);
    assert!(page.contains("\nMeasured with 2 processors") && page.contains(note), "{page}");
    let overview = overview(&decisions);
    assert!(
        overview.contains("| [1](reference/articles.md#claim-1) | A1 | With one ephemeral node"),
        "{overview}"
    );
}

#[test]
fn claims_without_runs_keep_their_stored_decision() {
    // Given decisions on claims 1 and 12
    let whole = Decisions::by(&waits(100, 900, 100), Some("On a quiet host.".into()));
    let of = |decisions: &Decisions, number: u8| {
        decisions.claims.iter().find(|claim| claim.number == number).unwrap().clone()
    };
    // When a calibration is looked at that says nothing of claim 1
    let calibrations = vec![Named { name: "calibration".into(), what: calibration() }];
    let evidence = Evidence { calibrations, ..Evidence::default() };
    let calibrated = Decisions::by(&evidence, None).or_kept(whole.clone());
    // Then that decision is as it was, with its figures and its run
    assert_eq!(of(&calibrated, 1), of(&whole, 1));
    assert_eq!((&calibrated.note, &calibrated.measured_on), (&whole.note, &whole.measured_on));
    // But what a run does say replaces what was kept
    let anew = Decisions::by(&waits(10, 90, 100), None);
    assert_ne!(of(&anew, 1), of(&whole, 1));
    assert_eq!(of(&anew.clone().or_kept(whole), 1), of(&anew, 1));
}

/// The stored pages show the stored decisions.
#[test]
fn the_page_on_the_articles_is_fresh() {
    let json = std::fs::read_to_string(root().join("results/articles/decisions.json")).unwrap();
    let decisions: Decisions = serde_json::from_str(&json).unwrap();
    crate::generated_docs::assert_fresh("docs/articles.md", &overview(&decisions));
    crate::generated_docs::assert_fresh("docs/reference/articles.md", &evidence_page(&decisions));
}
