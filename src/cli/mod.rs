//! The entry point: parses the arguments, runs a command and returns an exit code.

mod ab;
mod args;
mod articles;
mod baseline;
mod calibrate;
mod check;
mod clean;
mod compare;
mod driver_check;
mod driver_new;
mod drivers;
mod ensemble;
mod explore;
mod export;
mod help;
mod learn;
mod listing;
mod merge;
mod output;
mod plan;
mod push;
mod report;
mod run;
mod runs;
mod scenario_file;
mod scenario_source;
mod shared_args;
mod sweep;
mod texts;
mod torture;
mod validate;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::time::Uptime;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

pub use args::Cli;
use args::{Command, DriverCommands, GlobalArgs};

use run::metrics::Port;
use run::open_ensemble::Needs;
use scenario_file::{Overrides, ScenarioFile};
use scenario_source::{SHIPPED, Source, read_ahead};
use zklockbench_core::error::{Error, Exit};
use zklockbench_ensemble::{fault, leave_for_own_network};
use zklockbench_results::recorded_run;
use zklockbench_scenario::Scenario;

/// Returns the clap definition, which is also the source of completions, the man page and the documentation.
pub fn definition() -> clap::Command {
    help::completed(Cli::command())
}

pub fn main() -> ExitCode {
    shared_args::forget_empty_variables();
    let parsed = shared_args::or_without_variable(|| definition().try_get_matches())
        .and_then(|matches| Ok((asked_for(&matches), Cli::from_arg_matches(&matches)?)));
    shared_args::forget_identity();
    let exit = match parsed {
        Ok((name, Cli { options, command })) => {
            output::choose(&options);
            log(options.verbose);
            conclude(&name, obey(&name, &options, command))
        }
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { refuse(&error) } else { Exit::Held }
        }
    };
    ExitCode::from(exit as u8)
}

/// Returns the name of the requested command, e.g. `run` or `ensemble up`.
fn asked_for(matches: &ArgMatches) -> String {
    let Some((name, below)) = matches.subcommand() else { return String::new() };
    format!("{name} {}", asked_for(below)).trim_end().to_owned()
}

fn obey(name: &str, options: &GlobalArgs, command: Command) -> Result<Exit, Error> {
    refuse_if!(options.json && command.has_no_outcome(), "`{name}` does not support --json");
    // Bind the port before moving to a separate network, where other machines could not reach the port.
    let port = match &command {
        Command::Run(args) => args.metrics.map(Port::take).transpose()?,
        _ => None,
    };
    move_to_own_network(&command);
    named_scenario(&command).map_or(Ok(()), read_ahead)?;
    if command.may_name_locks() {
        drivers::register(&options.drivers)?;
    }
    start(command, port)
}

/// Reports an invalid command line, also as JSON if the command line contains `--json`.
fn refuse(error: &clap::Error) -> Exit {
    let words: Vec<String> = runs::words().skip(1).collect();
    if words.iter().any(|word| word == "--json") {
        let known = |word: &&String| definition().find_subcommand(word.as_str()).is_some();
        let command = words.first().filter(known).map_or("", String::as_str);
        let told = error.to_string();
        let error = Error::usage(told.trim_end().trim_start_matches("error: "));
        let _ = output::answer_error(command, &error, Vec::new());
    }
    Exit::Usage
}

/// Moves to a separate network if the scenario cuts local servers off from each other and the user is not
/// root. Must be called before threads are started.
///
/// Mistakes in the scenario are reported later. A named pipe is not read here, because a pipe can be read
/// only once.
fn move_to_own_network(command: &Command) {
    leave_for_own_network(|| match command {
        Command::Run(args) => match (&args.scenario, &args.resume) {
            (Some(scenario), _) => needs_links(scenario, &args.overrides),
            (None, Some(dir)) => recorded_run(dir)
                .and_then(|run| ScenarioFile::recorded(&run))
                .is_ok_and(|file| is_cut_off(&file.parsed.scenario)),
            (None, None) => false,
        },
        Command::Validate(args) => needs_links(&args.scenario, &args.overrides),
        // Each round of `torture` is a child process and inherits the network.
        Command::Torture(args) => args.compose.is_none(),
        _ => false,
    });
}

/// Returns the scenario that a command reads.
fn named_scenario(command: &Command) -> Option<&Path> {
    match command {
        Command::Run(args) => args.scenario.as_deref(),
        Command::Worker(args) => args.scenario.as_deref(),
        Command::Validate(args) => Some(&args.scenario),
        Command::Ab(args) => Some(&args.scenario),
        Command::Sweep(args) => Some(&args.scenario),
        Command::Plan(args) => args.from_scenario.as_deref(),
        _ => None,
    }
}

fn needs_links(scenario: &Path, overrides: &Overrides) -> bool {
    let read = || ScenarioFile::read(scenario, overrides).ok();
    Source::lasts(scenario) && read().is_some_and(|file| is_cut_off(&file.parsed.scenario))
}

/// Returns whether the scenario cuts local servers off from each other.
fn is_cut_off(scenario: &Scenario) -> bool {
    // Containers use Docker's networks, which are reachable only from this machine's own network.
    scenario.ensemble.is_local() && Needs::of(scenario).links()
}

