//! A stored plan for tests of its outputs.

use std::path::PathBuf;
use std::time::Duration;

use zklockbench_analysis::model::{Fit, FitRange, Part, Predicted, Prediction};
use zklockbench_analysis::plan::{
    Answer, Because, Checked, CurvePoint, FILE, FailureCost, Headroom, MeasuredRange, PlanFile, Question,
    Recommendation, Sensitivity, Verification, objective,
};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{EnsembleInfo, ServerInfo};

use super::records;

fn around(middle: f64) -> Predicted {
    Predicted { low: 0.9 * middle, middle, high: 1.2 * middle }
}

fn prediction(p99: f64) -> Prediction {
    Prediction {
        won_share: None,
        wait_p50: around(p99 / 50.0),
        wait_p99: around(p99),
        wait_p999: around(1.5 * p99),
        wait_mean: around(p99 / 10.0),
        throughput: around(5.0),
        utilisation: around(0.5),
        handoff: around(1_500.0),
        waiting: around(0.25),
        sessions: Predicted { low: 9.0, middle: 10.0, high: 11.0 },
        pool_runs_out: 0.0,
        simulations: 60,
    }
}

fn range(least_us: u64, median_us: f64, most_us: u64) -> Option<MeasuredRange> {
    Some(MeasuredRange { least_us, median_us, most_us, at_least: false })
}

/// Failures measured for `predecessor-watch` only: three kills of the leader, and a crash of a holder.
fn failures(strategy: &str) -> Vec<FailureCost> {
    if strategy != "predecessor-watch" {
        return Vec::new();
    }
    let leader = FailureCost {
        fault: "kill leader for 2s".into(),
        times: 3,
        gap: range(594_000, 712_000.0, 1_210_000),
        requests: Some(7.0),
        sessions_lost: Some(0.0),
        granted_us: 10_000_000,
        wait_mean: range(310_000, 405_000.0, 702_000),
        wait_p99: range(590_000, 708_000.0, 1_190_000),
        usual_wait_us: Some(31_000.0),
        drained: range(48_000, 102_000.0, 233_000),
        not_drained: 0,
        meanwhile: Some(Verdict::Unknown(vec!["wait.p99 needs 1000 waits, but 240 were measured".into()])),
    };
    let holder = FailureCost {
        fault: "crash holder".into(),
        times: 1,
        gap: range(9_800_000, 9_800_000.0, 9_800_000),
        requests: Some(80.0),
        not_drained: 1,
        drained: None,
        meanwhile: None,
        ..leader.clone()
    };
    vec![leader, holder]
}

/// A plan's answer for a strategy with this 99th percentile of waits.
pub fn answer(strategy: &str, p99: f64, verdict: Verdict) -> Answer {
    let part = |us| Part { us, error_us: us / 20.0 };
    let holds = verdict == Verdict::Held;
    let rates: &[f64] = if holds { &[1.25, 2.5, 3.75, 5.0, 6.25, 7.5] } else { &[1.25, 2.5, 3.75, 5.0] };
    let curve = rates
        .iter()
        .map(|rate| CurvePoint { rate: *rate, wait: around(p99 * (rate / 5.0).powi(3)) })
        .collect();
    Answer {
        strategy: strategy.into(),
        verdict,
        prediction: Some(prediction(p99)),
        if_variable: None,
        fit: Some(Fit {
            first: part(1_500.0),
            each_more: (strategy == "parent-watch").then(|| part(60.0)),
            by_rate: None,
            spread: 0.07,
            residuals: vec![0.01, -0.01, 0.02, -0.02],
            freedom: 3,
            open: Vec::new(),
            range: FitRange { rate_from: 56.0, rate_to: 154.0, waiting_from: 1.0, waiting_to: 1.5 },
        }),
        measured: None,
        headroom: holds.then_some(Headroom {
            clients: None,
            rate: 7.5,
            factor: 1.5,
            at_least: false,
            low: Some(7.0),
            high: Some(8.0),
        }),
        curve,
        horizon_s: None,
        sensitivity: vec![Sensitivity { service: 1.1, value: 1.3 * p99, holds }],
        locks_needed: (!holds).then_some(2),
        requests_per_s: Some(20.0),
        ensemble_utilisation: None,
        watches: Some(0.25),
        outage_us: None,
        outage_wait: None,
        failures: failures(strategy),
        sources: vec!["measure-1, trial 0".into()],
        missing: vec!["behaviour while a server is down: none of the results has a failing server".into()],
    }
}

/// A plan for two strategies. Only one strategy meets the objective, and that strategy was verified.
pub fn plan() -> PlanFile {
    let host = records::run(1).host;
    let server = |port: u16| ServerInfo {
        address: format!("127.0.0.1:{port}"),
        role: "follower".into(),
        version: "3.8.0".into(),
        shares_host: None,
    };
    let checked = |figure: &str, predicted: f64, measured: f64| Checked {
        at_least: false,
        figure: figure.into(),
        predicted: around(predicted),
        measured,
        inside: measured < 1.2 * predicted,
        by_observed_service: measured,
        reproduced: true,
    };
    PlanFile {
        schema_version: FILE.version,
        tool_version: "0.1.0".into(),
        tool_commit: Some("0123abc".into()),
        asked_at: records::began(),
        command: ["target/zklockbench", "plan", "--rate", "5/s", "--slo", "wait.p99 < 500ms"]
            .map(str::to_owned)
            .into(),
        question: Question {
            clients: 20,
            rate: 5.0,
            hold: Duration::from_millis(100),
            holds: None,
            locks: 1,
            arrivals: "\"poisson\"".into(),
            popularity: None,
            think: None,
            round_trip: Some(Duration::from_millis(5)),
            session_timeout: None,
            scenario: None,
            only_tries: false,
            objective: objective("wait.p99 < 500ms").unwrap(),
        },
        host: Some(host),
        ensemble: Some(EnsembleInfo {
            kind: "local".into(),
            connect: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3".into(),
            servers: (1..=3).map(server).collect(),
            placement: "tmpfs".into(),
            shares_host: true,
            ..EnsembleInfo::default()
        }),
        sources: vec![PathBuf::from("plan/runs/measure-1")],
        left_out: vec!["known adds nothing to each round trip, but your load adds 5 ms".into()],
        answers: vec![
            answer("predecessor-watch", 150_000.0, Verdict::Held),
            answer("parent-watch", 600_000.0, Verdict::Violated(vec!["wait.p99 is too long".into()])),
        ],
        fresh: Vec::new(),
        map: Vec::new(),
        by_servers: Vec::new(),
        recommendation: Some(Recommendation {
            strategy: "predecessor-watch".into(),
            because: Some(Because::NoOtherHolds),
        }),
        verifications: vec![Verification {
            strategy: "predecessor-watch".into(),
            run: PathBuf::from("plan/runs/verify-1"),
            arrivals: 14_356,
            rate: 120.0,
            locks: 24,
            figures: vec![checked("wait.p99", 150_000.0, 140_000.0), checked("throughput", 120.0, 150.0)],
            failures: Vec::new(),
            held: true,
            agrees: Some(true),
            verdict: Some(Verdict::Held),
            notes: vec!["14356 arrivals; a reliable 99th percentile needs 20000".into()],
        }],
        unverified: Vec::new(),
    }
}
