//! What a scenario's faults need of the ensemble and of the suite, and whether it is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::fault::Capability;
use crate::cli::args::RunArgs;
use crate::ensemble::links_capability;
use crate::error::Error;
use crate::fault;
use crate::proxy::Proxy;
use crate::scenario::{EnsembleChoice, Scenario};

/// All that the scenario's faults need.
pub struct Needs(BTreeSet<Capability>);

impl Needs {
    /// Of that scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let need = |kind: &String| fault::find(kind).map(|entry| entry.card.needs);
        Self(scenario.faults.iter().filter_map(|choice| need(&choice.kind)).collect())
    }

    /// Whether something is to be done to servers, which then must have been started for the run.
    pub fn own_servers(&self) -> bool {
        self.0.contains(&Capability::Processes) || self.links()
    }

    /// Whether servers are to be cut off from each other.
    pub fn links(&self) -> bool {
        self.0.contains(&Capability::Links)
    }

    /// What stands before those servers from the start, if a fault is to turn a knob of it.
    ///
    /// # Errors
    /// When the system has no port left for it.
    pub fn proxy(&self, servers: &[String]) -> Result<Option<Arc<Proxy>>, Error> {
        if !self.0.contains(&Capability::Proxies) {
            return Ok(None);
        }
        Proxy::before(servers).map(|proxy| Some(Arc::new(proxy)))
    }

    /// Refuses what cannot be done here, before anything is started.
    ///
    /// # Errors
    /// Usage, with what to do instead.
    pub fn check(&self, scenario: &Scenario, args: &RunArgs) -> Result<(), Error> {
        if self.links() {
            links_capability()
                .map_err(|why| Error::usage(format!("faults of the network between servers: {why}")))?;
        }
        let is_external = matches!(scenario.ensemble, EnsembleChoice::Connect(_));
        if is_external && !self.0.is_empty() && !args.allow_faults {
            return Err(Error::usage(
                "the scenario breaks things, and the ensemble is not one that was started for it: \
                 --allow-faults lets its own contenders and their connections be broken there, never the servers",
            ));
        }
        if self.0.contains(&Capability::Proxies) && args.access.wants_tls() {
            return Err(Error::usage(
                "faults of contenders' connections need to read what passes, and TLS keeps it secret: \
                 leave one of the two out",
            ));
        }
        Ok(())
    }
}
