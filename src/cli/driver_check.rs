//! `driver check`: whether a program that takes locks for contenders keeps the protocol of drivers.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::{DriverArgs, DriverCheckArgs, DriverCommands};
use super::run::open_ensemble::OpenEnsemble;
use super::run::progress::Progress;
use super::{drivers, output};
use zklockbench_load::Workspace;

use crate::conformance::{self, CheckSite, Finding, Outcome};
use zklockbench_core::catalog::LockCard;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{as_a_word, counted, listed, one_line};
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::driver::DriverCommand;
use zklockbench_locks::driver::protocol::Ready;
use zklockbench_record::RunEnding;
use zklockbench_scenario::{TrialPlan, did_you_mean};
use zklockbench_zk::{Access, reactor};

/// What the driver is called in messages: it has no name, as none is needed here.
const NAME: &str = "checked";
const TAKES: &str = "about half a minute";

pub async fn execute(args: DriverArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let DriverCommands::Check(args) = args.command;
    if let Some(unknown) =
        args.only.iter().find(|only| !conformance::names().any(|name| name == only.as_str()))
    {
        let names: Vec<&str> = conformance::names().collect();
        return Err(Error::usage(format!("there is no check `{unknown}`; there are: {}", names.join(", "))));
    }
    let command = drivers::named(&format!("{NAME}={}", args.program)).map_err(Error::usage)?;
    let access = args.opening.access.access(None)?;
    let tried = command.clone();
    let ready = on_its_own_thread(stop, move || async move { conformance::introduce(&tried).await }).await?;
    let ready = ready.map_err(|why| Error::environment(format!("the driver {why}")))?;
    let locks = chosen(&ready, &args.locks)?;
    let findings = on_an_ensemble(&args, access, command, &locks, stop).await?;
    let all = [shown(&ready).into_iter().collect(), findings].concat();
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

/// What it declares has to be good for strategies, too: names, parameters.
fn shown(ready: &Ready) -> Option<Finding> {
    let command = DriverCommand { name: NAME.into(), program: String::new(), arguments: Vec::new() };
    let refused =
        zklockbench_locks::register(vec![zklockbench_locks::Program { command, ready: ready.clone() }])
            .err()?;
    Some(Finding {
        check: "ready",
        lock: None,
        outcome: Outcome::Failed,
        seen: refused,
        advice: Some("without that none of its locks can be named in a scenario"),
    })
}

/// Starts or finds the ensemble, and leaves it as it was.
async fn on_an_ensemble(
    args: &DriverCheckArgs,
    access: Access,
    command: DriverCommand,
    locks: &[String],
    stop: &CancellationToken,
) -> Result<Vec<Finding>, Error> {
    let mut place = args.place.clone();
    if place.connect.is_none() && place.compose.is_none() {
        place.servers = place.servers.or(Some(1));
    }
    let scenario = place.scenario("driver-check")?;
    let progress = Progress::new(&TrialPlan::of(&scenario), args.opening.quiet, false);
    let logs =
        tempfile::tempdir().map_err(|error| Error::environment(format!("no place for logs: {error}")))?;
    let opening = OpenEnsemble::open(&scenario, &args.opening, access, logs.path().into(), &progress, stop);
    let opened = opening.await?;
    let checked = on(&opened, args, command, locks, &progress, stop).await;
    opened.close();
    checked
}

async fn on(
    opened: &OpenEnsemble,
    args: &DriverCheckArgs,
    command: DriverCommand,
    locks: &[String],
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Vec<Finding>, Error> {
    let name = format!("driver-check-{:08x}", rand::random::<u32>());
    let workspace = Workspace::create(opened.target.clone(), &name).await?;
    let site = CheckSite {
        target: opened.target.clone(),
        servers: opened.addresses.clone(),
        place: workspace.root().to_owned(),
        contenders: usize::from(args.contenders),
    };
    let locks = locks.to_vec();
    progress.note(&format!("checking {}: {TAKES} for each lock", locks.join(", ")));
    let only = args.only.clone();
    let findings = on_its_own_thread(stop, move || async move {
        let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
        let mut all = conformance::of_program(&command, &wanted).await;
        for lock in &locks {
            let tried = conformance::of_lock(&command, lock, &site, &wanted).await;
            all.extend(tried.map_err(|why| Error::environment(format!("the driver {why}")))?);
        }
        Ok(all)
    })
    .await;
    if opened.started.is_none() {
        opened.clear(&workspace).await;
    }
    findings?
}

/// Where sessions are at home. What is under way when it is interrupted is dropped, and with it the driver.
async fn on_its_own_thread<T: Send + 'static, F: Future<Output = T>>(
    stop: &CancellationToken,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, Error> {
    let stop = stop.clone();
    let task = tokio::task::spawn_blocking(move || {
        reactor::block_on(async { stop.run_until_cancelled(work()).await.ok_or(Error::Interrupted) })
    });
    task.await.map_err(|error| Error::environment(format!("the check ended: {error}")))?
}

fn show(ready: &Ready, locks: &[String], all: &[Finding], args: &DriverCheckArgs) -> Result<Exit, Error> {
    let headline = headline(ready, locks, all);
    let has_failed = all.iter().any(|finding| finding.outcome == Outcome::Failed);
    let verdict = Verdict::violated_if(has_failed.then(|| headline.clone()).into_iter().collect());
    let found = json!({ "driver": ready.driver, "inside": ready.inside,
                        "system": ready.system, "locks": locks, "headline": headline,
                        "checks": all });
    output::tell("driver check", RunEnding::Complete.exit(&verdict), &found, || {
        output::outcome(args.opening.quiet, &headline, || {
            let lines: String = all.iter().map(line).collect();
            format!("{headline}\n\n{lines}\n{}\n", next(ready, locks, &args.program))
        })
    })
}

fn next(ready: &Ready, locks: &[String], program: &str) -> String {
    const NOT_TRIED: &str = "Nothing here says what becomes of a lock under faults.";
    match locks.first() {
        Some(lock) if ready.system == LockCard::ZOOKEEPER => format!(
            "{NOT_TRIED} Next: zklockbench run faults/leader-killed --driver my={} --strategies my:{}",
            as_a_word(program),
            one_line(lock)
        ),
        _ => NOT_TRIED.to_owned(),
    }
}

/// `curator 1.0: InterProcessMutex keeps the protocol: 27 of 27 checks`.
fn headline(ready: &Ready, locks: &[String], all: &[Finding]) -> String {
    let count = |outcome| all.iter().filter(|finding| finding.outcome == outcome).count();
    let (failed, left_out) = (count(Outcome::Failed), count(Outcome::NotTried));
    let tried = all.len() - left_out;
    let names = listed(locks);
    let driver = one_line(&ready.driver);
    let system = match ready.system.as_str() {
        "zookeeper" => String::new(),
        other => format!(" ({}, not ZooKeeper)", one_line(other)),
    };
    let keeps = if locks.len() > 1 { "keep" } else { "keeps" };
    let verdict = match failed {
        0 => format!(" {keeps} the protocol: {tried} of {tried} checks"),
        _ => format!(": {failed} of {} failed", counted(tried, "check", "checks")),
    };
    let warnings = match count(Outcome::Warning) {
        0 => String::new(),
        some => format!(", {}", counted(some, "warning", "warnings")),
    };
    let left_out = if left_out > 0 { format!(", {left_out} not tried") } else { String::new() };
    format!("{driver}{system}: {names}{verdict}{warnings}{left_out}")
}

fn line(finding: &Finding) -> String {
    let lock = finding.lock.as_ref().map_or_else(String::new, |lock| format!("{lock}, "));
    let advice =
        finding.advice.map_or_else(String::new, |advice| format!("           what to do: {advice}\n"));
    let (word, check, seen) = (finding.outcome.word(), finding.check, one_line(&finding.seen));
    format!("{word:<9}  {lock}{check}: {seen}\n{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(outcome: Outcome) -> Finding {
        let advice = (outcome != Outcome::Ok).then_some("flush");
        Finding { check: "timeout", lock: Some("Lock".into()), outcome, seen: "seen".into(), advice }
    }

    fn ready() -> Ready {
        let ready = json!({ "t": "ready", "v": 1, "driver": "my 1", "locks": {
            "Lock": { "timeout": "native", "cancel": "none" }, "Other": { "timeout": "none", "cancel": "none" } } });
        serde_json::from_value(ready).unwrap()
    }

    #[test]
    fn the_first_line_says_what_it_comes_to() {
        let said = |locks: &[&str], outcomes: &[Outcome]| {
            let locks: Vec<String> = locks.iter().map(|lock| (*lock).to_owned()).collect();
            let all: Vec<Finding> = outcomes.iter().map(|outcome| finding(*outcome)).collect();
            headline(&ready(), &locks, &all)
        };
        use Outcome::{Failed, NotTried, Ok, Warning};
        assert_eq!(said(&["Lock"], &[Ok, Ok]), "my 1: Lock keeps the protocol: 2 of 2 checks");
        assert_eq!(
            said(&["Lock", "Other"], &[Ok, Warning, NotTried]),
            "my 1: Lock and Other keep the protocol: 2 of 2 checks, 1 warning, 1 not tried"
        );
        assert_eq!(said(&["Lock"], &[Ok, Failed, NotTried]), "my 1: Lock: 1 of 2 checks failed, 1 not tried");
    }

    #[test]
    fn a_line_says_what_was_seen_and_what_to_do() {
        assert_eq!(line(&finding(Outcome::Ok)), "ok         Lock, timeout: seen\n");
        assert_eq!(
            line(&finding(Outcome::Failed)),
            "FAILED     Lock, timeout: seen\n           what to do: flush\n"
        );
    }

    #[test]
    fn the_last_line_says_what_was_not_tried_and_how_to() {
        let last = next(&ready(), &["Lock".to_owned()], "python3 my-lock.py");
        assert_eq!(
            last,
            "Nothing here says what becomes of a lock under faults. Next: zklockbench run faults/leader-killed --driver \
             my='python3 my-lock.py' --strategies my:Lock"
        );
        // Faults that break servers do not touch what is not ZooKeeper's.
        let mut other = ready();
        other.system = "redis".into();
        let last = next(&other, &["Lock".to_owned()], "drivers/redis/run");
        assert_eq!(last, "Nothing here says what becomes of a lock under faults.");
    }

    #[test]
    fn a_lock_that_it_does_not_have_is_told_with_the_nearest() {
        assert_eq!(chosen(&ready(), &[]).unwrap(), ["Lock", "Other"]);
        let told = chosen(&ready(), &["Lokc".to_owned()]).unwrap_err().to_string();
        assert!(told.contains("no lock `Lokc`; did you mean `Lock`?"), "{told}");
    }
}
