//! `expire`: a contender's session ends while the contender is alive.

use super::{Active, FaultEntry, Firing, aim};
use std::time::Duration;
use zklockbench_core::catalog::fault::{FaultCard, Proof};

pub const CARD: FaultCard = FaultCard {
    name: "expire",
    summary: "closes a contender's session from another connection",
    source: "ZooKeeper FAQ, expiring a session for testing; kazoo's expire_session",
    details: "\
Inject: a second connection presents the session's id and password, and closes the session.
Proof: a server has answered the close, which also deletes the session's ephemeral nodes. The password of a driver's
session is known only if the answer to `open` contains it; without it the fault has no effect and is reported as not
proved.
Ends by itself: the contender opens a new session.

A correct lock: the nodes are deleted at once, so the next contender acquires at once. The former holder believes
that it holds until its client has reconnected and learned of the expiry; until then it is a zombie. It must not use
the new session to release what it acquired with the old one.",
    ..FaultCard::CONTENDERS
};

/// Time to reach a server and have it close the session, long enough for an election.
const DEADLINE: Duration = Duration::from_secs(30);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, mut draw }: Firing<'_>) -> Result<Active<'_>, String> {
    let hit = aim::contenders(&choice.target, reach, &mut draw).await?;
    let mut closed = Vec::new();
    for contender in &hit {
        let key = aim::session(*contender, reach).await?;
        let id = key.id();
        // Recorded first, because the next contender may enter before the reply arrives.
        reach.contenders.is_being_closed(*contender, id);
        reach.target.expire(key, DEADLINE).await.map_err(|failure| failure.to_string())?;
        reach.contenders.was_closed(*contender, id);
        closed.push(format!("0x{id:x}"));
    }
    let proof = Proof::Proved(format!("the server has closed session {}", closed.join(", ")));
    Ok(Active::over(aim::name(&hit, &choice.target), proof))
}
