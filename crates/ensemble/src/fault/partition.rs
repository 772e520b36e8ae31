//! `partition`: splits the servers into groups that cannot reach each other.

use super::aim;
use super::outage::{LINKS_CHANGE, begin, until_lifted};
use super::reach::Effect;
use super::{Active, FaultEntry, Firing};
use zklockbench_core::catalog::fault::{Capability, FaultCard};
use zklockbench_core::catalog::{Param, ParamKind};

pub const CARD: FaultCard = FaultCard {
    name: "partition",
    summary: "splits the network between the servers, in one of four shapes",
    source: "Jepsen's partition nemeses: halves, bridge, one-way",
    details: "\
Inject: packets between groups of servers are dropped; contenders still reach every server. `shape` selects the
groups:
`minority`: the leader is on the smaller side, so the other side elects a new leader and the old one steps down.
`majority`: the leader is on the larger side and continues; the servers on the smaller side stop serving.
`one-way`: packets from the leader to the followers are lost, but packets from the followers arrive. The leader seems
dead to the followers but not to itself.
`bridge`: two halves cannot reach each other, but both can reach one server, which is not the leader.
Proof: no datagram passes through any cut link.
Heal: the links work again; healed when every server can reach every other server and the ensemble is healthy.

A correct lock: contenders on the losing side are disconnected or time out, and reconnect elsewhere. For a moment, two
servers consider themselves the leader, but only one can commit. The other answers reads with stale data for up to a
tick before it steps down and disconnects its contenders. No contender may enter because of stale data: a later holder
always has a larger fencing token. Under `one-way` and `bridge`, elections may take several rounds; no contender
acquires the lock during that time, which is slow but not wrong.
Caveat: servers on one host elect a leader within tenths of a second; an election over a network takes
longer.",
    needs: Capability::Links,
    least_servers: 3,
    params: &[Param {
        name: "shape",
        kind: ParamKind::OneOf(&["minority", "majority", "one-way", "bridge"]),
        default: "minority",
        doc: "Leader on the smaller side, on the larger side, or cut off in one direction; or halves with \
            a bridge.",
    }],
    ..FaultCard::FIXED
};

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, .. }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    reach.links()?;
    let leader = aim::leader(reach).await?;
    let ways = ways(choice.word("shape"), leader, processes.servers());
    let cuts: Vec<Effect> = ways.iter().map(|(from, to)| Effect::Cut(*from, *to)).collect();
    let seen = begin(&cuts, LINKS_CHANGE, reach).await;
    let seen = seen.map(|_| format!("no packets pass {}", described(&ways)));
    Ok(until_lifted(format!("the network, leader {leader}"), seen, cuts, reach))
}

/// Returns the pairs of servers between which packets are dropped, as `(from, to)`.
fn ways(shape: &str, leader: usize, servers: usize) -> Vec<(usize, usize)> {
    let others: Vec<usize> = (1..=servers).filter(|server| *server != leader).collect();
    let minority = (servers - 1) / 2;
    match shape {
        "one-way" => others.iter().map(|other| (leader, *other)).collect(),
        "majority" => {
            let (small, large) = others.split_at(minority);
            between(small, &[large, &[leader]].concat())
        }
        "bridge" => {
            // The first follower is the bridge, which can reach all servers.
            let rest = &others[1..];
            let (one, other) = rest.split_at(rest.len() / 2);
            between(&[one, &[leader]].concat(), other)
        }
        _ => {
            let (with_leader, large) = others.split_at(minority - 1);
            between(&[with_leader, &[leader]].concat(), large)
        }
    }
}

fn between(one: &[usize], other: &[usize]) -> Vec<(usize, usize)> {
    one.iter().flat_map(|a| other.iter().flat_map(|b| [(*a, *b), (*b, *a)])).collect()
}

fn described(ways: &[(usize, usize)]) -> String {
    ways.iter().map(|(from, to)| format!("from {from} to {to}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_shape_cuts_the_expected_links() {
        assert_eq!(ways("minority", 2, 3), between(&[2], &[1, 3]));
        assert_eq!(ways("majority", 2, 3), between(&[1], &[3, 2]));
        assert_eq!(ways("one-way", 2, 3), [(2, 1), (2, 3)]);
        // Server 1 of three is the bridge: the leader and server 3 cannot reach each other.
        assert_eq!(ways("bridge", 2, 3), between(&[2], &[3]));
        assert_eq!(ways("minority", 1, 5), between(&[2, 1], &[3, 4, 5]));
        assert_eq!(ways("bridge", 1, 5), between(&[3, 1], &[4, 5]));
    }
}
