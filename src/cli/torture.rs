//! `torture`: random locks, random load, random faults, for as long as one likes; all of it follows from a seed.

mod draw;

use std::io::Write;
use std::path::Path;

use clap::Parser;
use tokio_util::sync::CancellationToken;

use super::args::{Cli, Command, TortureArgs};
use super::{output, run};
use crate::error::{Error, Exit};

/// Draws a scenario by the seed and runs it.
///
/// # Errors
/// As `run`.
pub async fn execute(args: TortureArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let minutes = args.minutes;
    output::note(&format!(
        "seed {seed}; the same again: zklockbench torture --minutes {minutes} --seed {seed}"
    ));
    let text = draw::scenario(seed, minutes);
    if args.show {
        output::data(&text)?;
        return Ok(Exit::Held);
    }
    let file =
        kept(&text).map_err(|error| Error::environment(format!("cannot write a scenario: {error}")))?;
    run::execute(run_args(file.path(), &args)?, stop).await
}

/// The scenario as a file, for as long as the run lasts. Its text is in the results.
fn kept(text: &str) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("torture-").suffix(".toml").tempfile()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// What `run` would be told on the command line.
fn run_args(scenario: &Path, args: &TortureArgs) -> Result<super::args::RunArgs, Error> {
    let mut words = vec!["zklockbench".into(), "run".into(), scenario.as_os_str().to_owned(), "--out".into()];
    words.push(args.out.as_os_str().to_owned());
    if let Some(directory) = &args.data_dir {
        words.extend(["--data-dir".into(), directory.as_os_str().to_owned()]);
    }
    if let Some(file) = &args.compose {
        words.extend(["--compose".into(), file.as_os_str().to_owned()]);
    }
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Run(args)) => Ok(*args),
        Ok(_) => Err(Error::usage("this is no run")),
        Err(error) => Err(Error::usage(error)),
    }
}
