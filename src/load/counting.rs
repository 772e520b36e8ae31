//! Counts a lock's requests on the wire: in a trial of its own, through a proxy that reads what passes. Nothing of it is timed.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::shared::COUNTING_LASTS;
use super::trial::run_counted;
use super::{Environment, EnvironmentEvent, Sink};
use crate::lock::{self, Entry};
use crate::record::{CountedTurns, Counting, Trial};
use crate::scenario::{Stop, TrialSpec};
use crate::words::error::Error;
use crate::words::measure::WireCounts;
use crate::world::proxy::{Proxy, Wired};

/// Runs a trial like that one, but shorter and without faults, and counts on the wire. The trial itself is for those who judge
/// whether the lock held.
pub async fn count(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
) -> Result<(Counting, Trial), Error> {
    let (proxy, wire) = Proxy::counting(&environment.servers)?;
    let through = Environment {
        target: environment.target.clone(),
        workspace: environment.workspace.clone(),
        servers: environment.servers.clone(),
        namespace: environment.namespace.clone(),
        threads: environment.threads,
        keep_awake: environment.keep_awake,
        local: None,
        keeps_history: false,
        scratch: environment.scratch.clone(),
        proxy: Some(Arc::new(proxy)),
        rendezvous: None,
    };
    let stop = match spec.stop {
        Stop::After(duration) => Stop::After(duration.min(COUNTING_LASTS)),
        acquisitions @ Stop::Acquisitions(_) => acquisitions,
    };
    let none = Duration::ZERO;
    let spec = TrialSpec {
        stop,
        ramp_up: none,
        warm_up: none,
        warm_up_at_most: none,
        faults: Vec::new(),
        ..spec.clone()
    };
    // What is timed is nobody's business here.
    let only_warnings = |event: EnvironmentEvent<'_>| {
        if matches!(event, EnvironmentEvent::Warning(_)) {
            sink(event);
        }
    };
    let trial = run_counted(&through, &spec, entry, interrupt, &only_warnings, Arc::clone(&wire)).await?;
    drop(through);
    Ok((counting(wire.counted(), &trial), trial))
}

fn counting(Wired { first, later, whole, fan_out }: Wired, trial: &Trial) -> Counting {
    if let Some(cut) = &trial.cut_short {
        return Counting::failed(cut.why.clone());
    }
    let turns = if later.acquired > 0 { CountedTurns::AfterTheFirst } else { CountedTurns::All };
    let counted = match turns {
        CountedTurns::AfterTheFirst => later,
        CountedTurns::All => sum(first, &later),
    };
    if counted.acquired == 0 {
        return Counting::failed("nobody acquired the lock in the trial that counts".into());
    }
    let is_driven = lock::driven(&trial.spec.strategy.name).is_some();
    if is_driven && whole.all_requests() == 0 {
        return Counting::failed(
            "nothing that it sent was seen between it and the servers: it may have connected elsewhere"
                .into(),
        );
    }
    Counting {
        missing: None,
        turns,
        counted,
        by_release: fan_out.as_ref().ok().map(|fan_out| match turns {
            CountedTurns::AfterTheFirst => fan_out.by_later,
            CountedTurns::All => fan_out.by_first + fan_out.by_later,
        }),
        whole,
        whole_by_release: fan_out.as_ref().ok().map(|fan_out| fan_out.by_all),
        by_release_missing: fan_out.err(),
        client: (!is_driven).then_some(trial.whole),
    }
}

fn sum(mut one: WireCounts, other: &WireCounts) -> WireCounts {
    one.merge(other);
    one
}
