//! What a connection is told while it lives.

use std::sync::Arc;

use super::setting::Settings;

/// How a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Both sides see it reset.
    Reset,
    /// Both sides see the other close it.
    Cut,
}

/// What holds for a connection now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// What the knobs set for it.
    pub settings: Arc<Settings>,
    /// It is to end so.
    pub ending: Option<Ending>,
}

impl Orders {
    /// How the connection is to end, if it is.
    pub fn ending(&self) -> Option<Ending> {
        self.ending.or(self.settings.refused.then_some(Ending::Reset))
    }
}
