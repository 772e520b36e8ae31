//! What becomes of every lock of the registry when a connection breaks in any of its requests, or when a session ends:
//! the outcome that its card names, nobody stuck, nobody let in beside the holder, and no node left.

mod expected;
mod story;

use futures_util::StreamExt;
use futures_util::stream::iter;
use story::{Story, Strike, Told};
use zklockbench_core::catalog::Mode;
use zklockbench_zk::reactor;

use crate::support::proxy::Fate;
use crate::support::ways::Way;

/// Stories that are told at the same time.
const AT_ONCE: usize = 40;

/// Tells all of these, and fails with what went otherwise than expected.
fn tell<F: Future<Output = Vec<String>>>(stories: impl IntoIterator<Item = F>) {
    let complaints: Vec<String> =
        reactor::block_on(async { iter(stories).buffer_unordered(AT_ONCE).concat().await });
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// Loses each request of that story in turn, for every lock.
fn lose_each_request(story: Story, fate: Fate) {
    let reads = |of: &Way| of.entry.card.guarantees.has_read_side();
    let tellers = expected::all().filter(|of| story != Story::Waits(Mode::Read) || reads(of));
    let undisturbed = |of: Way| async move {
        let told = story::tell(of, story, None).await;
        (of, told)
    };
    let plans: Vec<(Way, Told)> =
        reactor::block_on(async { iter(tellers.map(undisturbed)).buffer_unordered(8).collect().await });
    for (of, told) in &plans {
        assert!(
            told.complaints.is_empty() && !told.requests.is_empty(),
            "{}: {:?}",
            of.name(),
            told.complaints
        );
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
fn a_reply_is_lost_while_nobody_else_is_there() {
    lose_each_request(Story::Alone, Fate::ReplyLost);
}

#[test]
fn a_request_is_lost_while_nobody_else_is_there() {
    lose_each_request(Story::Alone, Fate::RequestLost);
}

#[test]
fn a_reply_to_a_waiter_is_lost() {
    lose_each_request(Story::Waits(Mode::Write), Fate::ReplyLost);
}

#[test]
fn a_request_of_a_waiter_is_lost() {
    lose_each_request(Story::Waits(Mode::Write), Fate::RequestLost);
}

#[test]
fn a_request_of_a_waiting_reader_or_its_reply_is_lost() {
    for fate in [Fate::ReplyLost, Fate::RequestLost] {
        lose_each_request(Story::Waits(Mode::Read), fate);
    }
}

#[test]
fn a_session_ends_while_its_contender_waits() {
    tell(expected::all().map(story::waiters_session_ends));
}

#[test]
fn a_session_ends_while_its_contender_holds() {
    tell(expected::all().map(story::holders_session_ends));
}
