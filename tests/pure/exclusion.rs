//! Verdicts on trials and runs: whether contenders excluded each other, or why the verdict is unknown.

use std::fmt::Write as _;
use std::time::Duration;

use zklockbench_judge::{differences, judge, least_evidence, of_run, standing_still};

use zklockbench_core::measure::{Counts, Outcome, RequestKind};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::history::{LockKind, SessionState};
use zklockbench_record::{
    Accounting, Cause, Counted, CutShort, Deed, EnsembleOrder, Evidence, Facts, FaultRecord, Judged, Life,
    LockClaim, Moment, Parts, Stuck, Trial,
};
use zklockbench_results::history::write_trial;
use zklockbench_scenario::TrialSpec;

use crate::support::story::{self, judged};
use crate::support::{records, views};

/// A valid trial, judged after a change.
fn after(change: impl FnOnce(&mut Trial)) -> Trial {
    let mut trial = records::trial(0);
    change(&mut trial);
    judge(&mut trial);
    trial
}

/// Describes the overall verdict, its reasons, and its parts.
fn described(name: &str, judged: &Judged) -> String {
    let mut said = format!("{name}: {}\n", judged.verdict.word());
    judged.verdict.reasons().iter().for_each(|why| writeln!(said, "  {why}").unwrap());
    let names = ["exclusion", "progress", "order", "accounting", "figures"];
    let Judged { exclusion, progress, order, accounting, figures, .. } = judged;
    let parts = [Some(exclusion), progress.as_ref(), order.as_ref(), accounting.as_ref(), figures.as_ref()];
    let known =
        names.iter().zip(parts).filter_map(|(part, verdict)| Some(format!("{part} {}", verdict?.word())));
    writeln!(said, "  [{}]", known.collect::<Vec<_>>().join(", ")).unwrap();
    let accounting = judged.accounting.iter().flat_map(Verdict::reasons);
    accounting.for_each(|why| writeln!(said, "  accounting: {why}").unwrap());
    said
}

fn fault(proved: bool, proof: &str, left: Option<&str>) -> FaultRecord {
    FaultRecord {
        number: 2,
        asked_us: 0,
        effective_us: None,
        ended_us: None,
        proved,
        proof: proof.into(),
        left: left.map(str::to_owned),
        longest_gap_us: None,
        recovered_us: None,
        ..views::fault("kill leader", 0)
    }
}

fn stuck(contender: usize, blocker: Option<usize>) -> Stuck {
    Stuck { blocker, ..views::stuck(contender) }
}

/// A valid trial with `acquisitions` in the measured phase.
fn measured(acquisitions: u64, evidence: Evidence) -> Trial {
    let mut trial = Trial { evidence, ..records::trial(0) };
    let more = acquisitions - trial.measured.acquired().min(acquisitions);
    trial.measured.outcomes.add(Outcome::Acquired, more);
    if acquisitions == 0 {
        trial.measured = Counts::default();
    }
    trial
}

fn many() -> Evidence {
    Evidence { entries: 900, waited: 800, ..Evidence::default() }
}

/// A trial in which `seen_inside` of `acquired` acquisitions were checked.
fn checked(seen_inside: u64, acquired: u64) -> Trial {
    let evidence = Evidence { entries: acquired, waited: acquired - 1, seen_inside, ..Evidence::default() };
    after(|trial| *trial = measured(acquired, evidence))
}

/// A trial with all acquisitions in the warm-up.
fn warm_up_only(entries: u64) -> Trial {
    let evidence = Evidence { entries, waited: entries, by_transactions: entries, ..Evidence::default() };
    after(|trial| *trial = measured(0, evidence))
}

/// A trial whose tries all failed in the measured phase.
fn only_failed_tries() -> Trial {
    after(|trial| {
        *trial = measured(0, Evidence { seen_inside: 800, ..many() });
        trial.spec.acquire_timeout = Some(Duration::ZERO);
        trial.measured.outcomes.add(Outcome::TimedOut, 900);
    })
}

