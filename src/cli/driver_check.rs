//! `driver check`: checks that a driver follows the protocol.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::DriverCheckArgs;
use super::run::open_ensemble::{Needs, examine};
use super::{drivers, output};

use crate::conformance::{self, CheckSite, Finding, Outcome};
use zklockbench_core::catalog::LockCard;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{as_a_word, counted, listed, one_line};
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::driver::protocol::Ready;
use zklockbench_record::RunEnding;
use zklockbench_report::picture::timeline_text;
use zklockbench_scenario::did_you_mean;
use zklockbench_zk::runtime;

const TAKES: &str = "about 20 s";

pub async fn execute(args: DriverCheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    if let Some(unknown) =
        args.only.iter().find(|only| !conformance::names().any(|name| name == only.as_str()))
    {
        let names: Vec<&str> = conformance::names().collect();
        return Err(Error::usage(format!(
            "there is no check `{unknown}`; available checks: {}",
            names.join(", ")
        )));
    }
    let command = drivers::named(&format!("{}={}", conformance::NAME, args.program)).map_err(Error::usage)?;
    let tried = command.clone();
    let ready = on_its_own_thread(stop, move || async move { conformance::introduce(&tried).await }).await?;
    let ready = ready.map_err(|why| Error::environment(format!("the driver {why}")))?;
    let locks = chosen(&ready, &args.locks)?;
    let needs = Needs::default();
    let checked =
        examine("driver-check", &args.place, &args.opening, stop, &needs, async |opened, progress, place| {
            let site = CheckSite {
                target: opened.target.clone(),
                place: place.to_owned(),
                contenders: usize::from(args.contenders),
            };
            progress.note(&format!("checking {}: {TAKES} for each lock", locks.join(", ")));
            let (ready, locks, only) = (ready.clone(), locks.clone(), args.only.clone());
            let findings = on_its_own_thread(stop, move || async move {
                let is_chosen = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
                let findings = conformance::check(&command, &ready, &locks, &site, &is_chosen).await;
                findings.map_err(|failure| {
                    Error::environment(format!("cannot open a session with the ensemble: {failure}"))
                })
            });
            findings.await?
        });
    let all = checked.await?;
    show(&ready, &locks, &all, &args)
}

fn chosen(ready: &Ready, asked: &[String]) -> Result<Vec<String>, Error> {
    let known = || ready.locks.keys().map(String::as_str);
    if let Some(unknown) = asked.iter().find(|asked| !known().any(|lock| lock == asked.as_str())) {
        let all = known().collect::<Vec<_>>().join(", ");
        let help = did_you_mean(unknown, known(), &format!("it has {all}"));
        return Err(Error::usage(format!("the driver has no lock `{unknown}`; {help}")));
    }
    let is_asked = |lock: &&str| asked.is_empty() || asked.iter().any(|asked| asked == lock);
    Ok(known().filter(is_asked).map(str::to_owned).collect())
}

/// Runs work on its own thread, with a runtime for sessions. An interrupt drops the work and its driver.
async fn on_its_own_thread<T: Send + 'static, F: Future<Output = T>>(
    stop: &CancellationToken,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, Error> {
    let stop = stop.clone();
    let task = tokio::task::spawn_blocking(move || {
        runtime::block_on(async { stop.run_until_cancelled(work()).await.ok_or(Error::Interrupted) })
    });
    task.await.map_err(|error| Error::environment(format!("the check failed: {error}")))?
}

fn show(ready: &Ready, locks: &[String], all: &[Finding], args: &DriverCheckArgs) -> Result<Exit, Error> {
    let headline = headline(ready, locks, all);
    let has = |outcome| all.iter().any(|finding| finding.outcome == outcome);
    let verdict = match (has(Outcome::Failed), has(Outcome::Unknown)) {
        (true, _) => Verdict::Violated(vec![headline.clone()]),
        (false, true) => Verdict::Unknown(vec![headline.clone()]),
        (false, false) => Verdict::Held,
    };
    let found = json!({ "driver": ready.driver, "inside": ready.inside,
                        "system": ready.system, "locks": locks, "headline": headline,
                        "checks": all });
    output::tell("driver check", RunEnding::Complete.exit(&verdict), &found, || {
        output::outcome(args.opening.quiet, &headline, || {
            let names = all.iter().map(|finding| name(finding).chars().count()).max().unwrap_or(0);
            let lines: String = all.iter().map(|finding| line(finding, names)).collect();
            format!("{headline}\n\n{lines}\n{}\n", next(ready, locks, &args.program))
        })
    })
}

fn next(ready: &Ready, locks: &[String], program: &str) -> String {
    const NOT_TRIED: &str = "These checks do not cover faults.";
    match locks.first() {
        Some(lock) if ready.system == LockCard::ZOOKEEPER => format!(
            "{NOT_TRIED} Next: zklockbench run faults/leader-killed --driver my={} --strategies my:{}",
            as_a_word(program),
            one_line(lock)
        ),
        _ => NOT_TRIED.to_owned(),
    }
}

