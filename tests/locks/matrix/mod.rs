//! Locks modelled on other libraries, compared with the originals on the same real servers. In every event, a lock
//! sends the original's requests in the same order, or the lock's card gives the reason for the difference.
//!
//! `scripts/conformance` generates `docs/reference/conformance.md` with these tests. `cards` compares each lock's
//! reactions to such events with its card.

mod cards;
mod event;
mod page;
mod pair;

use event::Event;
use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::iter;
use page::Page;
use pair::{PAIRS, Pair, Race, Side};
use zklockbench_ensemble::roles;
use zklockbench_zk::runtime;

use crate::support::{ensemble::shared, sessions::Scene};

/// Number of concurrent events, which mostly wait until no message is in flight.
const AT_ONCE: usize = 20;

/// Requests of a lock and its original in each event.
struct Column {
    pair: &'static Pair,
    /// Name and version of the original.
    original: String,
    played: Vec<Played>,
}

struct Played {
    event: Event,
    ours: Vec<String>,
    theirs: Vec<String>,
    /// Requests that the original may omit.
    race: Option<&'static Race>,
}

impl Played {
    fn is_same(&self) -> bool {
        let ways = |lines: &Vec<String>| {
            let lost = self.race.and_then(|race| race.lost(lines));
            [Some(lines.clone()), lost].into_iter().flatten().collect::<Vec<_>>()
        };
        let theirs = ways(&self.theirs);
        ways(&self.ours).iter().any(|ours| theirs.contains(ours))
    }
}

impl Column {
    /// `None` if this machine can't run the original.
    fn play(pair: &'static Pair) -> Option<Self> {
        let original = pair.original()?;
        let connect = shared();
        let play = async |number, event| {
            let sent = async |side: &Side| {
                let contender =
                    async |address: &str, scene: &Scene| side.contender(pair, address, scene, number).await;
                let course = event::play(&event, &pair.terms(), connect, contender).await;
                assert!(course.has_happened, "{}, {}: the event did not happen", pair.name, event.name);
                pair.compared(event.name, course.lines(side.is_original()), side.is_original())
            };
            let (ours, theirs) = join(sent(&Side::Ours), sent(&original)).await;
            Played { race: pair.race(event.name), event, ours, theirs }
        };
        let played = runtime::block_on(async {
            let events = event::of_pairs().into_iter().enumerate().filter(|(_, event)| pair.meets(event));
            iter(events.map(|(number, event)| play(number, event))).buffered(AT_ONCE).collect().await
        });
        Some(Self { pair, original: original.described(pair), played })
    }

    /// Differences without a reason on the card, and reasons without a difference.
    fn complaints(&self) -> Vec<String> {
        let complaint = |played: &Played| {
            let what = match (played.is_same(), self.pair.reason(played.event.name)) {
                (true, None) if played.race.is_none_or(|race| self.pair.sayer(race.reason).is_some()) => {
                    return None;
                }
                (true, None) => "its card does not say that the original may do less".to_owned(),
                (true, Some(reason)) => format!("sends the same requests, although its card says: {reason}"),
                (false, Some(reason)) if self.pair.sayer(reason).is_some() => return None,
                (false, Some(reason)) => format!("its card does not say: {reason}"),
                (false, None) => format!("differs without a reason:\n{}", page::difference(played)),
            };
            Some(format!("{}, {}: {what}", self.pair.name, played.event.name))
        };
        self.played.iter().filter_map(complaint).collect()
    }
}

fn assert_conform(columns: &[Column]) {
    let complaints: Vec<String> = columns.iter().flat_map(Column::complaints).collect();
    assert!(complaints.is_empty(), "{} failures:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn every_reason_for_a_difference_is_on_a_lock_card() {
    for pair in PAIRS {
        for reason in pair.reasons() {
            assert!(pair.sayer(reason).is_some(), "{}: {reason}", pair.name);
        }
    }
}

#[test]
fn curators_mutex_sends_the_originals_requests_in_every_event() {
    let Some(column) = Column::play(&PAIRS[0]) else { return };
    let columns = [column];
    assert_conform(&columns);
    page::assert_has(&columns[0]);
}

#[test]
#[ignore = "long: every lock with an original, in every event"]
fn every_lock_sends_its_originals_requests_or_its_card_explains_the_difference() {
    let columns: Vec<Column> = PAIRS.iter().filter_map(Column::play).collect();
    let addresses: Vec<String> = shared().split(',').map(str::to_owned).collect();
    let servers = runtime::block_on(roles(&addresses));
    if columns.len() == PAIRS.len() {
        Page { servers: &servers, columns: &columns }.write_if_asked();
    }
    assert_conform(&columns);
    columns.iter().for_each(page::assert_has);
}
