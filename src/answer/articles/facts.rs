//! Claims about ZooKeeper itself, decided by a calibration that has tried what it does; and those that nothing decides.

use super::claim::{Answer, Article, BEHAVIOUR, CALIBRATIONS, CURATOR, Claim, DecisionDraft, Of};
use super::curator::{BACKGROUND, CuratorWatches, FOREGROUND};
use crate::answer::stats::{Interval, Pair, SignedRank, median};
use crate::results::record::{
    Bystander, Calibration, Change, NodeSize, RawRequest, Timing, WatchCell, WatchedBy,
};

/// A mebibyte, the largest thing that can be meant by 1 MB.
const MEBIBYTE: u64 = 1_048_576;
const MEGABYTE: u64 = 1_000_000;
/// A bystander whose 90th percentile grows by less than this factor is served as before.
const AS_BEFORE: f64 = 1.1;
/// What the intervals of a bystander's reads and writes may leave out, each of the two.
const LEFT_OUT: f64 = 0.05 / 2.0;

pub const CLAIMS: &[Claim] = &[
    Claim {
        number: 4,
        articles: &[Article::A1, Article::A4],
        text: "Contention can be seen, broken and debugged by browsing the tree",
        decided_by: "The list of a queue's nodes is its order, each node names its owner; a node deleted from outside lets \
                     the next one in, and its owner is told",
        needs: &[BEHAVIOUR],
        decide: |evidence| {
            let queue = evidence.behaviour()?.1.queue?;
            let seen = queue.in_order && queue.owners_told == 3 && queue.next_woken;
            let found = match (seen, queue.owner_told) {
                (false, _) => DecisionDraft::new(
                    Answer::Refuted,
                    "the tree does not show the queue, or can't be used to break it",
                ),
                (true, true) => DecisionDraft::new(
                    Answer::HoldsWhen,
                    "it can be seen and broken; whoever lost its node is told only if it watches its own node, which the \
                     recipes do not",
                ),
                (true, false) => DecisionDraft::new(
                    Answer::HoldsWhen,
                    "it can be seen and broken, but whoever lost its node is not told",
                ),
            };
            Some(
                found
                    .with("listed in order", yes(queue.in_order), Of::YesNo)
                    .with("nodes of 3 that name their owner", queue.owners_told as f64, Of::Amount)
                    .with("next one woken by a deletion from outside", yes(queue.next_woken), Of::YesNo)
                    .with("owner told by a watch on its own node", yes(queue.owner_told), Of::YesNo),
            )
        },
    },
    Claim {
        number: 5,
        articles: &[Article::A1],
        text: "A Redis lock is enough where consistency may be weak",
        decided_by: "Needs other coordinators",
        needs: &[],
        decide: |_| Some(DecisionDraft::new(Answer::NotDecided, "no other coordinator can be measured yet")),
    },
    Claim {
        number: 6,
        articles: &[Article::A2],
        text: "A node holds at most 1 MB of data",
        decided_by: "Creates of growing size with the servers' default limit, to the byte",
        needs: &[BEHAVIOUR],
        decide: |evidence| Some(node_size(evidence.behaviour()?.1.node_size?)),
    },
    Claim {
        number: 9,
        articles: &[Article::A2],
        text: "More servers: more reads, fewer writes",
        decided_by: "Reads and writes at saturation with 1, 3 and 5 servers. On one host the servers share its processors, \
                     so the write's round trip is given as well",
        needs: &[CALIBRATIONS],
        decide: |evidence| {
            let of = |servers| Some(&evidence.calibration(servers)?.what);
            more_servers([of(1)?, of(3)?, of(5)?])
        },
    },
    Claim {
        number: 10,
        articles: &[Article::A2],
        text: "All updates are totally ordered, each with a zxid",
        decided_by: "The transactions of sequential nodes that sessions on all servers create at once rise with their \
                     numbers",
        needs: &[BEHAVIOUR],
        decide: |evidence| {
            let order = evidence.behaviour()?.1.order?;
            let found = DecisionDraft::if_so(
                order.out_of_order == 0,
                "the transactions rise from number to number, whichever server was asked",
                "some nodes with a higher number have an earlier transaction",
            );
            Some(
                found
                    .with("nodes", order.nodes as f64, Of::Amount)
                    .with("sessions", order.sessions as f64, Of::Amount)
                    .with("neighbours out of order", order.out_of_order as f64, Of::Amount),
            )
        },
    },
    Claim {
        number: 11,
        articles: &[Article::A2],
        text: "A sequential node gets its number from the current count of children",
        decided_by: "The number after create, create, delete, create",
        needs: &[BEHAVIOUR],
        decide: |evidence| {
            let numbers = evidence.behaviour()?.1.numbers?;
            let found = match numbers.third {
                third if third == i64::try_from(numbers.children_then).ok()? => {
                    DecisionDraft::new(Answer::Confirmed, "the number is that of the children there are")
                }
                third if third == numbers.second + 1 => DecisionDraft::new(
                    Answer::Refuted,
                    "it is the parent's counter, which does not go back when a child is deleted",
                ),
                _ => DecisionDraft::new(
                    Answer::Refuted,
                    "it is neither the count of children nor the next number",
                ),
            };
            Some(
                found
                    .with("number of the second node", numbers.second as f64, Of::Amount)
                    .with("children when the third was created", numbers.children_then as f64, Of::Amount)
                    .with("number of the third node", numbers.third as f64, Of::Amount),
            )
        },
    },
    Claim {
        number: 12,
        articles: &[Article::A2],
        text: "A watch fires when a child is created, the data is set, the node or a child is deleted",
        decided_by: "Watches by getData, exists and getChildren against the four changes, each cell tried",
        needs: &[BEHAVIOUR],
        decide: |evidence| watches(evidence.behaviour()?.1.watches.as_ref()?),
    },
    Claim {
        number: 13,
        articles: &[Article::A2],
        text: "A watch fires once",
        decided_by: "Changes after the first, without setting it again, by the server's own count",
        needs: &[BEHAVIOUR],
        decide: |evidence| {
            let tried = evidence.behaviour()?.1.one_shot?;
            let found = DecisionDraft::if_so(
                tried.events == 1 && tried.changes > 1,
                "the first change fired it, the others did not",
                "it did not fire exactly once",
            );
            Some(found.with("changes", tried.changes as f64, Of::Amount).with(
                "events",
                tried.events as f64,
                Of::Amount,
            ))
        },
    },
    Claim {
        number: 15,
        articles: &[Article::A2],
        text: "Listing and setting the watch are one atomic step; no event is lost between",
        decided_by: "Rounds in which a create races with a list that sets a watch",
        needs: &[BEHAVIOUR],
        decide: |evidence| {
            let raced = evidence.behaviour()?.1.raced?;
            let found = DecisionDraft::if_so(
                raced.lost == 0 && raced.rounds > 0,
                "in every round the change was either in the list or notified",
                "some changes were neither in the list nor notified",
            );
            Some(
                found
                    .with("rounds", raced.rounds as f64, Of::Amount)
                    .with("in the list", raced.listed as f64, Of::Amount)
                    .with("notified", raced.notified as f64, Of::Amount)
                    .with("lost", raced.lost as f64, Of::Amount),
            )
        },
    },
    Claim {
        number: 17,
        articles: &[Article::A2],
        text: "The herd blocks other operations",
        decided_by: "A bystander's reads and writes on the same server while all of N waiting sessions are woken again and \
                     again, against one of the same N, in several rounds: by which factor their 90th percentiles grow (the \
                     requests that fall into what the herd asks for: a bystander asks again only when it was answered). \
                     Confirmed where the whole interval of one factor is above 1.1, refuted where those of both are below",
        needs: &[BEHAVIOUR],
        decide: |evidence| bystander(evidence.behaviour()?.1.bystander.as_ref()?),
    },
    Claim {
        number: 21,
        articles: &[Article::A2],
        text: "NoNode is only thrown when the session has expired, and retried by policy",
        decided_by: "What the owner of a node is told that was deleted from outside while its session lives",
        needs: &[BEHAVIOUR],
        decide: |evidence| {
            let queue = evidence.behaviour()?.1.queue?;
            let found = DecisionDraft::if_so(
                !queue.owner_gets_no_node,
                "with a living session there was no NoNode",
                "a node deleted from outside gives the same error while the session lives",
            );
            Some(found.with("NoNode with a living session", yes(queue.owner_gets_no_node), Of::YesNo))
        },
    },
    Claim {
        number: 33,
        articles: &[Article::A4],
        text: "removeWatchers deletes watches only for foreground use",
        decided_by: "The servers' count of watches around each way in which Java's Curator removes one",
        needs: &[CURATOR],
        decide: |evidence| removed_in_the_foreground_only(&evidence.curator()?.what),
    },
    Claim {
        number: 35,
        articles: &[Article::A4],
        text: "A ZooKeeper lock is slower than one in Redis",
        decided_by: "Needs other coordinators",
        needs: &[],
        decide: |_| Some(DecisionDraft::new(Answer::NotDecided, "no other coordinator can be measured yet")),
    },
];

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn node_size(size: NodeSize) -> DecisionDraft {
    let NodeSize { accepted_bytes: accepted, refused_bytes: refused } = size;
    let found = if refused > MEBIBYTE + 1 {
        DecisionDraft::new(Answer::Refuted, "a node holds more than a mebibyte")
    } else if accepted >= MEGABYTE {
        let short = MEBIBYTE - accepted.min(MEBIBYTE);
        let how =
            format!("the limit is of the whole request, so the data end {short} bytes short of a mebibyte");
        DecisionDraft::new(Answer::Confirmed, how)
    } else {
        DecisionDraft::new(Answer::Refuted, "a node holds less than a megabyte")
    };
    found.with("accepted", accepted as f64, Of::Bytes).with("refused", refused as f64, Of::Bytes)
}

