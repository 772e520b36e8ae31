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
next one. `join` is a create or a multi and `release` a delete or a multi, whichever comes first: with them one
scenario hits every lock. `list` is a request for children with or without a watch; `watch` is any read that sets
one.
Proof: the reply has arrived in the proxy and says that the request succeeded; the connection is gone.
Ends by itself, with that one request. If the contender sends none within 30 s, it is not proved.

A correct lock: after a `create` it must find out whether its node is there, or let it die with its session: a node
that nobody knows about blocks the queue for as long as the session lives (an orphan). After a `delete` it must not
believe that it still holds, nor leave the node behind. After a `multi` either all of it has happened or nothing.
After a `list` or a `watch` it looks again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    params: &[Param { doc: "Which request loses its reply.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry =
    FaultEntry { card: CARD, inject: |firing| Box::pin(lose(firing, Proxy::drop_reply, tell)) };

fn tell(struck: &Struck) -> String {
    format!("the server had done it by transaction 0x{:x}", struck.zxid)
}
