//! `clock-jump`: a waiter's clock jumps ahead while it waits with a deadline.

use std::time::Duration;

use super::aim::{self, proof, until};
use super::{Active, FaultEntry, Firing, wire};
use zklockbench_core::catalog::fault::FaultCard;
use zklockbench_core::catalog::{Param, ParamKind};
use zklockbench_core::clock;

pub const CARD: FaultCard = FaultCard {
    name: "clock-jump",
    summary: "the clock behind a waiter's acquire deadline jumps ahead",
    source: "Jepsen's clock nemesis; ZooKeeper's own use of a monotonic clock for timeouts",
    details: "\
Inject: the deadline of the current acquire is moved `by` nearer, as if the clock had been set.
Proof: the acquire has ended within 10 s: timed out at the moved deadline, or acquired before it.
Ends by itself, with that acquire.

A correct lock: it times out early and leaves cleanly. Its node is deleted, the next contender's watch on it fires,
and no contender enters because of that alone. Sessions are not affected, because their timeouts use a monotonic
clock.
A jump shorter than the remaining time only shortens it. `acquire_timeout` must be set.",
    refuses: &["holder"],
    default_target: "waiter",
    needs_key: Some("acquire_timeout"),
    params: &[Param {
        name: "by",
        kind: ParamKind::Duration,
        default: "1h",
        doc: "How far the clock jumps.",
    }],
    ..FaultCard::CONTENDERS
};

const NOTICES: Duration = Duration::from_secs(10);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let by = wire::time(choice, "by");
    hit.iter().for_each(|contender| reach.contenders.clock_jumps(*contender, by));
    let begin = clock::now();
    let waits =
        || hit.iter().any(|one| reach.contenders.waits_since(*one).is_some_and(|since| since <= begin));
    let noticed = until(NOTICES, || !waits(), "it still waited").await;
    let proof = proof(noticed.map(|()| "its acquire has ended".to_owned()));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}
