//! `torture`: random locks, random load, random faults, for as long as one likes; all of it follows from a seed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use clap::Parser;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

use super::args::{Cli, Command, RunArgs, TortureArgs};
use super::{output, run};
use crate::catalog::{Holders, LockCard};
use crate::error::{Error, Exit};
use crate::lock;
use crate::units::as_a_word;

/// Draws a scenario by the seed and runs it.
pub async fn execute(args: TortureArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    output::note(&format!("seed {seed}; to repeat: {}", again(seed, &args)));
    let text = scenario(seed, args.minutes);
    if args.show {
        output::data(&text)?;
        return Ok(Exit::Held);
    }
    let file =
        kept(&text).map_err(|error| Error::environment(format!("cannot write a scenario: {error}")))?;
    run::execute(run_args(file.path(), &args)?, None, stop).await
}

/// The line by which it is done again: the same locks, load and faults, on servers of the same kind.
fn again(seed: u64, args: &TortureArgs) -> String {
    let mut line = format!("zklockbench torture --minutes {} --seed {seed}", args.minutes);
    for (option, path) in [("--data-dir", &args.data_dir), ("--compose", &args.compose)] {
        if let Some(path) = path {
            let _ = write!(line, " {option} {}", as_a_word(&path.display().to_string()));
        }
    }
    line
}

/// The scenario as a file, for as long as the run lasts. Its text is in the results.
fn kept(text: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("torture-").suffix(".toml").tempfile()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// What `run` would be told on the command line.
fn run_args(scenario: &Path, args: &TortureArgs) -> Result<RunArgs, Error> {
    let mut words = vec!["zklockbench".into(), "run".into(), scenario.as_os_str().to_owned(), "--out".into()];
    words.push(args.out.as_os_str().to_owned());
    if let Some(directory) = &args.data_dir {
        words.extend(["--data-dir".into(), directory.as_os_str().to_owned()]);
    }
    if let Some(file) = &args.compose {
        words.extend(["--compose".into(), file.as_os_str().to_owned()]);
    }
    if args.json {
        words.push("--json".into());
    }
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Run(args)) => Ok(*args),
        Ok(_) => Err(Error::usage("this is no run")),
        Err(error) => Err(Error::usage(error)),
    }
}

/// How long each trial lasts, in seconds.
const SECONDS: u64 = 60;
/// One kind that takes a server down, for two at a time may leave no majority with the newest data.
const TO_SERVERS: [&str; 5] = [
    "kind = \"kill\"\ntarget = \"leader\"",
    "kind = \"kill\"\ntarget = \"follower\"",
    "kind = \"restart\"",
    "kind = \"pause\"\ntarget = \"follower\"",
    "kind = \"wipe\"",
];
/// What can be done to contenders and their connections, with a duration.
const LASTING: [&str; 6] = [
    "kind = \"freeze\"\ntarget = \"holder\"",
    "kind = \"freeze\"\ntarget = \"any\"",
    "kind = \"stall\"\ntarget = \"any\"",
    "kind = \"refuse\"\ntarget = \"any\"",
    "kind = \"delay\"\nlatency = \"5ms\"\nextra = \"20ms\"",
    "kind = \"slow-consumer\"\ntarget = \"any\"\nlag = \"10ms\"",
];
const AT_ONCE: [&str; 6] = [
    "kind = \"crash\"\ntarget = \"holder\"",
    "kind = \"crash\"\ntarget = \"any\"",
    "kind = \"expire\"\ntarget = \"any\"",
    "kind = \"expire\"\ntarget = \"holder\"",
    "kind = \"reset\"\ntarget = \"all\"",
    "kind = \"reset\"\ntarget = \"any\"",
];

