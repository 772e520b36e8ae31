//! What there is to be named.

use crate::words::catalog::LockCard;
use crate::words::catalog::fault::FaultCard;
use crate::words::measure::FigureCard;

/// All that a scenario may name.
#[derive(Debug, Clone)]
pub struct Catalog {
    pub locks: Vec<LockCard>,
    pub faults: Vec<FaultCard>,
    /// What gates can be about, percentiles apart.
    pub figures: Vec<&'static FigureCard>,
    /// Whether the user has given commands to break the servers of an existing ensemble.
    pub has_host_commands: bool,
}
