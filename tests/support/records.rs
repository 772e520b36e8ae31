//! Handcrafted records, in the form that a run would store.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use zklockbench_analysis::compare::{Loaded, Side};
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::evidence::Sensitivity;
use zklockbench_core::measure::{
    Counts, Histogram, Measure, Outcome, RequestKind, Second, Woken, new_histogram,
};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{
    Accounting, Arrived, Cause, Counted, CutShort, EnsembleInfo, Evidence, Excused, FencingCounts, Floor,
    Health, Holder, HostInfo, Judged, Parts, Phase, Run, RunOutcome, ServerCounters, ServerInfo, Sessions,
    Steady, Tally, Timing, Trial, Utilisation, Violation, WarmUpEnd,
};
use zklockbench_results::{RunFile, SCHEMA_VERSION, SoFar, StoredRun};
use zklockbench_scenario::{
    Arrivals, Distribution, InDoubt, Late, Load, OnLost, Open, Popularity, Settling, Stop, StrategyChoice,
    TrialSpec,
};

/// `2026-11-21T08:45:08.123456Z`.
pub fn began() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(1_795_250_708_123_456)
}

/// A judgement with a verdict on exclusion only.
pub fn judged(exclusion: Verdict) -> Judged {
    Parts { exclusion, progress: None, order: None, accounting: None, figures: None }.into()
}

pub fn held() -> Judged {
    judged(Verdict::Held)
}

/// State of a run in progress whose verdict is *held*.
pub fn so_far(planned: usize) -> SoFar {
    SoFar { planned, precision: None, judged: held() }
}

/// A stored run of these trials, with the verdict *held*.
pub fn stored(run: &Run, trials: &[Trial]) -> StoredRun {
    let run = RunFile {
        schema_version: SCHEMA_VERSION,
        run: run.clone(),
        judged: held(),
        trials: trials.len(),
        files: BTreeMap::new(),
        digest: String::new(),
    };
    StoredRun::of(run, trials.to_vec())
}

/// One side of a comparison, with a single run.
pub fn side(name: &str, trials: &[Trial]) -> Side {
    let mut stored = stored(&run(trials.len()), trials);
    stored.run.digest = name.to_owned();
    Side { path: name.into(), runs: vec![Loaded { path: name.into(), stored }] }
}

/// A trial in which every step is slower than usual by the factor `times`, with enough samples for every percentile.
pub fn trial_taking(index: usize, times: f64) -> Trial {
    let mut trial = trial(index);
    let samples: Vec<u64> = (0..1_200).map(|at| ((1_000.0 + f64::from(at)) * 10.0 * times) as u64).collect();
    trial.histograms.insert(Measure::Wait, histogram(&samples));
    trial.histograms.insert(Measure::Handoff, histogram(&samples[..100]));
    trial.histograms.insert(Measure::Turn, histogram(&samples[..100]));
    trial.measured_us = (2_500_000.0 * times) as u64;
    trial.spec.repetition = u32::try_from(index).unwrap() + 1;
    trial
}

pub fn interrupted() -> Option<CutShort> {
    Some(CutShort { cause: Cause::Interrupted, why: "interrupted".into() })
}

pub fn run(planned_trials: usize) -> Run {
    Run {
        tool_version: "0.1.0".into(),
        tool_commit: Some("0123abc-dirty".into()),
        scenario: "quick".into(),
        replayed: None,
        workers: None,
        scenario_text: "name = \"quick\"\n".into(),
        overrides: vec!["--connect zk1:2181".into()],
        seed: u64::MAX,
        planned_trials,
        precision: None,
        generator_threads: 2,
        host: HostInfo { hostname: "bench".into(), cores: 4, memory_bytes: 8 << 30, ..HostInfo::default() },
        ensemble: EnsembleInfo {
            kind: "external".into(),
            connect: "zk1:2181/chroot".into(),
            servers: vec![ServerInfo {
                address: "zk1:2181".into(),
                role: "leader".into(),
                version: "3.9.3".into(),
                shares_host: None,
            }],
            placement: "not known".into(),
            shares_host: false,
            starts_cold: false,
            config: vec![("tickTime".into(), "2000".into()), ("syncLimit".into(), "5".into())],
        },
        floor: Some(floor()),
        floor_after: None,
        history: false,
        segments: Vec::new(),
        started_at: began(),
        ended_at: began() + Duration::from_secs(60),
        outcome: RunOutcome::COMPLETE,
        strategies: vec![LABEL.into()],
    }
}