fn watches(cells: &[WatchCell]) -> Option<DecisionDraft> {
    let mut found = DecisionDraft::new(Answer::NotDecided, "");
    let (mut changes_that_fire, mut all) = (0, true);
    for change in [Change::ChildCreated, Change::DataSet, Change::ChildDeleted, Change::Deleted] {
        let mut any = false;
        for watch in [WatchedBy::GetData, WatchedBy::Exists, WatchedBy::GetChildren] {
            let cell = cells.iter().find(|cell| cell.watch == watch && cell.change == change)?;
            any |= cell.event.is_some();
            all &= cell.event.is_some();
            let what = format!("{} fires: {}", by(watch), of(change));
            found = found.with(what, yes(cell.event.is_some()), Of::YesNo);
        }
        changes_that_fire += u8::from(any);
    }
    (found.answer, found.sentence) = match (changes_that_fire, all) {
        (4, true) => (Answer::Confirmed, "every watch fires at each of the four changes".to_owned()),
        (4, false) => (
            Answer::HoldsWhen,
            "it depends on the watch: one by getChildren sees children come and go, one by getData or exists sees the data \
             set, and all see the node's end"
                .to_owned(),
        ),
        _ => (Answer::Refuted, "no watch fires at some of these changes".to_owned()),
    };
    Some(found)
}

