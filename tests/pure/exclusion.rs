//! What is said of a trial and of a run: whether contenders excluded each other, and when that is not known.

use zklockbench_judge::{judge, least_evidence, of_run, standing_still};

use zklockbench_core::measure::{Counts, Outcome, RequestKind};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::history::LockKind;
use zklockbench_record::{
    Accounting, Cause, Counted, CutShort, Deed, EnsembleOrder, Evidence, Facts, FaultRecord, Judged, Life,
    LockClaim, Moment, Parts, Stuck, Trial,
};
use zklockbench_scenario::TrialSpec;

use crate::support::{records, views};

const NAME: &str = "trial 0 (predecessor-watch (ttl = \"1s\", a=b), 3 contenders)";

/// The verdict on the sound trial after something was changed in it.
fn after(change: impl FnOnce(&mut Trial)) -> Verdict {
    let mut trial = records::trial(0);
    change(&mut trial);
    judge(&mut trial);
    trial.judged.verdict
}

fn judge_copy(trial: &Trial) -> Judged {
    let mut trial = trial.clone();
    judge(&mut trial);
    trial.judged
}

fn with(evidence: Evidence) -> Verdict {
    after(|trial| trial.evidence = evidence)
}

fn violated(why: &str) -> Verdict {
    Verdict::Violated(vec![why.to_owned()])
}