/// A floor of 1 ms for handoffs and 2 ms for uncontended acquires.
pub fn floor() -> Floor {
    let timing = |count, p50_us| Timing { count, p50_us, p90_us: 2 * p50_us, p99_us: 3 * p50_us };
    Floor {
        handoff: Some(timing(270, 1_000)),
        handoff_same_server: Some(timing(90, 900)),
        handoff_other_server: Some(timing(180, 1_100)),
        uncontended: Some(timing(90, 2_000)),
        took_us: 1_234_567,
        missing: None,
        outlier_us: None,
    }
}

const LABEL: &str = "predecessor-watch (ttl = \"1s\", a=b)";

pub fn spec(index: usize) -> TrialSpec {
    TrialSpec {
        index,
        strategy: StrategyChoice {
            name: "predecessor-watch".into(),
            params: BTreeMap::from([("ttl".into(), ParamValue::Duration(Duration::from_secs(1)))]),
            label: LABEL.into(),
            system: None,
            processes: None,
        },
        contenders: 3,
        repetition: 1,
        locks: 1,
        fresh_locks: false,
        hold: Distribution::Fixed(Duration::from_millis(20)),
        think: Distribution::Exponential { mean: Duration::from_millis(1) },
        read_ratio: 0.0,
        clients: Vec::new(),
        depth: 1,
        load: Load::Closed,
        stop: Stop::After(Duration::from_millis(2_500)),
        ramp_up: Duration::ZERO,
        warm_up: Duration::ZERO,
        warm_up_at_most: Duration::ZERO,
        session_timeout: Duration::from_secs(10),
        acquire_timeout: Some(Duration::from_secs(3)),
        give_up_after: Duration::from_secs(60),
        session_each: false,
        in_doubt: InDoubt::EndSession,
        on_lost: OnLost::Stop,
        hold_limit: None,
        evidence: Sensitivity::DEFAULT,
        faults: Vec::new(),
        settling: Settling::of(Duration::from_secs(10)),
        seed: u64::MAX,
        makes_up_for: None,
    }
}

/// A trial with an open load of 8 arrivals per second, in which the queue grew by 5.6 per second.
pub fn overloaded(index: usize) -> Trial {
    let mut trial = trial(index);
    trial.spec.load = Load::Open(Open {
        arrivals: Arrivals::Poisson { rate: 8.0 },
        popularity: Popularity::Uniform,
        late: Late::Keep,
        backlog_at_most: Duration::from_secs(30),
    });
    trial.arrived = Some(Arrived {
        offered: 20,
        started: 8,
        served: 6,
        unserved: 14,
        dropped: 0,
        backlog_us: 30_000_000,
    });
    trial.utilisation = Some(Utilisation { mean: 0.98, busiest: 0.98, busiest_lock: 0 });
    trial.health.lateness_p99_us = Some(120);
    trial.histograms.insert(Measure::Unserved, histogram(&[30_000_000; 14]));
    trial.histograms.insert(Measure::ClientWait, histogram(&[10, 2_000]));
    trial.histograms.insert(Measure::Service, histogram(&[900, 1_000]));
    trial.histograms.insert(Measure::ClientUnserved, histogram(&[30_000_000; 14]));
    trial.steady = Some(Steady {
        warm_up_ended: WarmUpEnd::Fixed,
        warm_up_us: 0,
        slot_us: 25_000,
        acquired: vec![1; 100],
        wait_us: vec![900; 100],
        backlog: (0..100).map(|slot| slot * 14 / 100).collect(),
        queue: None,
    });
    trial
}

