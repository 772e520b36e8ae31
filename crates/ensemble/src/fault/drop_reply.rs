//! `drop-reply`: one request is carried out, but its reply never arrives.

use super::FaultEntry;
use super::wire::{REQUEST, lose};
use crate::proxy::{Proxy, Struck};
use zklockbench_core::catalog::Param;
use zklockbench_core::catalog::fault::{Ends, FaultCard};

pub const CARD: FaultCard = FaultCard {
    name: "drop-reply",
    summary: "lets a request be carried out, but loses its reply together with the connection",
    source: "Curator's CreateBuilder.withProtection; ZooKeeper's recipes page, recoverable errors",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, passes it on, keeps its reply and
then closes the connection. If the server refuses the request, the refusal is passed on and the proxy waits for the
next one. `join` is a create or a multi and `release` a delete or a multi, whichever comes first, so that one
scenario hits every lock. `list` is a request for children with or without a watch; `watch` is any read that sets
one.
Proof: the reply has arrived in the proxy and reports success; the connection is gone.
Ends by itself, with that one request. If the contender sends none within 30 s, the fault is not proved.
With TLS the proxy cannot read requests, so the fault is refused.

A correct lock: after a `create` it must find out whether its node exists, or let it end with its session: a node
that no contender knows about (an orphan) blocks the queue for as long as the session lives. After a `delete` it
must neither believe that it still holds nor leave the node behind. A `multi` took effect completely or not at all.
After a `list` or a `watch` it reads again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    reads_requests: true,
    params: &[Param { doc: "Which request loses its reply.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry =
    FaultEntry { card: CARD, inject: |firing| Box::pin(lose(firing, Proxy::drop_reply, tell)) };

fn tell(struck: &Struck) -> String {
    format!("the server had executed it as transaction 0x{:x}", struck.zxid)
}
