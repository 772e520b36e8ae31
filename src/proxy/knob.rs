//! Guards of what the proxy does to connections: dropped, they undo it.

use std::sync::Arc;

use tokio::sync::watch;

use super::loss::{Part, Struck};
use super::setting::{Setting, Who};
use super::table::Table;
use crate::measure::RequestKind;

/// Something that holds for connections as long as this lives.
#[must_use = "dropped, it undoes what was set"]
#[derive(Debug)]
pub struct Knob {
    table: Arc<Table>,
    number: u64,
}

impl Knob {
    pub(super) fn set(table: &Arc<Table>, who: Who, setting: Setting) -> Self {
        Self { table: Arc::clone(table), number: table.set(who, setting) }
    }

    /// Undoes it, as dropping does. Other knobs for the same connections keep their effect.
    pub fn heal(self) {}
}

impl Drop for Knob {
    fn drop(&mut self) {
        self.table.unset(self.number);
    }
}

/// A request or a reply that is to be lost, as long as this lives.
#[must_use = "dropped, it loses nothing"]
#[derive(Debug)]
pub struct LostMessage {
    table: Arc<Table>,
    number: u64,
    told: watch::Receiver<Option<Struck>>,
}

impl LostMessage {
    pub(super) fn arm(table: &Arc<Table>, of: (i64, Part), kinds: &[RequestKind]) -> Self {
        let (number, told) = table.arm(of, kinds);
        Self { table: Arc::clone(table), number, told }
    }

    /// The request that was struck, if one was by now.
    #[must_use]
    pub fn struck(&self) -> Option<Struck> {
        self.told.borrow().clone()
    }

    /// Waits until a request is struck; for ever if none comes. On any executor.
    pub async fn strikes(&self) -> Struck {
        let mut told = self.told.clone();
        loop {
            if let Some(struck) = self.struck() {
                return struck;
            }
            if told.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for LostMessage {
    fn drop(&mut self) {
        self.table.disarm(self.number);
    }
}
