//! The plan of a scenario, its estimated duration, and the advice for its author.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::cards;
use zklockbench_core::catalog::ParamValue;
use zklockbench_scenario::{
    Arrivals, Columns, Distribution, EnsembleChoice, Late, Load, Open, Order, Parsed, Popularity, Preview,
    Step, Stop, TraceArrival, TrialPlan, parse, parse_with_traces,
};

const HEAD: &str = "name = \"x\"\nstrategies = [\"polling\", \"parent-watch\", \"predecessor-watch\"]\n";

fn parsed(lines: &str) -> Parsed {
    parse("x.toml", &format!("{HEAD}{lines}"), &cards::catalog()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn plan(lines: &str) -> TrialPlan {
    TrialPlan::of(&parsed(lines).scenario)
}

fn combinations(plan: &TrialPlan, repetition: u32) -> Vec<(String, usize)> {
    let trials = plan.trials.iter().filter(|trial| trial.repetition == repetition);
    trials.map(|trial| (trial.strategy.label.clone(), trial.contenders)).collect()
}

fn warnings(lines: &str) -> Vec<String> {
    let shown = |warning: zklockbench_scenario::MachineDiagnostic| {
        format!("{}:{} {}", warning.position.line, warning.position.column, warning.message)
    };
    parsed(lines).warnings.machine().into_iter().map(shown).collect()
}

#[test]
fn missing_keys_have_their_documented_defaults() {
    let scenario = parsed("contenders = 4\nduration = \"5s\"\n").scenario;
    assert_eq!(scenario.description, "");
    assert_eq!(scenario.ensemble, EnsembleChoice::Local { servers: 3, data_dir: None });
    assert_eq!(scenario.contenders, [4]);
    assert_eq!((scenario.locks, scenario.repetitions, scenario.seed), (1, 3, 1));
    assert_eq!((scenario.hold, scenario.think), (Distribution::ZERO, Distribution::ZERO));
    assert_eq!((scenario.load, scenario.order), (Load::Closed, Order::Shuffled));
    assert_eq!(scenario.stop, Stop::After(Duration::from_secs(5)));
    assert_eq!((scenario.ramp_up, scenario.warm_up), (Duration::ZERO, Duration::ZERO));
    assert_eq!(scenario.warm_up_at_most, Duration::ZERO);
    assert_eq!((scenario.session_timeout, scenario.acquire_timeout), (Duration::from_secs(10), None));
    assert!((scenario.time_scale - 1.0).abs() < f64::EPSILON);
    assert!(scenario.read_ratio.abs() < f64::EPSILON);
    assert_eq!(scenario.strategies[1].params["while_holding"], ParamValue::Word("stop".to_owned()));
}

#[test]
fn a_strategy_has_its_defaults_and_a_label_with_set_parameters() {
    let text = "name = \"x\"\ncontenders = 1\nacquisitions = 1\npoll_interval = \"200ms\"\n\
                strategies = [\"polling\", { name = \"polling\", poll_interval = \"50ms\", look_first = true }]\n";
    let strategies = parse("x.toml", text, &cards::catalog()).unwrap().scenario.strategies;
    assert_eq!(strategies[0].label, "polling");
    assert_eq!(strategies[0].params["poll_interval"], ParamValue::Duration(Duration::from_millis(200)));
    assert_eq!(strategies[0].params["look_first"], ParamValue::Bool(false));
    assert_eq!(strategies[1].label, "polling poll_interval=50ms look_first=true");
    assert_eq!(strategies[1].params["poll_interval"], ParamValue::Duration(Duration::from_millis(50)));
}

#[test]
fn every_repetition_contains_every_combination_once() {
    let plan = plan("contenders = [1, 5, 20]\nduration = \"5s\"\nrepetitions = 4\n");
    assert_eq!(plan.trials.len(), 3 * 3 * 4);
    for repetition in 1..=4 {
        assert_eq!(combinations(&plan, repetition).into_iter().collect::<BTreeSet<_>>().len(), 9);
    }
    assert!(plan.trials.iter().enumerate().all(|(index, trial)| trial.index == index));
    assert!(plan.trials.is_sorted_by_key(|trial| trial.repetition));
}

#[test]
fn the_seed_alone_shuffles_the_order_differently_in_each_repetition() {
    let lines = "contenders = [1, 5, 20]\nduration = \"5s\"\n";
    let one = plan(lines);
    assert_eq!(one, plan(lines));
    assert_ne!(combinations(&one, 1), combinations(&one, 2));
    assert_ne!(combinations(&one, 1), combinations(&plan(&format!("{lines}seed = 2\n")), 1));
}

#[test]
fn the_shuffle_is_the_same_on_every_platform() {
    let plan = plan("contenders = [1, 2]\nduration = \"5s\"\nrepetitions = 1\nseed = 7\n");
    let order: Vec<_> = combinations(&plan, 1).into_iter().map(|(label, n)| format!("{label}/{n}")).collect();
    assert_eq!(
        order,
        [
            "polling/2",
            "predecessor-watch/2",
            "polling/1",
            "parent-watch/2",
            "parent-watch/1",
            "predecessor-watch/1"
        ]
    );
    assert_eq!(plan.trials[0].seed, 12_790_295_526_863_346_087);
}

#[test]
fn order_as_written_means_strategies_then_contenders() {
    let plan = plan("contenders = [5, 1]\nduration = \"5s\"\norder = \"as-written\"\nrepetitions = 2\n");
    let written = [("polling", 5), ("polling", 1), ("parent-watch", 5), ("parent-watch", 1)];
    let order = combinations(&plan, 2);
    assert_eq!(order[..4], written.map(|(label, contenders)| (label.to_owned(), contenders)));
    assert_eq!(order, combinations(&plan, 1));
}

#[test]
fn every_trial_has_its_own_seed_independent_of_the_order() {
    let lines = "contenders = [1, 5, 20]\nduration = \"5s\"\n";
    let key = |plan: TrialPlan| -> BTreeSet<_> {
        plan.trials.into_iter().map(|t| (t.strategy.label, t.contenders, t.repetition, t.seed)).collect()
    };
    let shuffled = plan(lines);
    let seeds: BTreeSet<_> = shuffled.trials.iter().map(|trial| trial.seed).collect();
    assert_eq!(seeds.len(), 27);
    assert_eq!(key(shuffled), key(plan(&format!("{lines}order = \"as-written\"\n"))));
}

#[test]
fn time_scale_multiplies_all_times_except_timeouts() {
    let plan = plan(
        "contenders = 2\ntime_scale = 0.1\nhold = \"20ms\"\nthink = \"10ms\"\nduration = \"5s\"\nramp_up = \"2s\"\n\
         warm_up = \"1s\"\npoll_interval = \"1s\"\nacquire_timeout = \"30s\"\norder = \"as-written\"\n",
    );
    let trial = &plan.trials[0];
    let ms = Duration::from_millis;
    assert_eq!(
        (trial.hold.clone(), trial.think.clone()),
        (Distribution::Fixed(ms(2)), Distribution::Fixed(ms(1)))
    );
    assert_eq!(trial.stop, Stop::After(ms(500)));
    assert_eq!((trial.ramp_up, trial.warm_up), (ms(200), ms(100)));
    assert_eq!(trial.strategy.params["poll_interval"], ParamValue::Duration(ms(100)));
    assert_eq!((trial.session_timeout, trial.acquire_timeout), (ms(10_000), Some(ms(30_000))));
}

#[test]
fn the_estimate_of_the_published_setting_adds_holds_and_half_an_interval_per_handoff() {
    let plan =
        plan("contenders = 20\nhold = \"2s\"\nacquisitions = 1\nrepetitions = 1\norder = \"as-written\"\n");
    let seconds: Vec<_> = plan.trials.iter().map(|trial| trial.estimated_duration().as_secs()).collect();
    assert_eq!(seconds, [50, 40, 40]);
    assert!((50 + 40 + 40 + 8..50 + 40 + 40 + 11).contains(&plan.estimated_duration().as_secs()));
}

#[test]
fn the_largest_allowed_numbers_can_be_planned() {
    let plan = plan(
        "contenders = 100000\nhold = { log-normal = { median = \"24h\", sigma = 3 } }\nthink = \"24h\"\n\
         acquisitions = 1000000000\ntime_scale = 1000\nramp_up = \"24h\"\nwarm_up = \"24h\"\n",
    );
    assert!(plan.estimated_duration() > Duration::from_secs(1_000_000_000));
}

#[test]
fn each_contender_of_a_batch_acquires_once() {
    let plan =
        plan("contenders = 2\nload = \"batch\"\nacquisitions = 1\nhold = \"50ms\"\nwarm_up = \"0s\"\n");
    assert!(plan.trials.iter().all(|t| t.load == Load::Batch && t.stop == Stop::Acquisitions(1)));
}

#[test]
fn advice_points_at_its_value() {
    assert_eq!(
        warnings("contenders = [1, 4]\nlocks = 2\nhold = \"100us\"\nduration = \"5s\"\nrepetitions = 1\n"),
        [
            "4:9 with 1 contender only 1 of 2 locks is used",
            "5:8 a hold of 100 µs is inexact: timers tick in milliseconds",
            "6:12 without a warm-up, the slower first acquisitions count too",
            "6:12 `polling` with 1 contender will acquire only about 5 times",
            "7:15 one repetition shows no spread, so differences cannot be distinguished from noise",
        ]
    );
}

#[test]
fn timeouts_and_bursts_get_advice() {
    let lines = "contenders = 5000\nacquisitions = 1\nhold = \"10ms\"\nacquire_timeout = \"1s\"\nsession_timeout = \"1s\"\n";
    assert_eq!(
        warnings(lines),
        [
            "3:14 5000 contenders arriving together each list 5000 names: sessions may expire",
            "6:19 `polling` with 5000 contenders will often time out: waits are about 42m 44s",
            "7:19 a pause of 1s in a server's JVM or on this host expires sessions",
        ]
    );
    let existing =
        "contenders = 2\nacquisitions = 1\nsession_timeout = \"2s\"\n[ensemble]\nconnect = \"zk1:2181\"\n";
    assert_eq!(warnings(existing), ["5:19 a server with the default tickTime grants 4s to 40s, not 2s"]);
}

#[test]
fn readers_without_a_read_write_lock_get_advice() {
    assert_eq!(
        warnings("contenders = 2\nacquisitions = 5\nread_ratio = 0.5\n"),
        ["5:14 no listed strategy has a read side, so every request is a write"]
    );
    assert_eq!(warnings("contenders = 2\nacquisitions = 5\nread_ratio = 0.0\n"), [""; 0]);
}

#[test]
fn a_read_ratio_reaches_every_trial_unscaled() {
    let plan = plan("contenders = 2\nacquisitions = 5\nread_ratio = 1\ntime_scale = 0.1\n");
    assert!(plan.trials.iter().all(|trial| (trial.read_ratio - 1.0).abs() < f64::EPSILON));
}

#[test]
fn a_depth_reaches_every_trial_and_defaults_to_one() {
    let depths = |lines: &str| {
        let text = format!("name = \"x\"\nstrategies = [\"curator-mutex\"]\nacquisitions = 5\n{lines}");
        let plan = TrialPlan::of(&parse("x.toml", &text, &cards::catalog()).unwrap().scenario);
        plan.trials.iter().map(|trial| trial.depth).collect::<BTreeSet<_>>()
    };
    assert_eq!(depths("contenders = [1, 2]\n"), BTreeSet::from([1]));
    assert_eq!(depths("contenders = [1, 2]\ndepth = 4\ntime_scale = 0.1\n"), BTreeSet::from([4]));
}

#[test]
fn the_preview_shows_every_trial_and_the_total_time_as_text_and_json() {
    let preview = Preview::of(&parsed("contenders = [1, 5]\nduration = \"60s\"\nwarm_up = \"1s\"\n"));
    let shown = preview.to_string();
    for expected in [
        "x is valid: 18 trials, about ",
        "at most about 91 MB of memory",
        "about 6 MB of disk beside the results",
        "own, 3 servers on this host",
        "closed, for 60 s",
        "predecessor-watch",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
    }
    let json = serde_json::to_value(&preview).unwrap();
    assert_eq!(json["trials"].as_array().unwrap().len(), 18);
    assert!(json["estimated_us"].as_u64().unwrap() > 18 * 61_000_000);
    assert_eq!(json["warnings"], serde_json::json!([]));
}

#[test]
fn estimated_memory_grows_with_contenders_and_the_square_of_the_queue() {
    let megabytes = |lines: &str| plan(&format!("duration = \"5s\"\n{lines}")).estimated_memory() / 1_000_000;
    // The measured values for predecessor-watch with simultaneous arrivals were 103, 163, 281, 510 and 6,600 MB.
    for (contenders, measured) in [(500, 103), (1_000, 163), (1_500, 281), (2_000, 510), (10_000, 6_600)] {
        let estimated = megabytes(&format!("contenders = {contenders}\n"));
        assert!((measured..2 * measured).contains(&estimated), "{contenders}: {estimated} for {measured}");
    }
    // In ten queues, lists are a tenth as long; of several sizes, the largest counts
    assert!(megabytes("contenders = 10000\nlocks = 10\n") < 1_900);
    assert_eq!(megabytes("contenders = [10, 1000]\n"), megabytes("contenders = 1000\n"));
}

#[test]
fn fresh_locks_have_one_directory_per_contender_and_no_queue() {
    let lines =
        "load = \"open\"\nrate = 90\nhold = \"20ms\"\nduration = \"5s\"\nwarm_up = \"1s\"\ncontenders = 9\n";
    let fresh = plan(&format!("{lines}locks = \"fresh\"\n"));
    assert!(fresh.trials.iter().all(|trial| trial.fresh_locks && trial.locks == 9));
    // A single lock with that rate would be busy all the time
    assert_eq!(warnings(&format!("{lines}locks = \"fresh\"\nrepetitions = 3\n")), [""; 0]);
    assert!(!warnings(&format!("{lines}locks = 1\nrepetitions = 3\n")).is_empty());
}

#[test]
fn estimates_include_the_locks_when_there_are_many() {
    let of = |locks| {
        plan(&format!(
            "contenders = 40\nlocks = {locks}\nduration = \"20s\"\nload = \"open\"\nrate = 2000\nhold = \"0ms\"\n"
        ))
    };
    let megabytes = |locks| of(locks).estimated_memory() / 1_000_000;
    assert_eq!(megabytes(1), 94);
    assert!((200..500).contains(&megabytes(100_000)), "{}", megabytes(100_000));
    let took = |locks| of(locks).trials[0].estimated_duration().as_secs();
    assert_eq!(took(100_000) - took(100), 25);
}

#[test]
fn a_day_at_300_arrivals_a_second_fits_a_gigabyte_and_its_disk_use_is_estimated() {
    let day =
        plan("contenders = 32\nlocks = 8\nload = \"open\"\nrate = 300\nhold = \"2ms\"\nduration = \"24h\"\n");
    assert!((300..500).contains(&(day.estimated_memory() / 1_000_000)), "{}", day.estimated_memory());
    assert_eq!(day.estimated_disk() / 1_000_000_000, 7);
}

#[test]
fn a_round_beyond_the_plan_equals_that_of_a_longer_plan() {
    let lines =
        |repetitions| format!("contenders = [1, 5]\nduration = \"1s\"\nrepetitions = {repetitions}\n");
    let (short, long) = (plan(&lines(2)), plan(&lines(7)));
    let rounds: Vec<_> = (1..=7).flat_map(|number| short.round(number)).collect();
    assert_eq!(rounds, long.trials);
    assert_eq!(rounds[..short.trials.len()], short.trials);
}

#[test]
fn a_precision_ends_the_run_and_the_preview_shows_the_longest_time() {
    let lines = "contenders = 2\nduration = \"1s\"\nwarm_up = \"1s\"\nprecision = \"2.5 %\"\n";
    let parsed = parsed(lines);
    let precision = parsed.scenario.precision.unwrap();
    assert!((precision.share - 0.025).abs() < 1e-12, "{precision:?}");
    assert_eq!((parsed.scenario.repetitions, precision.repetitions_at_most), (3, 30));
    let preview = Preview::of(&parsed);
    let shown = preview.to_string();
    assert!(
        shown.contains("at least 9 trials, about ") && shown.contains("for ± 2.5 % at most 90 trials"),
        "{shown}"
    );
    let json = serde_json::to_value(&preview).unwrap();
    assert_eq!(
        (json["trials"].as_array().unwrap().len(), &json["precision"]["trials_at_most"]),
        (9, &90.into())
    );
}

/// The open load of every trial of such a scenario, in its order.
fn open(lines: &str) -> Vec<Open> {
    let plan = plan(&format!("load = \"open\"\nrepetitions = 1\norder = \"as-written\"\n{lines}"));
    plan.trials.into_iter().map(|trial| trial.load.open().unwrap().clone()).collect()
}

#[test]
fn an_open_load_defaults_to_poisson_arrivals_over_equal_locks() {
    let open = &open("contenders = 2\nrate = 40\nduration = \"5s\"\n")[0];
    assert_eq!(open.arrivals, Arrivals::Poisson { rate: 40.0 });
    assert_eq!((open.popularity, open.late), (Popularity::Uniform, Late::Keep));
    assert_eq!(open.backlog_at_most, Duration::from_secs(30));
}

#[test]
fn every_arrival_process_is_read_with_its_parameters() {
    let arrivals =
        |lines: &str| open(&format!("contenders = 2\nduration = \"5s\"\n{lines}"))[0].arrivals.clone();
    let second = Duration::from_secs(1);
    assert_eq!(arrivals("rate = 0.5\narrivals = \"constant\""), Arrivals::Constant { rate: 0.5 });
    assert_eq!(
        arrivals("rate = 4\narrivals = { bursts = { peak = 3, length = \"1s\" } }"),
        Arrivals::Bursts { rate: 4.0, peak: 3.0, length: second }
    );
    assert_eq!(
        arrivals("rate = 4\narrivals = { day = { amplitude = 1, period = \"1s\" } }"),
        Arrivals::Day { rate: 4.0, amplitude: 1.0, period: second }
    );
    assert_eq!(
        arrivals("arrivals = { ramp = { from = 0, to = 20.5 } }"),
        Arrivals::Ramp { from: 0.0, to: 20.5 }
    );
    let step = |rate| Step { rate, lasts: second };
    assert_eq!(
        arrivals("arrivals = { steps = [{ rate = 1, for = \"1s\" }, { rate = 9, for = \"1s\" }] }"),
        Arrivals::Steps(vec![step(1.0), step(9.0)])
    );
}

#[test]
fn a_rate_for_each_contender_is_multiplied_by_their_number() {
    let rates: BTreeSet<_> = open("contenders = [2, 10]\nrate_each = 0.5\nduration = \"5s\"\n")
        .iter()
        .map(|open| open.arrivals.mean_rate(Duration::from_secs(5)) as u64)
        .collect();
    assert_eq!(rates, BTreeSet::from([1, 5]));
}

#[test]
fn time_scale_multiplies_the_times_of_arrivals_and_divides_their_rates() {
    let lines =
        "contenders = 2\nduration = \"10s\"\ntime_scale = 0.1\nwarm_up = \"1s\"\nbacklog_at_most = \"5s\"\n";
    let bursts = format!("{lines}rate = 40\narrivals = {{ bursts = {{ peak = 4, length = \"500ms\" }} }}\n");
    let open = &open(&bursts)[0];
    assert_eq!(open.arrivals, Arrivals::Bursts { rate: 400.0, peak: 4.0, length: Duration::from_millis(50) });
    assert_eq!(open.backlog_at_most, Duration::from_secs(5));
    let trial = &plan(&format!("load = \"open\"\n{bursts}")).trials[0];
    assert_eq!(
        (trial.warm_up, trial.warm_up_at_most),
        (Duration::from_millis(100), Duration::from_millis(400))
    );
}

#[test]
fn a_warm_up_may_take_four_times_as_long_unless_the_rate_changes() {
    let longest = |lines: &str| {
        plan(&format!("contenders = 2\nduration = \"10s\"\nwarm_up = \"2s\"\n{lines}")).trials[0]
            .warm_up_at_most
            .as_secs()
    };
    assert_eq!(longest(""), 8);
    assert_eq!(longest("warm_up_at_most = \"3s\""), 3);
    assert_eq!(longest("load = \"open\"\nrate = 1"), 8);
    assert_eq!(longest("load = \"open\"\narrivals = { ramp = { from = 1, to = 2 } }"), 2);
}

/// The scenario's head with a replay of three arrivals at three of five locks, the last after 2 s, and these lines.
fn replayed(lines: &str) -> Result<Parsed, String> {
    let text = format!(
        "{HEAD}contenders = 2\nload = \"open\"\narrivals = {{ replay = \"a.csv\" }}\nrepetitions = 2\nlocks = 5\n{lines}"
    );
    let held = Some(Duration::from_millis(100));
    let traces = |file: &std::path::Path, _: &Columns| match file.to_str() {
        Some("a.csv") => Ok(vec![
            TraceArrival { at_us: 0, lock: Some(4), hold: held, mode: None },
            TraceArrival { at_us: 1_000_000, lock: Some(4), hold: None, mode: None },
            TraceArrival { at_us: 2_000_000, lock: Some(0), hold: held, mode: None },
        ]),
        _ => Err("b.csv line 3: wrong; mend it".to_owned()),
    };
    parse_with_traces("x.toml", &text, &cards::catalog(), &traces)
        .map_err(|wrong| wrong.machine()[0].message.clone())
}

#[test]
fn a_replay_has_the_length_and_locks_of_its_file() {
    let parsed = replayed("").unwrap();
    let warnings = parsed.warnings.to_string();
    assert!(parsed.warnings.len() == 1 && warnings.contains("only about 3 times"), "{warnings}");
    let trial = TrialPlan::of(&parsed.scenario).trials[0].clone();
    assert_eq!(trial.stop, Stop::After(Duration::from_millis(2_001)));
    let Arrivals::Replay(replay) = &trial.load.open().unwrap().arrivals else { panic!("{:?}", trial.load) };
    assert_eq!((replay.count, replay.trace.len(), replay.trace[2].at_us), (3, 3, 2_000_000));
    let shorter = TrialPlan::of(&replayed("duration = \"1s\"\ntime_scale = 0.5\n").unwrap().scenario);
    assert_eq!(shorter.trials[0].stop, Stop::After(Duration::from_millis(500)));
    let refused = |lines: &str| replayed(lines).err();
    assert_eq!(
        refused("warm_up = \"1s\"\n").unwrap(),
        "a replay has no `warm_up`: every arrival of its file is measured"
    );
    assert_eq!(refused("rate = 5\n").unwrap(), "`replay` sets its own arrival rate");
    assert_eq!(
        refused("poll_interval = \"10s\"\ntime_scale = 0.0004\n").unwrap(),
        "`time_scale` makes the 2s 1ms of a.csv shorter than 1ms"
    );
}

#[test]
fn a_replay_with_too_many_locks_or_a_wrong_file_is_reported_with_its_position() {
    let text = |file: &str| {
        format!("{HEAD}contenders = 2\nload = \"open\"\narrivals = {{ replay = \"{file}\" }}\nlocks = 1\n")
    };
    let traces = |file: &std::path::Path, _: &Columns| match file.to_str() {
        Some("a.csv") => Ok(vec![TraceArrival { at_us: 0, lock: Some(4), hold: None, mode: None }]),
        Some("empty.csv") => Ok(Vec::new()),
        _ => Err("b.csv line 3: wrong; mend it".to_owned()),
    };
    let told = |file: &str| {
        let wrong =
            parse_with_traces("x.toml", &text(file), &cards::catalog(), &traces).unwrap_err().machine();
        format!("{} {} => {}", wrong[0].position.line, wrong[0].message, wrong[0].help.clone().unwrap())
    };
    assert_eq!(told("a.csv"), "6 a.csv asks for 5 locks, but `locks` is 1 => write locks = 5");
    assert_eq!(told("b.csv"), "5 b.csv line 3: wrong => mend it");
    assert_eq!(told("empty.csv"), "5 empty.csv has no arrivals => name a file with at least one");
}

#[test]
fn loads_beyond_a_locks_capacity_get_advice() {
    let lines = "load = \"open\"\nduration = \"60s\"\nwarm_up = \"1s\"\ncontenders = 100\nhold = \"10ms\"\n";
    let advised = |more: &str| warnings(&format!("{lines}{more}\n"));
    assert_eq!(advised("rate = 70"), [""; 0]);
    assert_eq!(
        advised("rate = 120"),
        [
            "8:8 at 120 arrivals a second, each with a hold of 10 ms, the lock would be busy 120 % of the time: \
             this cannot work, because the queue grows without end"
        ]
    );
    assert_eq!(
        advised("rate_each = 0.85"),
        [
            "8:13 at 85 arrivals a second, each with a hold of 10 ms, the lock would be busy 85 % of the time: near \
          saturation"
        ]
    );
    // The most popular of a hundred locks gets 19 % of all arrivals
    assert_eq!(advised("rate = 400\nlocks = 100"), [""; 0]);
    assert_eq!(
        advised("rate = 600\nlocks = 100\npopularity = { zipf = 1 }"),
        ["8:8 at 600 arrivals a second, each with a hold of 10 ms, the busiest of 100 locks would be busy \
             116 % of the \
          time: this cannot work, because the queue grows without end"]
    );
    // Not too high on average, but at the peak
    for (arrivals, peak) in [
        ("{ day = { amplitude = 0.8, period = \"60s\" } }\nrate = 60", "108 arrivals"),
        ("{ ramp = { from = 1, to = 150 } }", "150 arrivals"),
        ("{ steps = [{ rate = 1, for = \"55s\" }, { rate = 130, for = \"1s\" }] }", "130 arrivals"),
    ] {
        let said = advised(&format!("arrivals = {arrivals}"));
        assert!(
            said.len() == 1 && said[0].contains(peak) && said[0].contains("while the queue grows"),
            "{said:?}"
        );
    }
}

#[test]
fn pools_popularity_and_steps_without_effect_get_advice() {
    let lines = "load = \"open\"\nduration = \"60s\"\nwarm_up = \"1s\"\n";
    assert_eq!(
        warnings(&format!("{lines}contenders = 5\nhold = \"50ms\"\nrate = 100\nlocks = 20\n")),
        [
            "6:14 5 contenders are too few: by Little's law 5.3 sessions are busy at once (rate × (hold + 3 ms \
             for the \
          handoff))"
        ]
    );
    assert_eq!(
        warnings(&format!("{lines}contenders = 5\nrate = 10\npopularity = {{ zipf = 1 }}\n")),
        ["8:14 a single lock cannot be more popular than others"]
    );
    let steps = "arrivals = { steps = [{ rate = 5, for = \"60s\" }, { rate = 9, for = \"60s\" }] }";
    assert_eq!(
        warnings(&format!("{lines}contenders = 5\n{steps}\n")),
        ["4:12 the last step would start after 1m, when the trial is over"]
    );
}

#[test]
fn the_preview_states_the_offered_load() {
    let lines = "load = \"open\"\nduration = \"60s\"\nwarm_up = \"1s\"\ncontenders = [10, 20]\nhold = \"10ms\"\nlocks = 4\n";
    let preview = |more: &str| Preview::of(&parsed(&format!("{lines}{more}\n")));
    let shown = preview("rate = 40").to_string();
    for expected in [
        "load: open, poisson, 4 equally popular locks, for 60 s\n",
        "offered: 40 arrivals a second, about 2400 in all; the busiest lock is held 10 % of the time\n",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
    }
    let each =
        preview("rate_each = 2\nlate = \"drop\"\narrivals = { bursts = { peak = 4, length = \"1s\" } }");
    let shown = each.to_string();
    for expected in [
        "load: open, in bursts of 1 s at 4 times the rate, 4 equally popular locks, dropped where no contender is free, for 60 s\n",
        "offered: with 10 contenders, 20 arrivals a second, about 1200 in all; the busiest lock is held 5 % of the time; at \
         the peak 80 a second and 20 %\n",
        "offered: with 20 contenders, 40 arrivals a second",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
    }
    let json = serde_json::to_value(&each).unwrap();
    assert_eq!(json["offered"][0]["contenders"], 10);
    assert_eq!(json["offered"][1]["arrivals"], 2400.0);
}

#[test]
fn an_open_load_is_estimated_by_duration_and_backlog() {
    let plan = |rate: u32| {
        let lines =
            format!("load = \"open\"\nduration = \"60s\"\ncontenders = 10\nhold = \"10ms\"\nrate = {rate}\n");
        plan(&lines)
    };
    let seconds = |rate| plan(rate).trials[0].estimated_duration().as_secs();
    // Each takes 13 ms including the handoff: 100 per second for 60 s are 78 s of work; 1,000 per second exceed the
    // limit of the backlog.
    assert_eq!((seconds(40), seconds(100), seconds(1_000)), (60, 78, 90));
    let acquired = |rate| {
        let trials = plan(rate).trials;
        let watch = trials.iter().find(|trial| trial.strategy.label == "parent-watch");
        watch.unwrap().estimated_acquisitions()
    };
    assert!((acquired(40) - 2_400.0).abs() < 1.0 && (acquired(1_000) - 60.0 / 0.013).abs() < 1.0);
}
