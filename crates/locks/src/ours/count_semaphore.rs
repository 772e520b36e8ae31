//! `count-semaphore`: one holder per lease, each admitted by a single write while leases are free.

use super::ahead::{Ahead, joining};
use crate::after::GOES_ON_BY_ONE_NODE;
use crate::curator::semaphore::LEASES;
use crate::prelude::*;
use crate::queue::joining::COUNTING;

pub const ENTRY: Entry = Entry {
    card: LockCard {
        name: "count-semaphore",
        summary: "a semaphore whose leases are the lowest nodes of a queue: one request while a lease is free",
        source: "this suite",
        details: include_str!("count_semaphore.md").trim_ascii_end(),
        guarantees: Guarantees {
            protection: Protection::Complete,
            holders: Holders::Leases("leases"),
            ..Guarantees::QUEUE
        },
        after: &[GOES_ON_BY_ONE_NODE],
        params: &[LEASES, COUNTING],
        batch_cost: Some(batch_cost),
        ..LockCard::OF_ZOOKEEPER
    },
    build: |config: &LockConfig| {
        let room = usize::try_from(leases(&config.params)).unwrap_or(usize::MAX);
        let habits = Habits { keeps_watches: true, room, ..Habits::patient(Retry::USUAL) };
        let joining = Joining { lists_along: true, helped_up_to: room, ..joining(&COUNTING, config) };
        Box::new(Ahead { queue: Queue::new(&config.path, habits, joining), kind: "lease-", watched: room })
    },
};

fn leases(params: &Params) -> u64 {
    count_of(params, LEASES.name, 1)
}

fn batch_cost(params: &Params, n: u64) -> BatchCost {
    if is_count(&COUNTING, params) {
        return cost::counted_semaphore(leases(params), n);
    }
    cost::queue_semaphore(leases(params), n)
}
