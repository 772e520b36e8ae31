//! Compares the same load on 1, 3 and 5 local servers, with one lock.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::countdown::Countdown;
use super::evidence::StoredEvidence;
use super::load_and_evidence;
use super::measuring::{self, Measuring, PlanRuns, STARTS};
use super::question::{AskedLoad, PlanArgs};
use crate::cli::output;
use crate::run::series::Series;
use zklockbench_analysis::plan::{Answer, ByServers, Effort};
use zklockbench_core::error::Error;

const SIZES: [i64; 3] = [1, 3, 5];
/// Size of a local ensemble unless an option names one.
const USUAL: i64 = 3;

/// Sizes other than the plan's own.
fn others(args: &PlanArgs) -> impl Iterator<Item = i64> {
    let own = own(args);
    SIZES.into_iter().filter(move |size| *size != own)
}

/// Size of the plan's own ensemble.
pub fn own(args: &PlanArgs) -> i64 {
    args.place.servers.unwrap_or(USUAL)
}

/// Expected time of the comparison.
pub fn takes(args: &PlanArgs, asked: &AskedLoad, strategies: &[String]) -> Duration {
    let one = &strategies[..strategies.len().min(1)];
    others(args).map(|size| STARTS + measuring::service_takes(asked, one, args, 1, size > 1)).sum()
}

pub struct Comparing<'a> {
    pub args: &'a PlanArgs,
    pub asked: &'a AskedLoad,
    pub strategy: String,
    pub stop: &'a CancellationToken,
}

impl Comparing<'_> {
    /// The rows of the other sizes. A size that cannot be measured is left out, with a warning.
    pub async fn rows(
        &self,
        series: &mut Series,
        countdown: &mut Countdown,
    ) -> Result<Vec<ByServers>, Error> {
        let mut rows = Vec::new();
        for size in others(self.args) {
            match self.row(size, series, countdown).await {
                Ok(row) => rows.push(row),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(why) => output::warn(format!("{size} servers were not measured: {why}")),
            }
        }
        Ok(rows)
    }

    async fn row(
        &self,
        size: i64,
        series: &mut Series,
        countdown: &mut Countdown,
    ) -> Result<ByServers, Error> {
        let mut args = self.args.clone();
        args.place.servers = Some(size);
        countdown.note(&format!("the same with {size} {}", if size == 1 { "server" } else { "servers" }));
        let opened = measuring::open(&args, series, self.stop).await?;
        countdown.done(STARTS);
        let prefix = format!("servers-{size}-");
        let runs = PlanRuns { series, ensemble: &opened, args: &args, stop: self.stop };
        let mut measuring = Measuring { asked: self.asked, countdown, runs, prefix: &prefix, repetitions: 1 };
        let mut stored_evidence = StoredEvidence::of(self.asked);
        let measured = measuring.run(std::slice::from_ref(&self.strategy), &mut stored_evidence).await;
        opened.close();
        measured?;
        let (load, evidence) = load_and_evidence(&self.strategy, &stored_evidence, &self.asked.load);
        let objective = &self.asked.question.objective;
        let effort = Effort { arrivals: f64::from(args.simulate), ..Effort::whole(args.seed) };
        let answer = Answer::of(&self.strategy, &evidence, &load, objective, effort);
        let row = ByServers::of(usize::try_from(size).unwrap_or_default(), &answer, objective);
        Ok(stored_evidence.with_writes(row))
    }
}
