//! `drop-request`: one request never reaches the ensemble.

use super::FaultEntry;
use super::wire::{REQUEST, lose};
use crate::proxy::{Proxy, Struck};
use zklockbench_core::catalog::Param;
use zklockbench_core::catalog::fault::{Ends, FaultCard};

pub const CARD: FaultCard = FaultCard {
    name: "drop-request",
    summary: "loses a request together with the connection before any server has seen it",
    source: "CURATOR-678; Curator's guaranteed delete",
    details: "\
Inject: the proxy waits for the contender's next request of the kind `request`, passes on earlier requests, keeps
this one and closes the connection. The session lives on. The kinds are those of `drop-reply`. The client cannot
tell the two faults apart: both are a lost connection.
Proof: the proxy has kept the request; the connection is gone.
Ends by itself, with that one request. If the contender sends none within 30 s, the fault is not proved.
With TLS the proxy cannot read requests, so the fault is refused.

A correct lock: after a `delete` or a release's `multi` it must send the request again or end its session; otherwise
its node stays and blocks the queue for as long as the session lives. After a `create` it must not believe that it
has a node. After a `list` or a `watch` it reads again.",
    refuses: &["all"],
    default_target: "any",
    ends: Ends::ByItself,
    reads_requests: true,
    params: &[Param { default: "delete", doc: "Which request is lost.", ..REQUEST }],
    ..FaultCard::CONNECTIONS
};

pub const ENTRY: FaultEntry =
    FaultEntry { card: CARD, inject: |firing| Box::pin(lose(firing, Proxy::drop_request, tell)) };

fn tell(struck: &Struck) -> String {
    format!("kept back: {} {}", struck.request.kind.name(), struck.request.path)
}
