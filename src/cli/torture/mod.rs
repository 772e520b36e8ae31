//! `torture`: rounds of random locks, random load and random faults, for as long as one likes; all of it follows from a
//! seed.
//!
//! Each round is a run of a scenario of its own, on servers of its own, in a process of its own: whatever becomes of one,
//! the next one begins, and each can be run again alone.

mod draw;
mod outcome;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::TortureArgs;
use super::runs::{run_apart, tell_resumed, to_resume, with_paths};
use super::{drivers, listing, output};

use crate::run::series::{Folders, Opening, RunPlace, Series};
use draw::{Faults, LeftOut, Round, Rounds};
use outcome::{RoundOutcome, Tally};
use zklockbench_core::catalog::LockCard;
use zklockbench_core::catalog::fault::{Capability, FaultCard};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::as_a_word;
use zklockbench_ensemble::fault;
use zklockbench_ensemble::links_capability;

/// About how long a round takes, for `--show`.
const ROUND: Duration = Duration::from_secs(30);
const ROUNDS: &str = "rounds";

pub async fn execute(args: TortureArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let faults = Faults::without(fault::cards(), why_not(&args));
    let mut rounds = Rounds::new(seed, chosen(&args.strategies)?, faults);
    if args.show {
        if output::as_json() {
            return Err(Error::usage(
                "--show prints scenarios, which are not JSON; leave out --show or --json",
            ));
        }
        let about = (60 * args.minutes).div_ceil(ROUND.as_secs());
        let texts: Vec<String> =
            rounds.take(usize::try_from(about).unwrap_or(usize::MAX)).map(|round| round.text).collect();
        output::data(&texts.join("\n\n"))?;
        return Ok(Exit::Held);
    }
    let series = Series::open(&Opening {
        command: "torture",
        parent: &args.out,
        name: "torture",
        resume: args.resume.as_deref(),
        asked: asked(seed, &args),
        folders: Folders { runs: ROUNDS, logs: ROUNDS, scenarios: ROUNDS },
        shares_ensemble: false,
    })?;
    output::note(&format!("seed {seed}; the same rounds again: {}", again(seed, &args)));
    tell_resumed(series.count(), false);
    let left_out = std::mem::take(&mut rounds.left_out);
    output::note("left out:");
    left_out.iter().for_each(|LeftOut { what, why }| output::note(&format!("  {what}: {why}")));
    let mut under_way = TortureInProgress { args, seed, series, left_out, outcomes: Vec::new() };
    let ended = under_way.run(rounds, stop).await;
    under_way.conclude(ended.err())
}

/// What rounds it is about: another driver has other ones.
fn asked(seed: u64, args: &TortureArgs) -> serde_json::Value {
    let mut asked = json!({ "seed": seed, "data_dir": args.data_dir, "compose": args.compose });
    if !args.strategies.is_empty() {
        asked["strategies"] = args.strategies.clone().into();
    }
    if !drivers::options().is_empty() {
        asked["drivers"] = drivers::options().into();
    }
    asked
}

/// The line by which the same rounds are drawn again, on servers of the same kind.
fn again(seed: u64, args: &TortureArgs) -> String {
    let (minutes, drivers) = (args.minutes, drivers::options());
    let strategies = match args.strategies.join(",") {
        named if named.is_empty() => named,
        named => format!(" --strategies {}", as_a_word(&named)),
    };
    let servers = told(&servers(args));
    format!("zklockbench torture --minutes {minutes} --seed {seed}{strategies}{servers}{drivers}")
}

fn chosen(names: &[String]) -> Result<Vec<LockCard>, Error> {
    if names.is_empty() {
        return Ok(zklockbench_locks::cards());
    }
    let cards = names.iter().map(|name| match listing::strategy(name)? {
        card if card.guarantees.exclusive => Ok(card),
        card => Err(Error::usage(format!("--strategies: `{}` doesn't promise to exclude", card.name))),
    });
    cards.collect()
}

fn key(round: &Round) -> String {
    format!("{:03}", round.number)
}

fn servers(args: &TortureArgs) -> Vec<OsString> {
    with_paths(&[("--data-dir", &args.data_dir), ("--compose", &args.compose)])
}

/// Options as a shell takes them, each after a space.
fn told(options: &[OsString]) -> String {
    options.iter().map(|word| format!(" {}", as_a_word(&word.to_string_lossy()))).collect()
}

fn why_not(args: &TortureArgs) -> impl Fn(&FaultCard) -> Option<String> {
    let links = match &args.compose {
        Some(_) => Err("Docker cannot cut a single link between servers".to_owned()),
        None => links_capability(),
    };
    let is_contained = args.compose.is_some();
    move |card| match card.needs {
        Capability::Links => links.clone().err(),
        Capability::Isolation if !is_contained => links.clone().err(),
        _ => None,
    }
}