/// Returns a headline, e.g. `curator 1.0: InterProcessMutex follows the protocol: 8 of 8 checks`.
fn headline(ready: &Ready, locks: &[String], all: &[Finding]) -> String {
    let count = |outcome| all.iter().filter(|finding| finding.outcome == outcome).count();
    let (failed, left_out, unknown) =
        (count(Outcome::Failed), count(Outcome::NotTried), count(Outcome::Unknown));
    let tried = all.len() - left_out - unknown;
    let names = listed(locks);
    let driver = one_line(&ready.driver);
    let system = match ready.system.as_str() {
        LockCard::ZOOKEEPER => String::new(),
        other => format!(" ({}, not ZooKeeper)", one_line(other)),
    };
    let keeps = if locks.len() > 1 { "follow" } else { "follows" };
    let verdict = match failed {
        0 if unknown > 0 => {
            format!(": {unknown} of {} unknown", counted(all.len() - left_out, "check", "checks"))
        }
        0 => format!(" {keeps} the protocol: {tried} of {tried} checks"),
        _ => format!(": {failed} of {} failed", counted(tried, "check", "checks")),
    };
    let left_out = if left_out > 0 { format!(", {left_out} not tried") } else { String::new() };
    format!("{driver}{system}: {names}{verdict}{left_out}")
}

/// Returns the names of the lock and the check.
fn name(finding: &Finding) -> String {
    let lock = finding.lock.as_ref().map_or_else(String::new, |lock| format!("{lock}, "));
    format!("{lock}{}", finding.check)
}

/// Formats a finding with its advice and timeline; `names` is the width of the name column.
fn line(finding: &Finding, names: usize) -> String {
    let advice =
        finding.advice.map_or_else(String::new, |advice| format!("           what to do: {advice}\n"));
    let (word, name, seen) = (finding.outcome.word(), name(finding), one_line(&finding.seen));
    let picture = finding
        .timeline
        .as_ref()
        .map_or_else(String::new, |timeline| format!("\n{}\n", timeline_text(timeline)));
    format!("{word:<9}  {name:<names$}  {seen}\n{advice}{picture}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(outcome: Outcome) -> Finding {
        let advice = (outcome != Outcome::Ok).then_some("flush");
        Finding {
            check: "timeout",
            lock: Some("Lock".into()),
            outcome,
            seen: "seen".into(),
            advice,
            timeline: None,
        }
    }

    fn ready() -> Ready {
        let ready = json!({ "t": "ready", "v": 1, "driver": "my 1", "locks": {
            "Lock": { "timeout": "native", "cancel": "none" }, "Other": { "timeout": "none", "cancel": "none" } } });
        serde_json::from_value(ready).unwrap()
    }

    #[test]
    fn headline_counts_passed_failed_and_untried_checks() {
        let said = |locks: &[&str], outcomes: &[Outcome]| {
            let locks: Vec<String> = locks.iter().map(|lock| (*lock).to_owned()).collect();
            let all: Vec<Finding> = outcomes.iter().map(|outcome| finding(*outcome)).collect();
            headline(&ready(), &locks, &all)
        };
        use Outcome::{Failed, NotTried, Ok, Unknown};
        assert_eq!(said(&["Lock"], &[Ok, Ok]), "my 1: Lock follows the protocol: 2 of 2 checks");
        let found = said(&["Lock", "Other"], &[Ok, Ok, NotTried]);
        assert_eq!(found, "my 1: Lock and Other follow the protocol: 2 of 2 checks, 1 not tried");
        assert_eq!(said(&["Lock"], &[Ok, Unknown]), "my 1: Lock: 1 of 2 checks unknown");
        assert_eq!(said(&["Lock"], &[Ok, Failed, NotTried]), "my 1: Lock: 1 of 2 checks failed, 1 not tried");
    }

    #[test]
    fn each_line_contains_the_finding_and_its_advice() {
        assert_eq!(line(&finding(Outcome::Ok), 15), "ok         Lock, timeout    seen\n");
        let found = line(&finding(Outcome::Failed), 13);
        assert_eq!(found, "FAILED     Lock, timeout  seen\n           what to do: flush\n");
    }

    #[test]
    fn last_line_suggests_a_run_with_faults_for_zookeeper_locks() {
        let last = next(&ready(), &["Lock".to_owned()], "python3 my-lock.py");
        assert_eq!(
            last,
            "These checks do not cover faults. Next: zklockbench run faults/leader-killed --driver \
             my='python3 my-lock.py' --strategies my:Lock"
        );
        // Server faults do not affect locks of other systems.
        let mut other = ready();
        other.system = "redis".into();
        let last = next(&other, &["Lock".to_owned()], "drivers/redis/run");
        assert_eq!(last, "These checks do not cover faults.");
    }

    #[test]
    fn unknown_locks_are_reported_with_the_nearest_name() {
        assert_eq!(chosen(&ready(), &[]).unwrap(), ["Lock", "Other"]);
        let told = chosen(&ready(), &["Lokc".to_owned()]).unwrap_err().to_string();
        assert!(told.contains("no lock `Lokc`; did you mean `Lock`?"), "{told}");
    }
}
