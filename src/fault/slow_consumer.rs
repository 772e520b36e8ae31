//! `slow-consumer`: a contender looks late at what it is told.

use rand_chacha::ChaCha8Rng;

use super::active::Active;
use super::site::Site;
use super::{Entry, wire};
use crate::catalog::fault::{Capability, Ends, FaultCard, FaultChoice, Targets};
use crate::catalog::{Param, ParamKind};

/// Description.
pub const CARD: FaultCard = FaultCard {
    name: "slow-consumer",
    summary: "a contender reads replies and events late",
    source: "ZooKeeper Programmer's Guide, Java binding: callbacks that hold up the event thread",
    details: "\
Inject: the proxy takes what a server sends to the contender off its hands `lag` late, and 16 KiB at a time.
Proof: the contender has connections, and they pass through the proxy.
Heal: nothing is kept back any more.

A right lock: the contender's own handoffs become longer by `lag` for each look that it takes, and those of
the others stay as they are. A release must not wait for a notification that the slow one has yet to look at.
Where it misleads: the lag is the proxy's; the contender itself is as quick as before.",
    targets: Targets::Contenders,
    refuses: &[],
    default_target: "holder",
    ends: Ends::Healed,
    needs: Capability::Proxies,
    least_servers: 1,
    stops_service: false,
    needs_key: None,
    params: &[Param {
        name: "lag",
        kind: ParamKind::Duration,
        default: "100ms",
        doc: "How late it looks at each reply and event.",
    }],
};

/// Description and deed.
pub const ENTRY: Entry =
    Entry { card: CARD, inject: |choice, site, draw| Box::pin(inject(choice, site, draw)) };

async fn inject<'a>(
    choice: &'a FaultChoice,
    site: &'a Site<'a>,
    mut draw: ChaCha8Rng,
) -> Result<Active<'a>, String> {
    let (proxy, hit) = (site.proxy()?, wire::aim_at(choice, site, &mut draw).await?);
    let lag = wire::time(choice, "lag");
    Ok(wire::turn(hit, proxy, "the proxy reads late", |who| proxy.slow_reader(who, lag)).await)
}
