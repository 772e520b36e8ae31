//! Output of a plan, in the terminal and as a page.

use zklockbench_analysis::plan::{Answer, ByServers, PlanFile, Unverified, read};
use zklockbench_core::verdict::Verdict;
use zklockbench_report::{Style, html, page::of_plan};

use crate::support::plans::plan;

/// The page's article, with one element per line.
fn page(plan: &PlanFile) -> String {
    let page = html::page(&[of_plan(plan)], None);
    let (_, article) = page.split_once("<article").unwrap();
    let (article, _) = article.split_once("</article>").unwrap();
    article.replace("><", ">\n<")
}

#[test]
fn terminal_shows_a_plan_as_text_and_tables() {
    insta::assert_snapshot!(zklockbench_report::plan(&plan(), Style::EVERYTHING));
}

#[test]
fn page_of_a_plan_starts_with_the_answer_and_charts_waits_by_rate() {
    insta::assert_snapshot!(page(&plan()));
}

#[test]
fn the_page_of_an_older_plan_explains_the_missing_chart() {
    // Given a file without the newer fields
    let mut older = serde_json::to_value(plan()).unwrap();
    older["question"].as_object_mut().unwrap().remove("round_trip_us");
    for answer in older["answers"].as_array_mut().unwrap() {
        answer.as_object_mut().unwrap().remove("curve");
    }
    older["recommendation"] =
        serde_json::json!({ "strategy": "predecessor-watch", "why": "it has the most headroom" });
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.json"), older.to_string()).unwrap();
    // When the plan's page is rendered
    let page = page(&read(dir.path()).unwrap());
    // Then the page explains the missing chart, and is otherwise complete
    let expected = "no chart, because the version that created this plan stored no predictions";
    assert!(page.contains(expected), "{page}");
    assert!(page.contains("predecessor-watch") && !page.contains("role=\"img\""));
    // And the error for an invalid file contains the file's name
    std::fs::write(dir.path().join("plan.json"), "{}").unwrap();
    let told = read(dir.path()).unwrap_err().to_string();
    assert!(told.contains("plan.json: missing field `schema_version`"), "{told}");
}

#[test]
fn verdict_of_a_plan_equals_the_verdict_of_its_verification() {
    let held = plan();
    let mut broken = held.clone();
    broken.verifications[0].verdict = Some(Verdict::Violated(vec!["wait.p99 was 600 ms".into()]));
    let mut none = held.clone();
    (none.recommendation, none.verifications) = (None, Vec::new());
    let word = |plan: &PlanFile| plan.verdict().word();
    assert_eq!([word(&held), word(&broken), word(&none)], ["held", "violated", "unknown"]);
    // Older plans stored only `held`, without a verdict.
    (broken.verifications[0].verdict, broken.verifications[0].held) = (None, false);
    assert_eq!(word(&broken), "violated");
}

#[test]
fn plan_verdict_is_unknown_when_its_verification_is_missing_or_inconclusive() {
    let mut late = plan();
    late.verifications[0].verdict =
        Some(Verdict::Unknown(vec!["the trial is invalid: the generator was late".into()]));
    let mut interrupted = plan();
    interrupted.verifications = Vec::new();
    interrupted.unverified =
        vec![Unverified { strategy: "predecessor-watch".into(), why: "interrupted".into() }];
    for (plan, why) in [(late, "the generator was late"), (interrupted, "interrupted")] {
        assert_eq!(plan.verdict().word(), "unknown");
        let told = zklockbench_report::plan(&plan, Style::EVERYTHING);
        assert!(
            told.starts_with("UNKNOWN: the verification does not confirm the recommendation: ")
                && told.contains(why),
            "{told}"
        );
        assert!(page(&plan).contains("? unknown") && page(&plan).contains(why));
    }
}

#[test]
fn advice_depends_on_what_limits_the_load() {
    let headline = |change: fn(&mut Answer)| {
        let mut plan = plan();
        (plan.recommendation, plan.verifications, plan.question.clients) = (None, Vec::new(), 1);
        for answer in &mut plan.answers {
            (answer.verdict, answer.locks_needed) = (Verdict::violated("too slow"), None);
            change(answer);
        }
        zklockbench_report::plan_headline(&plan)
    };
    let says = "NO: no strategy meets wait.p99 < 500ms (too slow): ";
    assert_eq!(
        headline(|_| {}),
        format!("{says}hold for less time, request less often, or allow a longer wait.")
    );
    let with_few_clients = |answer: &mut Answer| {
        let prediction = answer.prediction.as_mut().unwrap();
        (prediction.pool_runs_out, prediction.utilisation.middle) = (1.0, 1.0);
    };
    assert!(headline(with_few_clients).starts_with(&format!("{says}use more clients, hold for")));
    let with_free_locks = |answer: &mut Answer| {
        let prediction = answer.prediction.as_mut().unwrap();
        (prediction.utilisation.middle, prediction.wait_p50.middle) = (0.01, 600_000.0);
    };
    let told = headline(with_free_locks);
    assert_eq!(told, format!("{says}even a free lock takes longer to acquire, so allow a longer wait."));
}

#[test]
fn plan_shows_its_comparison_of_server_counts_first() {
    let mut plan = plan();
    let row = |servers: usize| ByServers {
        write_us: Some(900 * servers as u64),
        ..ByServers::of(servers, &plan.answers[0], &plan.question.objective)
    };
    plan.by_servers = [1, 3, 5].map(row).into();
    let told = zklockbench_report::plan(&plan, Style::EVERYTHING);
    let (before, _) = told.split_once("sessions").unwrap();
    assert!(before.contains("a write") && before.contains("900 µs") && before.contains("4.5 ms"), "{told}");
    assert!(page(&plan).contains("leader killed"));
}

#[test]
fn a_plan_marks_metrics_with_unfinished_waits_as_lower_bounds() {
    let mut plan = plan();
    plan.verifications[0].figures[0].at_least = true;
    let told = zklockbench_report::plan(&plan, Style::EVERYTHING);
    assert!(told.contains("≥ 140 ms"), "{told}");
    let page = page(&plan);
    assert!(page.contains(", ≥ 140 ms measured.") && page.contains("Rings (thin: lower bounds)"), "{page}");
}
