//! `pause`: a server's process is stopped, and resumed when the fault ends.

use std::time::Duration;

use super::FaultEntry;
use super::outage::break_targets;
use super::reach::Effect;
use zklockbench_core::catalog::fault::FaultCard;

pub const CARD: FaultCard = FaultCard {
    name: "pause",
    summary: "pauses a server (SIGSTOP, then SIGCONT), as a long garbage collection would",
    source: "Jepsen's pause nemesis",
    details: "\
Inject: SIGSTOP to the server's Java process. Its sockets stay open and swallow everything that is sent.
Proof: the system reports that the process is stopped, and the server does not answer.
Heal: SIGCONT; healed when the ensemble is healthy. It is sent however the trial ends, because a stopped process
cannot even be ended cleanly.

A correct lock: it gets no notice. Contenders of that server move after two thirds of their session timeout without
an answer. A leader is replaced after `syncLimit` ticks. When it wakes up it considers itself the leader for up to a
tick. Clients that read from it then get outdated data; its writes find no majority. A lock that decides by a read
must not enter because of an old list.
Where it misleads: a pause shorter than the timeouts of the others shows up only as waiting.",
    stops_service: true,
    ..FaultCard::SERVERS
};

const FALLS_SILENT: Duration = Duration::from_secs(20);

pub const ENTRY: FaultEntry =
    FaultEntry { card: CARD, inject: |firing| Box::pin(break_targets(Effect::Still, FALLS_SILENT, firing)) };