/// A trial with many acquisitions in the warm-up and `acquired` after it.
fn after_warm_up(acquired: u64) -> Trial {
    let evidence = Evidence { entries: 5_000, waited: 4_000, seen_inside: 4_000, ..Evidence::default() };
    after(|trial| {
        (trial.evidence, trial.measured) = (evidence, Counts::default());
        trial.measured.outcomes.add(Outcome::Acquired, acquired);
    })
}

fn asking_for(evidence: &str, by_transactions: u64) -> Trial {
    after(|trial| {
        *trial = measured(900, Evidence { by_transactions, ..many() });
        trial.spec.evidence = evidence.parse().unwrap();
    })
}

fn ordered(order: EnsembleOrder) -> Trial {
    let first = Some("the first".to_owned());
    after(|trial| trial.ensemble_order = Some(EnsembleOrder { checked: 9, first, ..order }))
}

fn blocked(stranger: bool) -> Trial {
    let blocked_by = Some("/run/lock-0/n-0000000007 (session 0x7, contender 3)".to_owned());
    after(|trial| trial.stuck = vec![Stuck { blocked_by, stranger, ..stuck(1, None) }])
}

fn counted(servers: Option<u64>) -> Trial {
    let line = Accounting { what: Counted::Writes, client: Some(542), expected: None, servers };
    after(|trial| trial.accounting = vec![line])
}

fn cut_short(cause: Cause, why: &str) -> Option<CutShort> {
    Some(CutShort { cause, why: why.into() })
}

fn lose(trial: &mut Trial) {
    trial.whole.lost_while_held = 2;
}

#[test]
fn trial_verdicts_match_the_snapshot() {
    let interfered = || "session 0x1 deleted /a".to_owned();
    let violated = |change: fn(&mut Trial)| {
        let mut trial = records::trial_with_a_violation(0);
        change(&mut trial);
        judge(&mut trial);
        trial
    };
    let unchecked = || vec!["12 of 900 acquisitions were not compared with the servers' logs".to_owned()];
    let unordered = EnsembleOrder::default;
    let after_fault = |change: fn(&mut Trial)| {
        after(|trial| {
            trial.faults = vec![fault(true, "seen", None)];
            change(trial);
        })
    };
    let too_few = cut_short(Cause::TooFewSessions, "only 30 of 50 contenders took part");
    let wrong_holds = vec!["540 holds were shorter than requested".to_owned()];
    let by_transactions = Evidence { by_transactions: 5, ..many() };
    let trials = [
        ("contenders waited for each other", after(|_| {})),
        ("stuck behind a contender, without faults", blocked(false)),
        ("stuck behind a stranger, without faults", blocked(true)),
        ("stuck after a fault", after_fault(|trial| trial.stuck = vec![stuck(7, None), stuck(1, None)])),
        ("cut short", after(|trial| trial.cut_short = records::interrupted())),
        ("only some contenders took part", after(|trial| trial.cut_short = too_few)),
        ("holds were lost", after(lose)),
        ("holds were lost in a trial with a fault", after_fault(lose)),
        ("holders gave up their nodes before they left", after(|trial| trial.evidence.given_up_early = 3)),
        ("a single contender", after(|trial| trial.spec.contenders = 1)),
        ("holds of the wrong length", after(|trial| trial.wrong_holds = wrong_holds)),
        ("interference", after(|trial| trial.interference.push(interfered()))),
        ("a violation and interference", violated(|trial| trial.interference.push("session 0x1".into()))),
        ("a violation in a partial trial", violated(|trial| trial.cut_short = records::interrupted())),
        ("a violation without its holders", violated(|trial| trial.violations.clear())),
        ("too early by the servers' clock", ordered(EnsembleOrder { overlaps: 2, ..unordered() })),
        ("too early by transactions", ordered(EnsembleOrder { too_early: 1, ..unordered() })),
        ("not too early", ordered(unordered())),
        ("not compared", after(|trial| trial.unchecked = unchecked())),
        (
            "partly compared",
            after(|trial| {
                trial.unchecked = unchecked();
                trial.ensemble_order = Some(EnsembleOrder { checked: 888, ..unordered() });
            }),
        ),
        (
            "every doubt about a fault",
            after(|trial| {
                trial.faults =
                    vec![fault(false, "it came back too soon", None), fault(true, "seen", Some("gone"))];
                trial.excused.uncertain = 1;
                trial.ensemble_order = Some(EnsembleOrder { forgotten: 4, ..unordered() });
            }),
        ),
        ("the servers counted more", counted(Some(544))),
        ("the servers counted the same number", counted(Some(542))),
        ("no server counted", counted(None)),
        ("no contender waited", after(|trial| trial.evidence = Evidence { waited: 0, ..many() })),
        ("two contenders", after(|trial| trial.spec.contenders = 2)),
        ("checked by transactions", after(|trial| trial.evidence = by_transactions)),
        ("checked by the clock", after(|trial| trial.evidence = Evidence { by_clock: 5, ..many() })),
        ("nothing acquired", warm_up_only(0)),
        ("only failed tries in the measured phase", only_failed_tries()),
    ];
    let mut said: String = trials.iter().map(|(name, trial)| described(name, &trial.judged)).collect();
    let numbers =
        [(0, 900), (4, 900), (5, 900), (1, 2), (1, 3), (2, 3), (2, 4), (3, 7), (4, 6), (4, 1_000_000)];
    for (seen, acquired) in numbers {
        said += &described(&format!("{seen} of {acquired} checked"), &checked(seen, acquired).judged);
    }
    for entries in [3, 7, 11, 5_000] {
        said += &described(&format!("{entries} in the warm-up only"), &warm_up_only(entries).judged);
    }
    for acquired in [4, 5] {
        said += &described(&format!("{acquired} after a warm-up of 5,000"), &after_warm_up(acquired).judged);
    }
    for (asked, checked) in [("0.95@1%", 299), ("0.95@1%", 300), ("0.99@1%", 460), ("0.99@1%", 461)] {
        said += &described(&format!("{asked} and {checked} checked"), &asking_for(asked, checked).judged);
    }
    insta::assert_snapshot!("trials", said);
}

