//! `no-lock`: the negative control. Every acquire succeeds at once.

use crate::prelude::*;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "no-lock",
        summary: "no lock: the negative control, for which the checker must always report a violation",
        source: "negative control of this suite",
        details: include_str!("no_lock.md").trim_ascii_end(),
        guarantees: Guarantees { exclusive: false, fifo: false, watches: false, ..Guarantees::QUEUE },
        batch_cost: Some(|_, _| BatchCost { names_returned: Some(0), ..BatchCost::default() }),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |_: &LockConfig| Box::new(NoLock),
};

struct NoLock;

#[async_trait(?Send)]
impl Strategy for NoLock {
    async fn acquire(&mut self, _: &Session, _: Mode, patience: &Patience) -> Acquired {
        if patience.cancel.is_cancelled() {
            return Err(AcquireError::Cancelled);
        }
        // Yield to the other contenders; otherwise a contender that never waits would keep its thread.
        runtime::yield_now().await;
        Ok(Held::of(None))
    }
}