fn by(watch: WatchedBy) -> &'static str {
    match watch {
        WatchedBy::GetData => "getData",
        WatchedBy::Exists => "exists",
        WatchedBy::GetChildren => "getChildren",
    }
}

fn of(change: Change) -> &'static str {
    match change {
        Change::ChildCreated => "child created",
        Change::DataSet => "data set",
        Change::ChildDeleted => "child deleted",
        Change::Deleted => "node deleted",
    }
}

fn bystander(situations: &[Bystander]) -> Option<DecisionDraft> {
    let herd = situations.iter().map(|one| one.woken).max().filter(|herd| *herd > 1)?;
    let read = Delay::of(situations, herd, |by| by.read)?;
    let write = Delay::of(situations, herd, |by| by.write)?;
    let found = if read.factor.low > AS_BEFORE || write.factor.low > AS_BEFORE {
        DecisionDraft::new(Answer::Confirmed, "others are delayed while the herd is served; none is refused")
    } else if read.factor.high <= AS_BEFORE && write.factor.high <= AS_BEFORE {
        DecisionDraft::new(Answer::Refuted, "others are served as fast as beside a single wake-up")
    } else {
        DecisionDraft::new(
            Answer::NotDecided,
            "others may be served a little later, within what noise does on one host",
        )
    };
    let found = found.with("sessions woken at once", herd as f64, Of::Amount).with(
        "rounds",
        read.rounds.len() as f64,
        Of::Amount,
    );
    Some(write.in_figures("write", read.in_figures("read", found)))
}

/// What a herd does to a bystander's requests of one kind.
struct Delay {
    /// Their 90th percentiles in each round, beside one wake-up and beside that of all. Not their medians: the bystander asks
    /// again only when it was answered, so the fewer of its requests are delayed, the longer they are.
    rounds: Vec<Pair>,
    factor: Interval,
}

impl Delay {
    fn of(
        situations: &[Bystander],
        herd: u64,
        timing: impl Fn(&Bystander) -> Option<Timing>,
    ) -> Option<Self> {
        let beside = |round: u64, woken: u64| {
            let one = situations.iter().find(|one| (one.round, one.woken) == (round, woken))?;
            Some(timing(one)?.p90_us as f64)
        };
        let rounds: Vec<Pair> = (0..=situations.iter().map(|one| one.round).max()?)
            .filter_map(|round| Some(Pair { base: beside(round, 1)?, new: beside(round, herd)? }))
            .collect();
        let factor = SignedRank::of(&rounds, LEFT_OUT)?.ratio.interval?;
        Some(Self { rounds, factor })
    }