fn unknown(why: &str) -> Verdict {
    Verdict::Unknown(vec![why.to_owned()])
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

#[test]
fn a_stuck_lock_is_violated_without_faults_unless_a_stranger_blocks_it() {
    let blocked = |stranger| {
        let blocked_by = Some("/run/lock-0/n-0000000007 (session 0x7, contender 3)".to_owned());
        after(|trial| trial.stuck = vec![Stuck { blocked_by, stranger, ..stuck(1, None) }])
    };
    let why = "1 contender is stuck although no fault was asked for; the first is contender 1; blocked by \
               /run/lock-0/n-0000000007 (session 0x7, contender 3)";
    assert_eq!((blocked(false), blocked(true)), (violated(why), unknown(why)));
}

#[test]
fn holds_of_the_wrong_length_leave_the_verdict_unknown() {
    let why = "540 holds were shorter than asked for, by up to 3.5 ms";
    assert_eq!(after(|trial| trial.wrong_holds = vec![why.to_owned()]), unknown(why));
}

/// That somebody lost holds with its session.
fn lose(trial: &mut Trial) {
    trial.whole.lost_while_held = 2;
}

/// What may become of a sound trial, and the verdict on it then.
#[test]
fn each_single_change_of_a_valid_trial_gives_its_verdict() {
    type Change = fn(&mut Trial);
    let few = "only 30 of 50 contenders took part: the others got no session";
    let cases: [(&str, Change, Verdict); 8] = [
        ("contenders waited for each other, and nothing happened", |_| {}, Verdict::Held),
        (
            "some never got the lock",
            |trial| {
                trial.stuck = vec![stuck(7, None), stuck(1, None)];
                trial.faults = vec![fault(true, "seen", None)];
            },
            violated("2 contenders are stuck although all faults are over; the first is contender 7"),
        ),
        (
            "it was cut short",
            |trial| trial.cut_short = records::interrupted(),
            unknown("partial: interrupted"),
        ),
        (
            "only some contenders took part",
            |trial| {
                let why = "only 30 of 50 contenders took part: the others got no session".into();
                trial.cut_short = Some(CutShort { cause: Cause::TooFewSessions, why });
            },
            unknown(&format!("partial: {few}")),
        ),
        ("holds were lost", lose, unknown("2 holds were lost with their session")),
        (
            "where sessions are broken on purpose",
            |trial| {
                lose(trial);
                trial.faults = vec![fault(true, "seen", None)];
            },
            Verdict::Held,
        ),
        (
            "holders gave up their nodes before they left",
            |trial| trial.evidence.given_up_early = 3,
            violated("3 holders had given up their own node before the release"),
        ),
        (
            "a single contender",
            |trial| trial.spec.contenders = 1,
            unknown("a single contender has no other contender to exclude"),
        ),
    ];
    for (name, change, expected) in cases {
        assert_eq!(after(change), expected, "{name}");
    }
}

#[test]
fn interference_by_another_client_leaves_the_verdict_unknown() {
    let interfered = "session 0x1 deleted /a".to_owned();
    for mut trial in [records::trial_with_a_violation(0), records::trial(0)] {
        trial.interference.push(interfered.clone());
        assert_eq!(judge_copy(&trial).verdict, unknown(&format!("interference: {interfered}")));
    }
}

#[test]
fn a_violation_is_reported_with_both_holders_and_outweighs_every_doubt() {
    let mut trial = records::trial_with_a_violation(0);
    trial.cut_short = records::interrupted();
    let told = "3 violations; the first: contender 2 (no node, in since 7 µs) entered lock 0 while contender 0 \
                (node 4, in since -5 µs) was inside";
    assert_eq!(judge_copy(&trial).verdict, violated(told));
    trial.violations.clear();
    assert_eq!(judge_copy(&trial).verdict, violated("3 violations"));
}

#[test]
fn an_acquisition_too_early_by_zxid_or_server_clock_is_a_violation() {
    let by = |overlaps, too_early| {
        let first = Some("the first".to_owned());
        after(|trial| {
            trial.ensemble_order =
                Some(EnsembleOrder { overlaps, too_early, first, checked: 9, ..EnsembleOrder::default() });
        })
    };
    let told = |clock, zxids| {
        violated(&format!(
            "entered too early: {clock} by the servers' clock, {zxids} by their transactions; the first"
        ))
    };
    assert_eq!(by(2, 0), told(2, 0));
    assert_eq!(by(0, 1), told(0, 1));
    assert_eq!(by(0, 0), Verdict::Held);
}

fn stuck(contender: usize, blocker: Option<usize>) -> Stuck {
    Stuck { blocker, ..views::stuck(contender) }
}

#[test]
fn an_outage_is_explained_only_by_a_second_node_of_a_lock_that_reads_without_a_sync() {
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
    assert!(!is_described("ahead", 1, behind_itself()), "this lock asks for a sync");
    assert!(
        !is_described("kazoo", 1, vec![stuck(3, Some(3)), stuck(1, Some(2))]),
        "behind somebody else's node"
    );
    assert!(!is_described("kazoo", 1, vec![stuck(3, None)]), "behind nobody's node");
    // Nodes that are left, and nobody waits
    assert!(is_described("curator-mutex", 1, Vec::new()) && !is_described("baton", 1, Vec::new()));
}

/// Two holders of one of a semaphore's leases each, the second of whom entered while the node of the first was there.
fn facts(leases: u32) -> Facts {
    let claim = LockClaim::WRITE;
    let did = |contender, at, deed| Moment { at, contender, lock: 0, session: None, deed };
    let enters = |node| Deed::Enters { claim, token: Some(node), zxid: Some(node) };
    let life = |deleted, deleted_at_ms| Life {
        deleted: Some(deleted),
        deleted_at_ms: Some(deleted_at_ms),
        ..Life::default()
    };
    let moments = vec![
        did(0, 0, Deed::Asks(claim)),
        did(0, 10_000, enters(1)),
        did(1, 20_000, Deed::Asks(claim)),
        did(0, 30_000, Deed::Leaves { alone: false }),
        did(0, 31_000, Deed::HasLeft { deleted: None, there: None }),
        did(1, 40_000, enters(2)),
    ];
    let facts = Facts::without_moments(LockKind::Semaphore(leases)).with_moments(moments);
    Facts { lives: [(1, life(9, 90)), (2, life(8, 80))].into(), ..facts }
}

#[test]
fn a_missing_comparison_leaves_the_verdict_unknown() {
    let why = "12 of 900 entries were not compared with the servers' logs".to_owned();
    let unchecked = |trial: &mut Trial| trial.unchecked = vec![why.clone()];
    let Verdict::Unknown(reasons) = after(unchecked) else { panic!("an omission is no evidence") };
    assert_eq!(reasons, std::slice::from_ref(&why));
    // With the rest compared and found right, too
    let compared = |trial: &mut Trial| {
        unchecked(trial);
        trial.ensemble_order = Some(EnsembleOrder { checked: 888, ..EnsembleOrder::default() });
    };
    assert_eq!(after(compared), Verdict::Unknown(vec![why.clone()]));
}

#[test]
fn the_facts_of_a_trial_are_judged_once_and_dropped() {
    let mut trial = Trial { facts: Some(facts(1)), ..records::trial(0) };
    judge(&mut trial);
    let order = trial.ensemble_order.clone().unwrap();
    assert_eq!((order.checked, order.overlaps, order.checked_by_zxid, order.too_early), (2, 1, 1, 1));
    assert_eq!((trial.violation_count, trial.evidence.entries, trial.evidence.waited), (0, 2, 1));
    assert!(
        trial.facts.is_none() && matches!(trial.judged.verdict, Verdict::Violated(_)),
        "{:?}",
        trial.judged
    );
    assert_eq!(trial.evidence.by_clock, 1, "kept out for all of its 20 ms");
    // What was made of them is judged again as it stands
    let again = after(|again| again.ensemble_order = trial.ensemble_order.clone());
    assert_eq!(again, trial.judged.verdict);
    // And two leases are enough for two
    let mut trial = Trial { facts: Some(facts(2)), ..records::trial(0) };
    judge(&mut trial);
    assert_eq!((trial.judged.order, trial.violation_count), (Some(Verdict::Held), 0));
}

#[test]
fn without_contention_the_verdict_is_unknown() {
    let unmet = unknown(
        "too little evidence: no contender was seen waiting in 6 acquisitions; use a longer hold, more \
         contenders (more than a semaphore has leases, or with writers among the readers) or servers started \
         for the run",
    );
    assert_eq!(with(Evidence { entries: 900, ..Evidence::default() }), unmet);
    let two = after(|trial| trial.spec.contenders = 2);
    assert_eq!(two, Verdict::Held);
}

#[test]
fn unchecked_acquisitions_are_no_evidence() {
    let only = |checked: u64| {
        unknown(&format!(
            "too little evidence: {checked} of 900 acquisitions checked ({checked} by seeing two inside, 0 by the \
             ensemble's transactions, 0 by its clock), 0.99@100% needs 5; use a longer hold, a longer trial or servers \
             started for the run"
        ))
    };
    let seen = |seen_inside| {
        let evidence = Evidence { entries: 900, waited: 800, seen_inside, ..Evidence::default() };
        after(|trial| *trial = measured(900, evidence))
    };
    assert_eq!((seen(0), seen(4)), (only(0), only(4)));
    assert_eq!(seen(5), Verdict::Held);
}

#[test]
fn each_kind_of_check_is_enough_by_itself() {
    let many = Evidence { entries: 900, waited: 800, ..Evidence::default() };
    assert_eq!(with(Evidence { by_transactions: 5, ..many }), Verdict::Held);
    assert_eq!(with(Evidence { by_clock: 5, ..many }), Verdict::Held);
}

/// A sound trial with so many acquisitions in the measured phase.
fn measured(acquisitions: u64, evidence: Evidence) -> Trial {
    let mut trial = Trial { evidence, ..records::trial(0) };
    trial
        .measured
        .outcomes
        .add(Outcome::Acquired, acquisitions - trial.measured.acquired().min(acquisitions));
    if acquisitions == 0 {
        trial.measured = Counts::default();
    }
    trial
}

#[test]
fn few_checked_acquisitions_leave_the_verdict_unknown_whatever_their_share() {
    for (checked, acquired) in [(1, 2), (1, 3), (2, 3), (2, 4), (3, 7), (4, 6), (4, 1_000_000)] {
        let evidence =
            Evidence { entries: acquired, waited: acquired - 1, seen_inside: checked, ..Evidence::default() };
        let verdict = after(|trial| trial.evidence = evidence);
        assert!(matches!(verdict, Verdict::Unknown(_)), "{checked} of {acquired}: {verdict:?}");
    }
}

#[test]
fn a_trial_without_an_acquisition_in_the_measured_phase_is_unknown_whatever_the_warm_up_shows() {
    for entries in [3, 7, 11, 5_000] {
        let evidence = Evidence { entries, waited: entries, by_transactions: entries, ..Evidence::default() };
        let none =
            format!("no acquisition in the measured phase ({entries} before or after it); use a longer one");
        assert_eq!(after(|trial| *trial = measured(0, evidence)), unknown(&none));
    }
    let none = unknown("no acquisition in the measured phase; use a longer one");
    assert_eq!(after(|trial| *trial = measured(0, Evidence::default())), none);
}

#[test]
fn acquisitions_of_the_warm_up_are_no_evidence_for_the_measured_phase() {
    let warm_up = Evidence { entries: 5_000, waited: 4_000, seen_inside: 4_000, ..Evidence::default() };
    let mut trial = Trial { evidence: warm_up, ..records::trial(0) };
    trial.measured = Counts::default();
    trial.measured.outcomes.add(Outcome::Acquired, 4);
    assert_eq!(trial.checked(), 4);
    assert!(matches!(judge_copy(&trial).exclusion, Verdict::Unknown(_)));
    trial.measured.outcomes.add(Outcome::Acquired, 1);
    assert_eq!(judge_copy(&trial).exclusion, Verdict::Held);
}

#[test]
fn a_trial_is_unknown_when_more_evidence_is_asked_for_than_it_has() {
    let checked = |checked, asked: &str| {
        let evidence =
            Evidence { entries: 900, waited: 800, by_transactions: checked, ..Evidence::default() };
        let mut trial = measured(900, evidence);
        trial.spec.evidence = asked.parse().unwrap();
        judge_copy(&trial).exclusion
    };
    assert_eq!(checked(300, "0.95@1%"), Verdict::Held);
    assert_eq!(checked(461, "0.99@1%"), Verdict::Held);
    for (few, asked) in [(299, "0.95@1%"), (460, "0.99@1%")] {
        assert!(matches!(checked(few, asked), Verdict::Unknown(_)), "{few}, {asked}");
    }
}

#[test]
fn a_run_reports_its_trial_with_the_least_evidence() {
    let mut trials = [records::trial(0), records::trial(1)];
    trials[1].evidence.seen_inside = 2;
    for trial in &mut trials {
        trial.judged = records::held();
    }
    let told = "trial 1 (predecessor-watch (ttl = \"1s\", a=b), 3 contenders): 2 of 6 acquisitions checked; a lock \
                that errs at every acquisition would have been caught with probability 0.86";
    assert_eq!(least_evidence(&trials).as_deref(), Some(told));
    trials[1].judged = records::judged(Verdict::Unknown(vec![]));
    assert!(least_evidence(&trials).unwrap().starts_with("trial 0"));
    assert_eq!(least_evidence(&[]), None);
}

#[test]
fn every_doubt_about_a_fault_is_reported() {
    let verdict = after(|trial| {
        trial.faults = vec![fault(false, "it came back too soon", None), fault(true, "seen", Some("gone"))];
        trial.excused.uncertain = 1;
        trial.ensemble_order = Some(EnsembleOrder { forgotten: 4, ..EnsembleOrder::default() });
    });
    let lost = "the ensemble lost acknowledged writes: 4 nodes of holders are gone without any server's log \
                saying so (ZOOKEEPER-4643 is one possible cause)";
    let expected = [
        "fault 2 (kill leader): it came back too soon",
        "fault 2 (kill leader) was not undone: gone",
        "1 overlap is uncertain",
        lost,
    ];
    assert_eq!(verdict, Verdict::Unknown(expected.map(str::to_owned).into()));
}

fn alone(index: usize) -> Trial {
    let mut trial = records::trial(index);
    trial.spec.contenders = 1;
    trial.judged = records::judged(Verdict::Unknown(vec!["alone".into()]));
    trial
}

#[test]
fn a_run_is_judged_by_its_trials_with_contention() {
    let verdict = |trials: &[Trial], planned| of_run(trials, planned).verdict;
    assert_eq!(verdict(&[alone(0), records::trial(1)], 2), Verdict::Held);
    let broken = records::trial_with_a_violation(1);
    let violated = verdict(&[records::trial(0), broken, alone(2)], 3);
    assert_eq!(
        violated,
        Verdict::Violated(vec![format!("{}: 3 violations", NAME.replace("trial 0", "trial 1"))])
    );
    let nothing = Verdict::Unknown(vec!["no trial had two contenders, so exclusion was never tested".into()]);
    assert_eq!(verdict(&[alone(0)], 1), nothing);
    assert_eq!(verdict(&[], 0), nothing);
}

#[test]
fn a_run_with_trials_missing_or_invalid_is_unknown() {
    let told = Verdict::Unknown(vec!["2 of 3 trials did not run".into()]);
    assert_eq!(of_run(&[records::trial(0)], 3).verdict, told);
    let mut invalid = records::trial(0);
    invalid.health.invalid = Some("the generator was too slow".into());
    let told = Verdict::Unknown(vec![format!("{NAME}: invalid: the generator was too slow")]);
    let judged = of_run(&[invalid.clone(), records::trial(1)], 2);
    assert_eq!((&judged.verdict, judged.figures.as_ref()), (&told, Some(&told)));
    // But who was inside was seen all the same
    assert_eq!(judged.exclusion, Verdict::Held);
}

#[test]
fn a_rerun_invalid_trial_counts_only_if_violated() {
    let again =
        |trial: Trial, of: usize| Trial { spec: TrialSpec { makes_up_for: Some(of), ..trial.spec }, ..trial };
    let mut invalid = records::trial(0);
    invalid.health.invalid = Some("the generator was too slow".into());
    // Given one that another made up for
    let made_again = [invalid.clone(), records::trial(1), again(records::trial(2), 0)];
    // Then nothing is missing and nothing is in doubt
    assert_eq!(of_run(&made_again, 2).verdict, Verdict::Held);
    // But where the other is invalid, too, or is missing, it counts
    let mut still = again(records::trial(2), 0);
    still.health.invalid = Some("again".into());
    assert!(matches!(of_run(&[invalid.clone(), records::trial(1), still], 2).verdict, Verdict::Unknown(_)));
    assert!(matches!(of_run(&[invalid, records::trial(1)], 3).verdict, Verdict::Unknown(_)));
    // And a violation is one, whatever became of the figures
    let mut violated = records::trial_with_a_violation(0);
    violated.health.invalid = Some("the generator was too slow".into());
    let judged = of_run(&[violated, records::trial(1), again(records::trial(2), 0)], 2);
    assert!(matches!(judged.verdict, Verdict::Violated(_)), "{judged:?}");
}

#[test]
fn each_part_has_its_verdict_and_one_sentence_explains_the_overall_verdict() {
    // Given a trial in which nobody was seen inside beside another, but the ensemble saw an entry too early
    let mut trial = records::trial(0);
    trial.ensemble_order =
        Some(EnsembleOrder { overlaps: 1, first: Some("it".into()), checked: 9, ..EnsembleOrder::default() });
    // When it is judged
    let judged = judge_copy(&trial);
    // Then exclusion is held, the order is violated, and the verdict is the worse of both
    let why = "entered too early: 1 by the servers' clock, 0 by their transactions; it";
    assert_eq!(judged.exclusion, Verdict::Held);
    assert_eq!(judged.order, Some(violated(why)));
    assert_eq!((judged.verdict, judged.why.as_deref()), (violated(why), Some(why)));
    // And nobody asked for progress, because nothing was broken
    assert_eq!(judged.progress, None);
}

#[test]
fn inconsistent_counts_are_doubtful_name_the_likely_cause_and_do_not_blame_the_lock() {
    let line = |servers| Accounting { what: Counted::Writes, client: Some(542), expected: None, servers };
    let mut trial = records::trial(0);
    trial.accounting = vec![line(Some(544))];
    let judged = judge_copy(&trial);
    let told = ["writes: client 542, servers 544", "the likely cause: 2 x create: connection loss"];
    assert_eq!(judged.accounting, Some(Verdict::Unknown(told.map(str::to_owned).into())));
    assert_eq!(judged.verdict, Verdict::Held);
    trial.accounting = vec![line(Some(542))];
    assert_eq!(judge_copy(&trial).accounting, Some(Verdict::Held));
    trial.accounting = vec![line(None)];
    assert_eq!(judge_copy(&trial).accounting, None, "nobody else counted");
}

#[test]
fn one_violated_part_makes_the_run_violated_and_names_the_trial() {
    let mut early = records::trial(1);
    early.judged = Judged::from(Parts {
        exclusion: Verdict::Held,
        progress: None,
        order: Some(Verdict::Violated(vec!["too early".into()])),
        accounting: None,
        figures: None,
    });
    let judged = of_run(&[records::trial(0), early], 2);
    let named = format!("{}: too early", NAME.replace("trial 0", "trial 1"));
    assert_eq!(judged.exclusion, Verdict::Held);
    assert_eq!(judged.why.as_deref(), Some(named.as_str()));
    assert_eq!(judged.verdict, Verdict::Violated(vec![named]));
}
