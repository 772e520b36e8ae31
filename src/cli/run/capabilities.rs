//! What a scenario's faults need of the ensemble and of the suite, and whether it is there.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::cli::drivers;
use crate::lock::DrivenLocks;
use crate::scenario::{EnsembleChoice, Scenario};
use crate::words::catalog::fault::{Capability, FaultCard, FaultChoice, Target};
use crate::words::error::Error;
use crate::words::units::counted;
use crate::world::ensemble::{Compose, External, Hosts, links_capability};
use crate::world::fault;
use crate::world::proxy::Proxy;

pub struct Needs(BTreeSet<Capability>);

impl Needs {
    pub fn of(scenario: &Scenario) -> Self {
        let need = |kind: &String| fault::find(kind).map(|entry| entry.card.needs);
        Self(scenario.faults.iter().filter_map(|choice| need(&choice.kind)).collect())
    }

    /// Whether something is to be done to servers, which then must have been started for the run.
    pub fn own_servers(&self) -> bool {
        self.0.iter().any(|need| need.reaches_servers())
    }

    /// Whether servers are to be cut off from each other, so that each needs a network of its own.
    pub fn links(&self) -> bool {
        self.0.contains(&Capability::Links) || self.0.contains(&Capability::Isolation)
    }

    /// Refuses what cannot be done to these containers, before any of them is started.
    pub fn check_containers(&self, scenario: &Scenario, compose: &Compose) -> Result<(), Error> {
        for choice in &scenario.faults {
            let Some(entry) = fault::find(&choice.kind) else { continue };
            check_fault(choice, &entry.card, compose)
                .map_err(|why| Error::usage(format!("`{}` cannot be done here: {why}", choice.label)))?;
        }
        Ok(())
    }

    /// How many files a contender's session takes where there are so many servers: its socket; with something that stands
    /// before them also the two of that, and a listener before each server.
    pub fn files_of_a_session(&self, servers: usize) -> usize {
        if self.0.contains(&Capability::Proxies) { 3 + servers } else { 1 }
    }

    /// What stands before those servers from the start, if a fault is to set something there.
    pub fn proxy(&self, servers: &[String]) -> Result<Option<Arc<Proxy>>, Error> {
        if !self.0.contains(&Capability::Proxies) {
            return Ok(None);
        }
        Proxy::before(servers).map(|proxy| Some(Arc::new(proxy)))
    }

    /// Why this machine cannot do all of it, where it cannot. Containers' links are Docker's.
    pub fn missing_here(&self, scenario: &Scenario) -> Option<String> {
        let is_local = matches!(scenario.ensemble, EnsembleChoice::Local { .. });
        let links = if self.links() && is_local { links_capability() } else { Ok(()) };
        links.err().map(|why| format!("servers cannot be partitioned here: {why}"))
    }

    /// The commands by which servers are broken that others have started, from the file that the command line names.
    pub fn host_commands(
        &self,
        scenario: &Scenario,
        file: Option<&Path>,
    ) -> Result<Option<Arc<Hosts>>, Error> {
        let EnsembleChoice::Connect(connect) = &scenario.ensemble else { return Ok(None) };
        match file {
            Some(file) => {
                Hosts::read(file, &External::parse(connect)?.addresses).map(|hosts| Some(Arc::new(hosts)))
            }
            None if self.own_servers() => Err(Error::usage(
                "the run breaks servers that it has not started: name the commands for that with --hosts FILE",
            )),
            None => Ok(None),
        }
    }

    /// Refuses what cannot be done here, or with these locks of drivers, before anything is started.
    pub fn check(
        &self,
        scenario: &Scenario,
        driven: &DrivenLocks,
        allow_faults: bool,
        wants_tls: bool,
    ) -> Result<(), Error> {
        if let Some(missing) = self.missing_here(scenario) {
            return Err(Error::Environment(missing));
        }
        let is_external = matches!(scenario.ensemble, EnsembleChoice::Connect(_));
        if is_external && !self.0.is_empty() && !allow_faults {
            return Err(Error::usage(
                "the scenario injects faults, but this ensemble was not started for it: --allow-faults lets \
                 them hit the scenario's own contenders and connections, and servers only by commands of --hosts FILE",
            ));
        }
        if self.0.contains(&Capability::Proxies) && wants_tls {
            return Err(Error::usage(
                "connection faults have to read the traffic, which TLS encrypts: drop one of the two",
            ));
        }
        drivers::check_tls(scenario, driven, wants_tls)
    }
}

fn check_fault(choice: &FaultChoice, card: &FaultCard, compose: &Compose) -> Result<(), String> {
    let servers = compose.addresses().len();
    if servers < card.least_servers {
        let least = counted(card.least_servers, "server", "servers");
        let there = if servers == 1 { "is" } else { "are" };
        return Err(format!("it needs at least {least}, but there {there} {servers}"));
    }
    match choice.target {
        Target::Server(number) if number > servers => {
            return Err(format!("there is no server {number}: they are numbered 1 to {servers}"));
        }
        _ => {}
    }
    match card.needs {
        Capability::Processes => compose.can_be_ended(),
        Capability::Isolation => compose.can_be_isolated(),
        // The scenario's rules refuse them.
        Capability::Links | Capability::Proxies | Capability::Contenders => Ok(()),
    }
}