#[test]
fn progress_under_faults_is_unknown_if_the_trial_was_cut_short() {
    let progress = |cut_short| {
        let trial = after(|trial| {
            trial.faults = vec![fault(true, "seen", None)];
            trial.cut_short = cut_short;
        });
        trial.judged.progress.unwrap().word()
    };
    assert_eq!([None, records::interrupted()].map(progress), ["held", "unknown"]);
}

#[test]
fn outage_is_attributed_to_a_second_node_only_for_locks_without_a_sync() {
    let is_described = |lock: &str, unanswered: u64, stuck: Vec<Stuck>| {
        let mut trial = records::trial(0);
        trial.whole.requests = trial.whole.succeeded;
        trial.whole.requests.add(RequestKind::Create, unanswered);
        trial.stuck = stuck;
        standing_still(&zklockbench_locks::find(lock).unwrap().card, &trial).is_some()
    };
    let behind_itself = || vec![stuck(3, Some(3)), stuck(1, Some(3))];
    assert!(is_described("kazoo", 1, behind_itself()));
    assert!(!is_described("kazoo", 0, behind_itself()), "every create was answered");
    assert!(!is_described("ahead", 1, behind_itself()), "this lock requests a sync");
    let behind_another = vec![stuck(3, Some(3)), stuck(1, Some(2))];
    assert!(!is_described("kazoo", 1, behind_another), "behind another contender's node");
    assert!(!is_described("kazoo", 1, vec![stuck(3, None)]), "not behind a contender's node");
    // The stuck contender waits inside its process, and a leftover node blocks the queue.
    let left = "/run/lock-0/_c_1-lock-0000000075 (session 0x1)";
    let beside = |node: &str| {
        let first = Stuck { node: Some("_c_1-lock-0000000075".into()), ..stuck(3, None) };
        let behind = Stuck { blocked_by: Some(format!("{node}, contender 3")), ..stuck(1, Some(3)) };
        let mut trial = records::trial(0);
        trial.whole.requests = trial.whole.succeeded;
        trial.whole.requests.add(RequestKind::Create, 1);
        (trial.stuck, trial.orphan_nodes) = (vec![first, behind], vec![left.to_owned()]);
        standing_still(&zklockbench_locks::find("local-then-remote").unwrap().card, &trial).is_some()
    };
    assert!(beside(left) && !beside("/run/lock-0/_c_2-lock-0000000074 (session 0x2)"));
    // There are leftover nodes, but no contender is stuck.
    assert!(is_described("curator-mutex", 1, Vec::new()) && !is_described("baton", 1, Vec::new()));
}