    fn in_figures(&self, request: &str, found: DecisionDraft) -> DecisionDraft {
        let middle = |of: fn(&Pair) -> f64| median(&self.rounds.iter().map(of).collect::<Vec<_>>());
        let mut figures = found;
        for (woken, middle) in [("one", middle(|pair| pair.base)), ("all", middle(|pair| pair.new))] {
            if let Some(us) = middle {
                figures = figures.with(format!("{request}, {woken} woken, p90"), us, Of::Us);
            }
        }
        let least = format!("{request}: slower by a factor of at least");
        let most = format!("{request}: and of at most");
        figures.with(least, self.factor.low, Of::Amount).with(most, self.factor.high, Of::Amount)
    }
}

fn more_servers(by_size: [&Calibration; 3]) -> Option<DecisionDraft> {
    let writes: Vec<f64> = by_size.iter().map(|one| one.synced_writes_per_s).collect::<Option<_>>()?;
    let reads = |calibration: &Calibration| -> Option<f64> {
        let each = calibration.servers.iter().map(|server| {
            let read = server.requests.iter().find(|request| request.request == RawRequest::GetData)?;
            Some(read.saturated?.per_s)
        });
        each.sum()
    };
    let reads: Vec<f64> = by_size.iter().map(|one| reads(one)).collect::<Option<_>>()?;
    let write_alone = |calibration: &Calibration| {
        let each = calibration.servers.iter().filter_map(|server| {
            let write = server.requests.iter().find(|request| request.request == RawRequest::SetData)?;
            Some(write.alone?.p50_us)
        });
        each.min()
    };
    let falls = writes[0] > writes[1] && writes[1] > writes[2];
    let rises = reads[0] < reads[1] && reads[1] < reads[2];
    let shares_host = by_size.iter().any(|one| one.ensemble.shares_host);
    let mut found = match (falls, rises, shares_host) {
        (true, true, false) => {
            DecisionDraft::new(Answer::Confirmed, "reads rise and writes fall with the servers")
        }
        (true, _, true) => DecisionDraft::new(
            Answer::HoldsWhen,
            "writes fall with every server; for reads each server needs processors of its own, and here they share one \
             host, so the sum of the servers' reads, measured one after the other, is only what they could do",
        ),
        (true, false, false) => {
            DecisionDraft::new(Answer::HoldsWhen, "writes fall with every server, but reads do not rise")
        }
        (false, ..) => DecisionDraft::new(
            Answer::NotDecided,
            "writes do not fall from size to size by more than this host's noise",
        ),
    };
    for (servers, (calibration, (writes, reads))) in
        [1, 3, 5].iter().zip(by_size.iter().zip(writes.iter().zip(&reads)))
    {
        found = found.with(format!("{servers} servers: writes"), *writes, Of::PerS).with(
            format!("{servers} servers: reads, the servers' sum"),
            *reads,
            Of::PerS,
        );
        if let Some(us) = write_alone(calibration) {
            found = found.with(format!("{servers} servers: a write alone, median"), us as f64, Of::Us);
        }
    }
    Some(found)
}

/// Whether only a removal in the foreground takes a watch off the servers.
fn removed_in_the_foreground_only(watches: &CuratorWatches) -> Option<DecisionDraft> {
    let of = |what: &str| watches.steps.iter().find(|step| step.what == what);
    let (foreground, background) = (of(FOREGROUND)?, of(BACKGROUND)?);
    let found = match [foreground, background] {
        watched if watched.iter().any(|step| step.set <= step.before) => DecisionDraft::new(
            Answer::NotDecided,
            "the servers counted no watch that could have been removed",
        ),
        [foreground, background] => match (foreground.is_left(), background.is_left()) {
            (false, true) => DecisionDraft::new(
                Answer::Confirmed,
                "a watch was off the servers after a removal in the foreground, and still there after one in the background",
            ),
            (true, true) => DecisionDraft::new(
                Answer::Refuted,
                "neither took the watch off the servers: the client forgets it, the server keeps it until it fires",
            ),
            (false, false) => DecisionDraft::new(
                Answer::Refuted,
                "in the background, too, the watch was off the servers afterwards",
            ),
            (true, false) => DecisionDraft::new(
                Answer::Refuted,
                "it is the other way round: only the one in the background took it off",
            ),
        },
    };
    Some(watches.steps.iter().fold(found, |found, step| {
        found.with(
            format!("watches left on the servers by {}", step.what),
            step.after.saturating_sub(step.before) as f64,
            Of::Amount,
        )
    }))
}
