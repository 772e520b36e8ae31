//! Before all else: moves to a network of its own where the command needs one and is not run by root.

use std::path::Path;

use super::args::Command;
use super::overrides::Overrides;
use super::run::capabilities::Needs;
use super::scenario_file::ScenarioFile;
use crate::ensemble;
use crate::scenario::{EnsembleChoice, Scenario};

/// Does it, for scenarios that cut servers off from each other. To be called before there are threads.
///
/// Whatever is wrong with the scenario is told later. One that comes through a pipe can be read only once, so it is
/// left alone here.
pub fn prepare(command: &Command) {
    ensemble::leave_for_own_network(|| match command {
        Command::Run(args) => needs_links(&args.scenario, &args.overrides),
        Command::Validate(args) => needs_links(&args.scenario, &args.overrides),
        _ => false,
    });
}

fn needs_links(scenario: &Path, overrides: &Overrides) -> bool {
    let read = || ScenarioFile::read(scenario, overrides).ok();
    let is_of_own_servers = |scenario: &Scenario| {
        // Containers have networks of Docker's, which only this machine's own network leads to.
        matches!(scenario.ensemble, EnsembleChoice::Local { .. }) && Needs::of(scenario).links()
    };
    scenario.is_file() && read().is_some_and(|file| is_of_own_servers(&file.parsed.scenario))
}
