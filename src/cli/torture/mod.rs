//! `torture`: runs random locks under random load and random faults, all drawn from one seed. Each round is a
//! separate process with its own servers.

mod draw;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::TortureArgs;
use super::runs::{command_line, run_apart, with_paths};
use super::{drivers, listing, output};

use crate::run::series::{DoneRun, Layout, Name, Series};
use draw::Rounds;
use zklockbench_core::catalog::LockCard;
use zklockbench_core::catalog::fault::{Capability, FaultCard};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{as_a_word, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::{CONNECT_VARIABLE, fault, links_capability};
use zklockbench_record::{RunEnding, Trial};

/// Options for the run of each round. The speed of these runs does not matter.
const RUN_OPTIONS: [&str; 3] = ["--fresh", "--cold", "--no-floor"];
const MINUTES: u64 = 5;
const COMMAND: &str = "torture";

#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Round {
    number: u64,
    lock: String,
    scenario: String,
    verdict: Verdict,
}

pub async fn execute(args: TortureArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let (faults, left_out) = faults(&args);
    let rounds = Rounds::new(seed, locks(&args.strategies)?, faults);
    let minutes = args.minutes.unwrap_or(if args.rounds.is_some() { u64::MAX / 60 } else { MINUTES });
    let most = args.rounds.unwrap_or(u64::MAX);
    if args.show {
        refuse_if!(output::as_json(), "cannot combine --show with --json, because --show prints scenarios");
        // A round takes about half a minute.
        let texts: Vec<String> = (1..=most.min(2 * minutes)).map(|number| rounds.scenario(number)).collect();
        return output::data(&texts.join("\n")).map(|()| Exit::Held);
    }
    let (name, asked) = (Name::Dated(COMMAND), json!({ "seed": seed }));
    let mut series = Series::open(COMMAND, Layout::Together("rounds"), &args.out, name, None, asked)?;
    left_out.iter().for_each(|why| output::note(&format!("skipped: {why}")));
    output::note(&format!("seed {seed}; repeat the same rounds with: {}", again(seed, &args)));
    let (options, mut done) = (options(&args), Vec::new());
    let run = async {
        for number in 1..=most {
            if series.spent() >= Duration::from_secs(60 * minutes) {
                break;
            }
            let key = format!("{number:03}");
            let scenario = series.scenario(&key, &rounds.scenario(number))?;
            let command = |place: &Path| {
                // The servers belong to `torture`.
                let mut command = run_apart(&scenario, place, options.clone())?;
                command.env_remove(CONNECT_VARIABLE);
                Ok(command)
            };
            let run = series.run(&key, &(), command, stop).await?;
            let (lock, scenario) = (rounds.lock(number).name.to_owned(), scenario.display().to_string());
            let round = Round { number, lock, verdict: judged(number, &run)?, scenario };
            output::note(&shown(&round, &options));
            done.push(round);
        }
        Ok(())
    };
    let error = run.await.err();
    let verdict = done.iter().map(|round| round.verdict.clone()).fold(Verdict::Held, Verdict::and);
    let results = series.path().display().to_string();
    let found = || json!({ "results": results, "seed": seed, "rounds": &done, "left_out": &left_out });
    output::conclude(COMMAND, RunEnding::Complete.exit(&verdict), error, found, || {
        output::text(&format!("{}\nresults: {results}", tally(seed, &done)))
    })
}

/// Returns the command that repeats the rounds.
fn again(seed: u64, args: &TortureArgs) -> String {
    let words: Vec<String> = command_line().iter().map(|word| as_a_word(word)).collect();
    words.join(" ") + &if args.seed.is_some() { String::new() } else { format!(" --seed {seed}") }
}

fn options(args: &TortureArgs) -> Vec<OsString> {
    let servers = with_paths(&[("--data-dir", &args.data_dir), ("--compose", &args.compose)]);
    RUN_OPTIONS.map(OsString::from).into_iter().chain(servers).collect()
}

fn locks(names: &[String]) -> Result<Vec<LockCard>, Error> {
    if names.is_empty() {
        return Ok(zklockbench_locks::cards());
    }
    let cards = names.iter().map(|name| match listing::strategy(name)? {
        card if card.guarantees.exclusive => Ok(card),
        card => Err(Error::usage(format!("--strategies: `{}` is not exclusive", card.name))),
    });
    cards.collect()
}

