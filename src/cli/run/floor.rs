//! The floor of the ensemble, measured before the first trial: what handoffs and uncontended acquires are compared with.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::load::Environment;
use crate::load::calibrate::{self, CalibrationSite};
use crate::record::Floor;
use crate::words::error::Error;

/// How long it may take, with what it takes to prepare and to tidy up about a quarter of a second more.
const WITHIN: Duration = Duration::from_millis(1_200);

/// Measures it. A run goes on without one, and says why it has none.
pub async fn measure(environment: &Environment, cold: bool, stop: &CancellationToken) -> Floor {
    if cold {
        return Floor::not_measured("the servers were not warmed up (--cold)");
    }
    if stop.is_cancelled() {
        return Floor::not_measured("the run was interrupted");
    }
    let measured = measured(environment, stop).await;
    measured.unwrap_or_else(|error| Floor::not_measured(error.to_string()))
}

async fn measured(environment: &Environment, stop: &CancellationToken) -> Result<Floor, Error> {
    let place = environment.workspace.place("floor").await?;
    let site = CalibrationSite {
        target: environment.target.clone(),
        servers: environment.servers.clone(),
        place: place.clone(),
        keep_awake: environment.keep_awake,
        logs: Vec::new(),
        processes: Vec::new(),
    };
    let floor = calibrate::floor(site, WITHIN, stop).await;
    environment.workspace.clear(&place).await?;
    Ok(floor)
}
