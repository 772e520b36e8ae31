//! Compares one lock under the same load on 1, 3 and 5 local servers.

use std::time::Duration;

use super::evidence::StoredEvidence;
use super::measuring::{self, PlanEnsemble, Planning, STARTS};
use super::question::{AskedLoad, PlanArgs};
use super::{effort, load_and_evidence};
use crate::cli::output;
use crate::cli::shared_args::PlaceArgs;
use zklockbench_analysis::plan::{Answer, ByServers};
use zklockbench_core::error::Error;
use zklockbench_core::units::counted;

const SIZES: [i64; 3] = [1, 3, 5];
/// Default size of a local ensemble.
const USUAL: i64 = 3;

/// Returns all sizes except the size of the plan's ensemble.
fn others(args: &PlanArgs) -> impl Iterator<Item = i64> {
    let own = own(args);
    SIZES.into_iter().filter(move |size| *size != own)
}

/// Returns the size of the plan's ensemble.
pub fn own(args: &PlanArgs) -> i64 {
    args.place.servers.unwrap_or(USUAL)
}

/// Returns the expected duration of the comparison.
pub fn takes(args: &PlanArgs, asked: &AskedLoad, strategies: &[String]) -> Duration {
    let one = &strategies[..strategies.len().min(1)];
    others(args).map(|size| STARTS + measuring::service_takes(asked, one, args, 1, size > 1)).sum()
}

impl Planning<'_> {
    /// Measures the other sizes. A size that cannot be measured is skipped with a warning.
    pub async fn other_sizes(&mut self, strategy: &String) -> Result<Vec<ByServers>, Error> {
        let mut rows = Vec::new();
        for size in others(self.args) {
            match self.size(size, strategy).await {
                Ok(row) => rows.push(row),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(why) => output::warn(format!("not measured with {size} servers: {why}")),
            }
        }
        Ok(rows)
    }

    async fn size(&mut self, size: i64, strategy: &String) -> Result<ByServers, Error> {
        let place = PlaceArgs { servers: Some(size), ..self.args.place.clone() };
        let servers = counted(size, "server", "servers");
        self.countdown.note(&format!("measuring the same load with {servers}"));
        let opened = self.open(place).await?;
        self.countdown.done(STARTS);
        let opened = PlanEnsemble { prefix: format!("servers-{size}-"), repetitions: 1, ..opened };
        let mut stored_evidence = StoredEvidence::of(self.asked);
        let strategies = std::slice::from_ref(strategy);
        let measured = self.measure(&opened, strategies, &mut stored_evidence).await;
        opened.ready.close();
        measured?;
        let (load, evidence) = load_and_evidence(strategy, &stored_evidence, &self.asked.load);
        let objective = &self.asked.question.objective;
        let answer = Answer::of(strategy, &evidence, &load, objective, effort(self.args));
        let row = ByServers::of(usize::try_from(size).unwrap_or_default(), &answer, objective);
        Ok(stored_evidence.with_writes(row))
    }
}