#[test]
fn findings_that_only_the_history_shows_decide_the_verdict_on_a_run() {
    let handoff = "10-11 a/1 acquire ok token=1 zxid=1
        12 a/2 acquire invoke
        20-21 a/1 release ok deleted_zxid=9
        22 a/2 acquire ok token=2 zxid=ZXID
        23-24 a/2 release ok";
    let zombie = "10-11 a/1 acquire ok
        12 a/1 session suspended
        13-14 a/2 acquire ok
        15-16 a/2 release ok
        17-18 a/1 release fail";
    let stale = "10 a/1 write ok token=9 accepted=true\n11 a/2 write ok token=5 accepted=true";
    let uncertain = "10-11 a/1 acquire unknown\n12-13 a/2 acquire ok\n14-15 a/2 release ok";
    let cases = [
        ("none", &*handoff.replace("ZXID", "9"), ["held", "held"]),
        ("overlap", "10-11 a/1 acquire ok\n12-13 a/2 acquire ok", ["violated"; 2]),
        ("too early", &handoff.replace("ZXID", "3"), ["violated"; 2]),
        ("stale write", stale, ["violated"; 2]),
        ("stuck", "10 a/1 acquire invoke", ["unknown"; 2]),
        ("zombie", zombie, ["held", "violated"]),
        ("uncertain", uncertain, ["unknown"; 2]),
    ];
    for (name, story, expected) in cases {
        let judgement = judged(&format!("mutex complete\n{story}"));
        for (strict, expected) in [false, true].into_iter().zip(expected) {
            let all = differences(&records::trial(0), &judgement, strict);
            assert_eq!(all.is_empty(), name == "none", "{name}: {all:?}");
            let verdict = all.into_iter().map(|one| one.verdict).fold(Verdict::Held, Verdict::and);
            assert_eq!(verdict.word(), expected, "{name}, strict: {strict}");
        }
        let mut trial = records::trial(0);
        trial.interference.push("session 0x1 deleted /a".to_owned());
        let reasons = Verdict::Unknown(vec!["interference: session 0x1 deleted /a".to_owned()]);
        for one in differences(&trial, &judgement, true) {
            assert_eq!(one.verdict, reasons, "{name} after interference");
        }
    }
}

#[test]
fn verdict_on_a_history_is_unknown_after_interference() {
    let violated = "mutex complete\n10-11 a/1 acquire ok\n12-13 a/2 acquire ok";
    let with = |interference: &str| {
        let text = story::lines(violated).replacen("\"locks\"", &format!("{interference}\"locks\""), 1);
        story::check_text(text.as_bytes()).unwrap().verdict
    };
    assert_eq!(with("").word(), "violated");
    let reasons = vec!["interference: session 0x1 deleted /a".to_owned()];
    assert_eq!(with("\"interference\":[\"session 0x1 deleted /a\"],"), Verdict::Unknown(reasons));
    let trial = after(|trial| trial.interference.push("session 0x1 deleted /a".to_owned()));
    assert_eq!(facts(1).header(&trial).interference, trial.interference);
}

