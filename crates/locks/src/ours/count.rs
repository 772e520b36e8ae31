//! `count`: acquires a free lock with one request.

use super::baton::{self, Baton, RELEASE};
use crate::after::ENDS_BY_COUNT;
use crate::prelude::*;
use crate::queue::joining::COUNTING;
use crate::wait::BLOCKING;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "count",
        summary: "a queue lock whose uncontended acquire is one request: the join itself shows how many nodes \
            are ahead",
        source: "this suite",
        details: include_str!("count.md").trim_ascii_end(),
        guarantees: Guarantees::QUEUE,
        after: &[ENDS_BY_COUNT],
        params: &[COUNTING, RELEASE, BLOCKING],
        batch_cost: Some(|params, n| baton::batch_cost(&COUNTING, params, n)),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| Box::new(Baton::new(&COUNTING, config)),
};