/// Returns the faults that this host can inject, and why other faults are skipped.
fn faults(args: &TortureArgs) -> (Vec<FaultCard>, Vec<String>) {
    let links = match &args.compose {
        Some(_) => Err("Docker cannot cut a single link between servers".to_owned()),
        None => links_capability(),
    };
    let why_not = |card: &FaultCard| match card.needs {
        Capability::Links => links.clone().err(),
        Capability::Isolation if args.compose.is_none() => links.clone().err(),
        _ => None,
    };
    let (can, cannot): (Vec<_>, Vec<_>) =
        fault::cards().into_iter().partition(|card| why_not(card).is_none());
    let left_out = cannot.iter().filter_map(|card| Some(format!("{}: {}", card.name, why_not(card)?)));
    (can, left_out.collect())
}

/// Returns the verdict of a round. Without results, the round was rejected or the program failed.
fn judged(number: u64, done: &DoneRun) -> Result<Verdict, Error> {
    let exit = Exit::ALL.iter().map(|(exit, _)| *exit).find(|exit| done.code == Some(*exit as i32));
    let verdict = match (done.directory.is_dir(), exit) {
        (true, _) => zklockbench_results::read(&done.directory)?
            .trials
            .iter()
            .map(of_trial)
            .fold(Verdict::Held, Verdict::and),
        (false, Some(Exit::Usage | Exit::Environment)) => {
            return Err(done.without_results(&format!("round {number}"), None));
        }
        (false, _) => Verdict::unknown("the round left no results"),
    };
    let failed = || format!("the program failed ({}): {}", done.how(), done.last_words());
    Ok(if exit.is_some() { verdict } else { verdict.and(Verdict::violated(failed())) })
}

/// Judges a trial. Stuck contenders and leftover nodes are not violations if the lock's description explains them.
fn of_trial(trial: &Trial) -> Verdict {
    let left = trial.orphans.filter(|count| *count > 0);
    let left = left.map(|count| {
        Verdict::violated(format!("{} left without an owner", counted(count, "node was", "nodes were")))
    });
    let lock = zklockbench_locks::find(&trial.spec.strategy.name);
    let is_described =
        lock.is_some_and(|lock| zklockbench_judge::standing_still(&lock.card, trial).is_some());
    let judged = trial.judged.clone();
    let progress = judged.progress.into_iter().chain(left);
    let progress = progress.filter(|verdict| !is_described || !matches!(verdict, Verdict::Violated(_)));
    let counts = judged.accounting.map(|counts| counts.with_reasons(|row| format!("counts disagree: {row}")));
    let others = [Some(judged.exclusion), judged.order, counts];
    others.into_iter().flatten().chain(progress).fold(Verdict::Held, Verdict::and)
}

/// Returns the outcome of a round and, unless the lock held, the command that repeats the round.
fn shown(round: &Round, options: &[OsString]) -> String {
    let mut text = format!("round {}, {}: {}", round.number, round.lock, round.verdict.word());
    round.verdict.reasons().iter().for_each(|reason| text += &format!("\n  {reason}"));
    if round.verdict != Verdict::Held {
        text += &format!("\n  repeat with: zklockbench run {}", as_a_word(&round.scenario));
        options.iter().for_each(|word| text += &format!(" {}", as_a_word(&word.to_string_lossy())));
        text += drivers::options();
    }
    text
}

fn tally(seed: u64, rounds: &[Round]) -> String {
    let of = |word: &str| rounds.iter().filter(|round| round.verdict.word() == word).count();
    let [held, unknown, violated] = ["held", "unknown", "violated"].map(of);
    let rounds = counted(rounds.len(), "round", "rounds");
    format!("{rounds}: {held} held, {unknown} unknown, {violated} violated. Seed {seed}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_counts_each_verdict() {
        let round = |verdict| Round { number: 1, lock: "baton".into(), scenario: String::new(), verdict };
        let rounds = [Verdict::Held, Verdict::unknown("x"), Verdict::Held].map(round);
        assert_eq!(tally(7, &rounds), "3 rounds: 2 held, 1 unknown, 0 violated. Seed 7.");
    }

    #[test]
    fn strategies_must_exist_and_be_exclusive() {
        let refused = |name: &str| locks(&[name.to_owned()]).unwrap_err().to_string();
        assert!(refused("countt").contains("did you mean `count`?"));
        assert!(refused("no-lock").contains("is not exclusive"));
        assert_eq!(locks(&["count".into(), "baton".into()]).unwrap().len(), 2);
    }
}