/// Two contenders, each with one lease of a semaphore with `leases` leases. The second contender entered while the
/// first contender's node existed.
fn facts(leases: u32) -> Facts {
    let claim = LockClaim::WRITE;
    let did = |contender, at, deed| Moment { at, contender, lock: 0, session: None, deed };
    let enters = |node| Deed::Enters { claim, token: Some(node), zxid: Some(node) };
    let life = |zxid, ms| Life { deleted: Some(zxid), deleted_at_ms: Some(ms), ..Life::default() };
    let first = [did(0, 0, ASKS), did(0, 10_000, enters(1)), did(1, 20_000, ASKS)];
    let then = [did(0, 30_000, LEAVES), did(0, 31_000, LEFT), did(1, 40_000, enters(2))];
    let facts = Facts::without_moments(LockKind::Semaphore(leases)).with_moments([first, then].concat());
    Facts { lives: [(1, life(9, 90)), (2, life(8, 80))].into(), ..facts }
}

#[test]
fn trial_facts_are_judged_once_and_then_dropped() {
    let mut trial = Trial { facts: Some(facts(1)), ..records::trial(0) };
    judge(&mut trial);
    let order = trial.ensemble_order.clone().unwrap();
    assert_eq!((order.checked, order.overlaps, order.checked_by_zxid, order.too_early), (2, 1, 1, 1));
    assert_eq!((trial.violation_count, trial.evidence.entries, trial.evidence.waited), (0, 2, 1));
    assert!(trial.facts.is_none(), "{:?}", trial.judged);
    assert!(matches!(trial.judged.verdict, Verdict::Violated(_)), "{:?}", trial.judged);
    assert_eq!(trial.evidence.by_clock, 1, "excluded during its entire hold of 20 ms");
    // A second judgement reuses the results of the first.
    let again = after(|again| again.ensemble_order = trial.ensemble_order.clone());
    assert_eq!(again.judged.verdict, trial.judged.verdict);
    // With two leases, both holders may be inside.
    let mut trial = Trial { facts: Some(facts(2)), ..records::trial(0) };
    judge(&mut trial);
    assert_eq!((trial.judged.order, trial.violation_count), (Some(Verdict::Held), 0));
}

#[test]
fn run_reports_its_trial_with_the_least_evidence() {
    let mut trials = [records::trial(0), records::trial(1)];
    trials[1].evidence.seen_inside = 2;
    for trial in &mut trials {
        trial.judged = records::held();
    }
    let told = "trial 1 (predecessor-watch (ttl = \"1s\", a=b), 3 contenders): 2 of 6 acquisitions checked; a lock \
                that errs in every acquisition would have been caught with probability 0.86";
    assert_eq!(least_evidence(&trials).as_deref(), Some(told));
    trials[1].judged = records::judged(Verdict::Unknown(vec![]));
    assert!(least_evidence(&trials).unwrap().starts_with("trial 0"));
    assert_eq!(least_evidence(&[]), None);
}

fn alone(index: usize) -> Trial {
    let mut trial = records::trial(index);
    trial.spec.contenders = 1;
    trial.judged = records::judged(Verdict::Unknown(vec!["alone".into()]));
    trial
}

