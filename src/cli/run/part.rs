//! A worker's part of a run, and where it meets the other workers.

use std::time::Duration;

use super::host;
use crate::cli::scenario_file::ScenarioFile;
use zklockbench_core::connect::{Connect, FORM};
use zklockbench_core::error::Error;
use zklockbench_ensemble::namespace_of;
use zklockbench_load::{Credentials, MeetingPlace, Rendezvous, TOP, Wait};
use zklockbench_record::{WorkerPart, Workers};
use zklockbench_results::digest_of;
use zklockbench_scenario::Slice;
use zklockbench_zk::Target;

pub struct WorkerPlace {
    pub slice: Slice,
    pub run_id: String,
    /// Address of the meeting point; `None` for the measured ensemble.
    pub rendezvous: Option<String>,
    pub wait: Duration,
    pub program: String,
}

impl WorkerPlace {
    pub async fn join(&self, target: &Target, file: &ScenarioFile) -> Result<Rendezvous, Error> {
        let (meeting, place) = match &self.rendezvous {
            Some(connect) => {
                let connect = Connect::parse(connect)
                    .map_err(|wrong| Error::usage(format!("--rendezvous: {wrong}. Write {FORM}")))?;
                let elsewhere = Target { connect: connect.text(), access: target.access.clone() };
                (elsewhere, MeetingPlace::Elsewhere)
            }
            None => {
                let (_, chroot) = target.parts();
                let shares = namespace_of(chroot, TOP) != namespace_of("", TOP);
                let place = if shares { MeetingPlace::SameNamespace } else { MeetingPlace::SameServers };
                (target.clone(), place)
            }
        };
        let credentials = Credentials {
            version: env!("CARGO_PKG_VERSION").into(),
            program: self.program.clone(),
            scenario: of_scenario(file),
            of: self.slice.of,
            host: host::describe().hostname,
        };
        let wait = Wait { place, patience: self.wait };
        Rendezvous::join(&meeting, &self.run_id, self.slice, &credentials, wait).await
    }

    pub fn part(&self, file: &ScenarioFile, generator_threads: usize) -> Workers {
        let host = host::describe().hostname;
        let text = format!("{} {}", of_scenario(file), self.program);
        Workers {
            run_id: self.run_id.clone(),
            of: self.slice.of,
            configuration: digest_of(text.as_bytes()),
            parts: vec![WorkerPart { index: self.slice.index, host, generator_threads }],
        }
    }
}

/// The SHA-256 of a scenario as it runs, including overrides and the replayed file.
fn of_scenario(file: &ScenarioFile) -> String {
    let replayed = file.replayed.as_ref().map_or("", |replayed| replayed.sha256.as_str());
    digest_of(format!("{}\n{replayed}", file.text).as_bytes())
}