/// A valid trial of three contenders with six acquisitions in 2.5 s.
pub fn trial(index: usize) -> Trial {
    let measured = counts();
    let whole = measured + measured;
    let waits = [900, 1_000, 1_100, 5_000, 20_000, 1_234_567];
    Trial {
        spec: spec(index),
        started_at: began(),
        measured_from_us: 1_030_000,
        measured_us: 2_500_000,
        full_crew: None,
        arrived: None,
        dispersion: Vec::new(),
        steady: None,
        utilisation: None,
        herd: Some(vec![Woken { from_rank: 1, to_rank: Some(1), count: 3, p50_us: 700, p99_us: 900 }]),
        phases: vec![
            Phase { name: "connect".into(), took_us: 30_000 },
            Phase { name: "ramp".into(), took_us: 1_000_000 },
            Phase { name: "measure".into(), took_us: 2_500_100 },
        ],
        histograms: BTreeMap::from([
            (Measure::Wait, histogram(&waits)),
            (Measure::Handoff, histogram(&waits[..5])),
            (Measure::Request(RequestKind::Create), histogram(&[1, 3_600_000_000])),
        ]),
        measured,
        whole,
        timeline: [3, 2, 1]
            .map(|acquisitions| Second {
                acquisitions,
                requests: 4,
                notifications: acquisitions - 1,
                ..Second::default()
            })
            .into(),
        tallies: [3, 2, 1].map(|acquired| Tally { acquired, longest_wait_us: 1_234_567, unserved: 0 }).into(),
        most_inside: 1,
        excused: Excused::default(),
        facts: None,
        ensemble_order: None,
        evidence: Evidence { entries: 6, waited: 5, seen_inside: 5, ..Evidence::default() },
        standstill: None,
        fencing: FencingCounts::default(),
        elections: Some(Vec::new()),
        faults: Vec::new(),
        history: None,
        unchecked: Vec::new(),
        beside: None,
        driver: None,
        counting: None,
        start_spread_us: None,
        interference: Vec::new(),
        wrong_holds: Vec::new(),
        stuck: Vec::new(),
        orphans: None,
        orphan_nodes: Vec::new(),
        lost_holds: None,
        limited_holds: None,
        nodes_left: None,
        sessions: Sessions {
            opened: 3,
            connect_us: 30_000,
            negotiated_timeout_us: 10_000_000,
            ..Sessions::default()
        },
        errors: BTreeMap::from([("create: connection loss".into(), 2)]),
        violations: Vec::new(),
        violation_count: 0,
        accounting: accounting(),
        servers: vec![ServerCounters {
            address: "zk1:2181".into(),
            role: "leader".into(),
            version: Some("3.9.3".into()),
            silent: None,
            before: BTreeMap::from([("zk_packets_received".into(), 10)]),
            after: BTreeMap::from([("zk_packets_received".into(), 34)]),
            unread_us: None,
        }],
        health: Health {
            timer_lag_p99_us: 90,
            lag_share: Some(0.1),
            cpu_share: 1.0 / 3.0,
            ..Health::default()
        },
        cut_short: None,
        judged: held(),
    }
}

/// A trial that was cut short before any acquisition, without host metrics.
pub fn trial_without_measurements(index: usize) -> Trial {
    Trial {
        measured_us: 0,
        histograms: BTreeMap::new(),
        measured: Counts::default(),
        herd: None,
        timeline: Vec::new(),
        tallies: vec![Tally::default(); 3],
        accounting: Vec::new(),
        health: Health::default(),
        cut_short: interrupted(),
        judged: judged(Verdict::Unknown(vec!["partial: interrupted".into()])),
        ..trial(index)
    }
}

/// A trial in which two contenders were inside at the same time.
pub fn trial_with_a_violation(index: usize) -> Trial {
    let inside = Holder { contender: 0, sequence: Some(4), czxid: Some(99), entered_us: -5 };
    let entered = Holder { contender: 2, sequence: None, czxid: None, entered_us: 7 };
    Trial {
        violations: vec![Violation { lock: 0, inside, entered, at: 12_345, timeline: None }],
        violation_count: 3,
        most_inside: 2,
        judged: judged(Verdict::Violated(vec!["3 violations".into()])),
        ..trial(index)
    }
}

fn counts() -> Counts {
    let mut counts = Counts::default();
    counts.requests.add(RequestKind::Create, 6);
    counts.requests.add(RequestKind::GetChildren, 6);
    counts.succeeded.add(RequestKind::Create, 5);
    counts.notifications.node_deleted = 3;
    counts.notifications.by_release_useful = 2;
    counts.notifications.by_release_spurious = 1;
    counts.outcomes.add(Outcome::Acquired, 6);
    counts.outcomes.add(Outcome::TimedOut, 1);
    counts.releases = 6;
    counts.names_returned = 18;
    counts.bytes_sent = 600;
    counts.bytes_received = 1_200;
    counts
}

fn accounting() -> Vec<Accounting> {
    vec![
        Accounting { what: Counted::Reads, client: Some(12), expected: Some(12), servers: Some(12) },
        Accounting { what: Counted::Writes, client: Some(12), expected: None, servers: Some(13) },
    ]
}

pub fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = new_histogram();
    values.iter().for_each(|value| histogram.saturating_record(*value));
    histogram
}