struct TortureInProgress {
    args: TortureArgs,
    seed: u64,
    series: Series,
    left_out: Vec<LeftOut>,
    outcomes: Vec<RoundOutcome>,
}

impl TortureInProgress {
    async fn run(&mut self, rounds: Rounds, stop: &CancellationToken) -> Result<(), Error> {
        let lasts = Duration::from_secs(60 * self.args.minutes);
        for round in rounds {
            let ran_before = self.series.has(&key(&round));
            if !ran_before && self.series.spent() >= lasts {
                break;
            }
            let outcome = self.round(&round, stop).await?;
            if !ran_before {
                self.tell(&outcome);
            }
            self.outcomes.push(outcome);
        }
        Ok(())
    }

    async fn round(&mut self, round: &Round, stop: &CancellationToken) -> Result<RoundOutcome, Error> {
        let scenario = self.series.scenario(&key(round), &round.text)?;
        let options = RUN_OPTIONS.map(OsString::from).into_iter().chain(servers(&self.args)).collect();
        let command = |place: &RunPlace| run_apart(&scenario, place, options);
        let run = self.series.run(&key(round), command, stop).await?;
        RoundOutcome::of(round.number, scenario.clone(), &run)
    }

    fn tell(&self, outcome: &RoundOutcome) {
        output::note(&outcome.line());
        if outcome.is_red() {
            output::note(&format!("  to run this round again: {}", self.run_again(&outcome.scenario)));
        }
    }

    fn run_again(&self, scenario: &Path) -> String {
        let scenario = as_a_word(&scenario.display().to_string());
        let (options, servers) = (RUN_OPTIONS.join(" "), told(&servers(&self.args)));
        format!("zklockbench run {scenario} {options}{servers}{}", drivers::options())
    }

    fn how_to_resume(&self) -> String {
        let directory = as_a_word(&self.series.path().display().to_string());
        format!("{} --resume {directory}", again(self.seed, &self.args))
    }

    fn conclude(self, error: Option<Error>) -> Result<Exit, Error> {
        let tally = Tally::of(&self.outcomes);
        let exit = tally.exit(error.as_ref());
        let page = tally.document(self.seed, &self.left_out, &again(self.seed, &self.args));
        super::report::write_into(self.series.path(), page);
        let resume = error.is_some().then(|| self.how_to_resume());
        let found = || {
            json!({
                "results": self.series.path(),
                "seed": self.seed,
                "resume": resume,
                "rounds": self.outcomes,
                "left_out": self.left_out,
                "faults": tally.faults,
            })
        };
        output::conclude("torture", exit, error, found, || {
            output::text(&format!(
                "{}\nto run round NNN again: {}\nresults: {}{}",
                tally.text(self.seed),
                self.run_again(&self.series.path().join(ROUNDS).join("NNN.toml")),
                self.series.path().display(),
                to_resume(resume.as_deref())
            ))
        })
    }
}

/// How a round is run: figures are not what it is about.
const RUN_OPTIONS: [&str; 3] = ["--fresh", "--cold", "--no-floor"];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Command};

    #[test]
    fn the_line_by_which_it_is_done_again_draws_the_same_on_the_same_kind_of_servers() {
        let of = |words: &[&str]| {
            let words = [&["zklockbench", "torture", "--minutes", "7"], words].concat();
            let Ok(Command::Torture(args)) = Cli::try_parse_from(words).map(|cli| cli.command) else {
                panic!("no torture");
            };
            again(3, &args)
        };
        assert_eq!(of(&[]), "zklockbench torture --minutes 7 --seed 3");
        assert_eq!(
            of(&["--data-dir", "/dev/shm"]),
            "zklockbench torture --minutes 7 --seed 3 --data-dir /dev/shm"
        );
        assert_eq!(
            of(&["--compose", "my own/it's.yaml"]),
            r"zklockbench torture --minutes 7 --seed 3 --compose 'my own/it'\''s.yaml'"
        );
    }

    fn refused(names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        chosen(&names).unwrap_err().to_string()
    }

    #[test]
    fn only_locks_that_there_are_and_that_exclude_can_be_chosen() {
        let drawn = |names: Vec<String>| -> Vec<&'static str> {
            let rounds =
                Rounds::new(1, chosen(&names).unwrap(), Faults { cards: Vec::new(), left_out: Vec::new() });
            let named = |text: &str| {
                ["baton", "count", "kazoo"].into_iter().find(|name| text.contains(&format!("\"{name}\"")))
            };
            rounds.take(8).filter_map(|round| named(&round.text)).collect()
        };
        let names = drawn(vec!["count".into(), "baton".into()]);
        assert_eq!(names.len(), 8);
        assert!(names.contains(&"count") && names.contains(&"baton") && !names.contains(&"kazoo"));
        assert!(refused(&["countt"]).contains("did you mean `count`?"));
        assert!(refused(&["baton", "no-lock"]).contains("doesn't promise to exclude"));
        assert!(chosen(&[]).unwrap().len() > 20);
    }
}