#[test]
fn run_verdicts_match_the_snapshot() {
    let again =
        |trial: Trial, of: usize| Trial { spec: TrialSpec { makes_up_for: Some(of), ..trial.spec }, ..trial };
    let invalid = |mut trial: Trial| {
        trial.health.invalid = Some("the generator was too slow".into());
        trial
    };
    let (exclusion, order) = (Verdict::Held, Some(Verdict::Violated(vec!["too early".into()])));
    let early = Trial {
        judged: Judged::from(Parts { order, exclusion, progress: None, accounting: None, figures: None }),
        ..records::trial(1)
    };
    let trial = records::trial;
    let violated = records::trial_with_a_violation;
    let runs = [
        ("one trial with contention", vec![alone(0), trial(1)], 2),
        ("a violation between others", vec![trial(0), violated(1), alone(2)], 3),
        ("no trial with contention", vec![alone(0)], 1),
        ("no trial", vec![], 0),
        ("two of three did not run", vec![trial(0)], 3),
        ("an invalid trial", vec![invalid(trial(0)), trial(1)], 2),
        ("an invalid trial and its rerun", vec![invalid(trial(0)), trial(1), again(trial(2), 0)], 2),
        ("an invalid rerun", vec![invalid(trial(0)), trial(1), again(invalid(trial(2)), 0)], 2),
        ("a missing rerun", vec![invalid(trial(0)), trial(1)], 3),
        ("a violation in an invalid trial", vec![invalid(violated(0)), trial(1), again(trial(2), 0)], 2),
        ("one violated part", vec![trial(0), early], 2),
    ];
    let said = runs.iter().map(|(name, trials, planned)| described(name, &of_run(trials, *planned)));
    insta::assert_snapshot!("runs", said.collect::<String>());
}

/// Moments of the contenders of a mutex: contender, time and action.
fn moments(of: &[(usize, u64, Deed)]) -> Vec<Moment> {
    let moment = |(contender, at, deed): &(usize, u64, Deed)| Moment {
        at: *at,
        contender: *contender,
        lock: 0,
        session: Some(*contender as i64 + 1),
        deed: *deed,
    };
    of.iter().map(moment).collect()
}

const ASKS: Deed = Deed::Asks(LockClaim::WRITE);
const ENTERS: Deed = Deed::Enters { claim: LockClaim::WRITE, token: None, zxid: None };
const LEAVES: Deed = Deed::Leaves { alone: false };
const LEFT: Deed = Deed::HasLeft { deleted: None, there: None };

#[test]
fn zombie_is_not_a_violation_if_the_end_of_its_session_may_be_missing() {
    let judged = |of_the_zombie: &[(usize, u64, Deed)], complete_until| {
        let enter = [(0, 1_000, ASKS), (1, 5_000, ASKS), (0, 10_000, ENTERS), (1, 20_000, ENTERS)];
        let all = moments(&[&enter[..], &[(1, 25_000, LEAVES), (1, 26_000, LEFT)], of_the_zombie].concat());
        let facts = Facts { complete_until, ..Facts::without_moments(LockKind::Mutex).with_moments(all) };
        let trial = after(|trial| trial.facts = Some(facts));
        (trial.violation_count, trial.excused.zombies, trial.excused.uncertain)
    };
    let expired = (0, 41_000, Deed::Session(SessionState::Expired));
    let leaves = [(0, 40_000, LEAVES), expired, (0, 42_000, LEFT)];
    let could_not_leave = [(0, 12_000, LEAVES), (0, 13_000, Deed::CouldNotLeave), expired];
    for of_the_zombie in [leaves, could_not_leave] {
        let found = [None, Some(30_000)].map(|until| judged(&of_the_zombie, until));
        assert_eq!(found, [(0, 1, 0), (0, 0, 1)], "{of_the_zombie:?}");
    }
}

#[test]
fn contender_is_not_stuck_if_its_acquisition_may_be_missing() {
    let mut all = vec![(0, 100_000, ASKS), (0, 2_000_000, ENTERS)];
    for at in (200_000..1_900_000).step_by(40_000) {
        let turn = [(0, ASKS), (10_000, ENTERS), (20_000, LEAVES), (21_000, LEFT)];
        all.extend(turn.map(|(after, deed)| (1, at + after, deed)));
    }
    let facts = Facts::without_moments(LockKind::Mutex).with_moments(moments(&all));
    let facts = Facts { complete_until: Some(1_900_000), ..facts };
    let trial = Trial { history: Some(facts), ..records::trial(0) };
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("history.jsonl");
    write_trial(&path, &trial).unwrap();
    let judgement = story::check(&path, false).unwrap();
    let lock = story::lock(&judgement);
    assert_eq!((lock.stuck, judgement.verdict.word()), (0, "unknown"), "{judgement:?}");
}
