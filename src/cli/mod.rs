//! The door: arguments in, a command run, an exit code out.

mod access;
mod args;
mod check;
mod clean;
mod completions;
mod ensemble;
mod faults;
mod host;
mod interrupt;
mod listing;
mod man;
mod output;
mod overrides;
mod rootless;
mod run;
mod scenario_file;
mod schema;
mod strategies;
mod torture;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

pub use args::Cli;
use args::Command;

use crate::error::{Error, Exit};
use interrupt::Interrupt;

/// The clap definition: completions, the man page and the documentation are made from it.
#[must_use]
pub fn definition() -> clap::Command {
    Cli::command().after_help(exit_codes())
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    log_if_asked();
    let parsed = definition().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let exit = match parsed {
        Ok(cli) => {
            rootless::prepare(&cli.command);
            conclude(start(cli))
        }
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Held }
        }
    };
    ExitCode::from(exit as u8)
}

fn start(cli: Cli) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::environment(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let mut interrupt = Interrupt::listen()?;
        let stop = interrupt.token();
        tokio::select! {
            exit = dispatch(cli.command, &stop) => exit,
            () = interrupt.insisted() => Err(Error::Interrupted),
        }
    })
}

async fn dispatch(command: Command, stop: &tokio_util::sync::CancellationToken) -> Result<Exit, Error> {
    match command {
        Command::Run(args) => run::execute(*args, stop).await,
        Command::Validate(args) => validate::execute(&args),
        Command::Strategies(args) => strategies::execute(&args),
        Command::Faults(args) => faults::execute(&args),
        Command::Check(args) => check::execute(args, stop).await,
        Command::Torture(args) => torture::execute(args, stop).await,
        Command::Schema => schema::execute(),
        Command::Ensemble(args) => ensemble::execute(args, stop).await,
        Command::Clean(args) => clean::execute(args, stop).await,
        Command::Completions(args) => completions::execute(&args),
        Command::Man => man::execute(),
    }
}

fn conclude(result: Result<Exit, Error>) -> Exit {
    result.unwrap_or_else(|error| {
        output::complain(&error);
        error.exit()
    })
}

fn exit_codes() -> String {
    let lines = Exit::ALL.iter().map(|(exit, meaning)| format!("  {:>3}  {meaning}", *exit as u8));
    format!("Exit codes:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// The ZooKeeper client's own log, for whoever needs to see below the session: `ZKLOCKBENCH_LOG=debug`.
fn log_if_asked() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("ZKLOCKBENCH_LOG") {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    }
}