fn start(command: Command, port: Option<Port>) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::environment(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        let mut interrupt = Interrupt::listen()?;
        let stop = interrupt.token.clone();
        tokio::select! {
            exit = dispatch(command, port, &stop) => exit,
            () = interrupt.insisted() => Err(Error::Interrupted),
        }
    });
    // Do not drop the runtime, because that would wait for pending reads.
    runtime.shutdown_background();
    ended
}

async fn dispatch(command: Command, port: Option<Port>, stop: &CancellationToken) -> Result<Exit, Error> {
    match command {
        Command::Run(args) => run::execute(*args, port, stop).await,
        Command::Ab(args) => ab::execute(*args, stop).await,
        Command::Sweep(args) => sweep::execute(*args, stop).await,
        Command::Plan(args) => plan::execute(*args, stop).await,
        Command::Learn(args) => learn::execute(*args, stop).await,
        Command::Calibrate(args) => calibrate::execute(*args, stop).await,
        Command::Validate(args) => validate::execute(&args).await,
        Command::Strategies { name } => listing::print(zklockbench_locks::cards(), name.as_deref()),
        Command::Faults { kind } => listing::print(fault::cards(), kind.as_deref()),
        Command::Scenarios { name } => listing::print(SHIPPED.to_vec(), name.as_deref()),
        Command::Worker(args) => worker::execute(*args, stop).await,
        Command::Merge(args) => reading(stop, move || merge::execute(&args)).await,
        Command::Check(args) => check::execute(args, stop).await,
        Command::Export(args) => reading(stop, move || export::execute(&args)).await,
        Command::Report(args) => reading(stop, move || report::execute(&args)).await,
        Command::Baseline { command } => reading(stop, move || baseline::execute(command)).await,
        Command::Compare(args) => reading(stop, move || compare::execute(&args)).await,
        Command::Articles(args) => reading(stop, move || articles::execute(&args)).await,
        Command::Torture(args) => torture::execute(args, stop).await,
        Command::Explore(args) => explore::execute(*args, stop).await,
        Command::Schema { of } => texts::schema(of),
        Command::Driver { command: DriverCommands::Check(args) } => driver_check::execute(*args, stop).await,
        Command::Driver { command: DriverCommands::New(args) } => driver_new::execute(&args),
        Command::Ensemble { command } => ensemble::execute(command, stop).await,
        Command::Clean(args) => clean::execute(args, stop).await,
        Command::Completions { shell } => texts::completions(shell),
        Command::Man { command, out } => texts::man(command.as_deref(), out.as_deref()),
    }
}

/// Time limit after a signal for read-only work to finish or to remove a partly written file.
const ENDS_WITHIN: Duration = Duration::from_millis(200);

/// Runs read-only work on another thread, so Ctrl-C works even if the disk does not respond.
async fn reading<T: Send + 'static>(
    stop: &CancellationToken,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let mut work = tokio::task::spawn_blocking(work);
    let done = tokio::select! {
        done = &mut work => done,
        () = stop.cancelled() => tokio::time::timeout(ENDS_WITHIN, work).await.map_err(|_| Error::Interrupted)?,
    };
    done.map_err(|error| Error::environment(format!("reading failed: {error}")))?
}

fn conclude(command: &str, result: Result<Exit, Error>) -> Exit {
    result.unwrap_or_else(|error| {
        output::complain(&error);
        if output::as_json() {
            // If stdout is closed, the exit code still reports the failure.
            let _ = output::answer_error(command, &error, Vec::new());
        }
        error.exit()
    })
}

/// Logs the steps enabled by `-v` and the targets in `ZKLOCKBENCH_LOG` to stderr. Only the variable enables
/// the client's log of each request, which slows down measurements.
fn log(verbose: u8) {
    let steps = match verbose {
        0 => "",
        1 => "zklockbench=info",
        _ => "zklockbench=debug,zookeeper_client=info",
    };
    let named = std::env::var(LOG).unwrap_or_default();
    let filter =
        [steps, named.trim()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
    if filter.is_empty() {
        return;
    }
    let filter = match filter.parse::<Targets>() {
        Ok(filter) => filter,
        Err(error) => return output::warn(format!("{LOG}={named} and -v are ignored: {error}")),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_timer(Uptime::default())
        .with_ansi(output::may_colour(&std::io::stderr()))
        .with_writer(std::io::stderr);
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

/// Environment variable with a log level, or with a level for each target.
const LOG: &str = "ZKLOCKBENCH_LOG";

/// Handler of Ctrl-C, SIGTERM and SIGHUP: the first signal stops cleanly, the second one immediately.
struct Interrupt {
    token: CancellationToken,
    signals: Vec<Signal>,
}

impl Interrupt {
    /// Starts handling the signals, so they no longer end the process.
    fn listen() -> Result<Self, Error> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals = kinds.into_iter().map(signal).collect::<Result<Vec<_>, _>>();
        let signals =
            signals.map_err(|error| Error::environment(format!("cannot handle signals: {error}")))?;
        Ok(Self { token: CancellationToken::new(), signals })
    }

    async fn insisted(&mut self) {
        self.next().await;
        self.token.cancel();
        output::note("Stopping. Press Ctrl-C again to abort.");
        self.next().await;
    }

    async fn next(&mut self) {
        let _ = select_all(self.signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }
}