/// A scenario of so many trials of a minute each. The same seed gives the same.
fn scenario(seed: u64, minutes: u64) -> String {
    let mut draw = ChaCha8Rng::seed_from_u64(seed);
    let cards = lock::cards();
    let mut locks: Vec<&str> = cards.iter().filter(|card| is_safe(card)).map(|card| card.name).collect();
    locks.shuffle(&mut draw);
    let each = minutes.div_ceil(locks.len() as u64).max(1);
    locks.truncate(usize::try_from(minutes.div_ceil(each)).unwrap_or(1).max(1));
    let names: Vec<String> = locks.iter().map(|name| format!("\"{name}\"")).collect();
    let (contenders, hold) = (draw.random_range(3..=20), draw.random_range(1..=30));
    let timeout = draw.random_range(2..=6);
    let mut text = format!(
        "name = \"torture\"\ndescription = \"Drawn by seed {seed}\"\nstrategies = [{}]\ncontenders = {contenders}\n\
         hold = \"{hold}ms\"\nduration = \"{SECONDS}s\"\nwarm_up = \"1s\"\nrepetitions = {each}\nseed = {seed}\n\
         session_timeout = \"{timeout}s\"\n\n[ensemble]\nservers = 3\n",
        names.join(", "),
    );
    faults(&mut text, &mut draw);
    text
}

/// Whether a lock promises to exclude.
fn is_safe(card: &LockCard) -> bool {
    card.guarantees.exclusive && card.guarantees.holders == Holders::One
}

fn faults(text: &mut String, draw: &mut ChaCha8Rng) {
    let lasting = draw.random_range(1..=3);
    let at_once = draw.random_range(1..=3);
    let to_servers = TO_SERVERS.choose(draw).copied();
    let lasting: Vec<&str> = LASTING.choose_multiple(draw, lasting).copied().collect();
    let at_once: Vec<&str> = AT_ONCE.choose_multiple(draw, at_once).copied().collect();
    for kind in to_servers.into_iter().chain(lasting) {
        let duration = draw.random_range(1..=5);
        fault(text, kind, Some(duration), draw);
    }
    for kind in at_once {
        fault(text, kind, None, draw);
    }
}

/// One fault that fires some times and has ended some seconds before the trial does.
fn fault(text: &mut String, kind: &str, duration: Option<u64>, draw: &mut ChaCha8Rng) {
    let (at, times) = (draw.random_range(2..=8), draw.random_range(1..=3));
    let (jitter, lasts) = (draw.random_range(0..=3), duration.unwrap_or(0));
    let _ = write!(text, "\n[[fault]]\n{kind}\nat = \"{at}s\"\njitter = \"{jitter}s\"\n");
    if let Some(duration) = duration {
        let _ = writeln!(text, "duration = \"{duration}s\"");
    }
    if times > 1 {
        let every = (SECONDS - at - lasts - jitter - 5) / times;
        let _ = write!(text, "times = {times}\nevery = \"{every}s\"\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cli::shared_args::SEEDS;
    use crate::fault;
    use crate::scenario::parse;

    proptest! {
        #[test]
        fn whatever_the_seed_a_scenario_comes_out_that_can_be_run(seed in 0..=SEEDS, minutes in 1_u64..200) {
            let text = scenario(seed, minutes);
            let parsed = parse("torture.toml", &text, &lock::cards(), &fault::cards());
            prop_assert!(parsed.is_ok(), "{}\n{}", text, parsed.err().map(|e| e.to_string()).unwrap_or_default());
            prop_assert_eq!(text, scenario(seed, minutes));
        }
    }

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

    #[test]
    fn the_seed_that_results_show_is_the_one_that_draws_it_again() {
        for seed in [0, 3, SEEDS] {
            let text = scenario(seed, 1);
            let parsed = parse("torture.toml", &text, &lock::cards(), &fault::cards()).unwrap();
            assert_eq!(parsed.scenario.seed, seed);
        }
    }

    #[test]
    fn it_lasts_about_as_long_as_asked() {
        for minutes in [1, 5, 20, 100] {
            let text = scenario(7, minutes);
            let parsed = parse("torture.toml", &text, &lock::cards(), &fault::cards()).unwrap();
            let trials = crate::scenario::Plan::of(&parsed.scenario).trials.len() as u64;
            assert!(trials >= minutes && trials < 2 * minutes + 2, "{minutes}: {trials}");
        }
    }
}
