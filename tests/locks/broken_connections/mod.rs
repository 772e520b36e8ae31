//! Every registered lock survives a connection that breaks during any request, and the end of a session: the outcome
//! matches the lock's card, no contender is stuck or admitted alongside the holder, and no node is left.

mod expected;
mod story;

use futures_util::StreamExt;
use futures_util::stream::iter;
use story::{Story, Strike, Told};
use zklockbench_core::catalog::Mode;
use zklockbench_zk::runtime;

use crate::support::{depth, proxy::Fate, ways::Way};

/// Number of concurrent scenarios.
const AT_ONCE: usize = 40;

/// Runs all of these scenarios, and panics with their failures, if any.
fn tell<F: Future<Output = Vec<String>>>(stories: impl IntoIterator<Item = F>) {
    let complaints: Vec<String> =
        runtime::block_on(async { iter(stories).buffer_unordered(AT_ONCE).concat().await });
    assert!(complaints.is_empty(), "{} failures:\n{}", complaints.len(), complaints.join("\n"));
}

/// Runs a scenario with every lock, once for each request of the lock, and loses that request or its reply.
fn lose_each_request(story: Story, fate: Fate) {
    let reads = |of: &Way| of.entry.card.guarantees.has_read_side();
    let tellers = expected::all().filter(|of| story != Story::Waits(Mode::Read) || reads(of));
    let undisturbed = |of: Way| async move {
        let told = story::tell(of, story, None).await;
        (of, told)
    };
    let plans: Vec<(Way, Told)> =
        runtime::block_on(async { iter(tellers.map(undisturbed)).buffer_unordered(8).collect().await });
    for (of, told) in &plans {
        assert!(told.complaints.is_empty(), "{}: {:?}", of.name(), told.complaints);
        assert!(!told.requests.is_empty(), "{}: {:?}", of.name(), told.complaints);
    }
    let strikes = plans.into_iter().flat_map(|(of, told)| {
        let strikes = Strike::each(&told, fate, |kind| expected::is_sure_of(of, kind, story != Story::Alone));
        strikes.into_iter().map(move |strike| (of, strike))
    });
    tell(strikes.map(|(of, strike)| async move {
        let told = story::tell_struck(of, story, strike).await;
        told.judged(of, strike, story)
    }));
}

#[test]
fn lock_survives_a_lost_reply_without_contention() {
    lose_each_request(Story::Alone, Fate::ReplyLost);
}

#[test]
fn lock_survives_a_lost_reply_to_a_waiter() {
    lose_each_request(Story::Waits(Mode::Write), Fate::ReplyLost);
}

#[test]
#[ignore = "long: a lost reply to each request is always tested, and each lock's card with lost requests"]
fn lock_survives_a_waiters_lost_request() {
    lose_each_request(Story::Waits(Mode::Write), Fate::RequestLost);
}

#[test]
fn lock_survives_a_waiting_readers_lost_request_or_reply() {
    for fate in &[Fate::ReplyLost, Fate::RequestLost][..depth::of(1, 2)] {
        lose_each_request(Story::Waits(Mode::Read), *fate);
    }
}

#[test]
fn lock_survives_the_end_of_a_holders_session() {
    tell(expected::all().map(story::holders_session_ends));
}
