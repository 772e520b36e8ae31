//! The batch: contenders arrive one after the other, then each holds once; every step settles first.
//!
//! Settled means that every contender which has arrived and does not hold is waiting, and that nothing has
//! been sent or received for a while, so that every watch is set again. Only then are the totals exact; the
//! accounting check shows whether they were.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::shared::{Board, Shared};
use crate::clock;

/// Without a request, reply or notification for so long, all is quiet.
const QUIET: Duration = Duration::from_millis(40);
/// After so long the batch goes on all the same; the totals will then tell.
const SETTLE_AT_MOST: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Conducts a batch. Cancel-safe: dropping it leaves the contenders to the drain.
pub async fn conduct(shared: &Shared) {
    let contenders = shared.spec.contenders;
    for arrived in 1..=contenders {
        shared.signals.arrivals.send_replace(arrived);
        settle(shared, arrived).await;
    }
    for allowed in 1..=contenders as u64 {
        shared.signals.releases.send_replace(allowed);
        until(shared, |board| {
            ended(board) >= contenders || board.released.load(Ordering::Acquire) >= allowed
        })
        .await;
        settle(shared, contenders).await;
    }
    until(shared, |board| ended(board) >= contenders).await;
}

fn ended(board: &Board) -> usize {
    Board::read(&board.finished)
}

/// Waits until somebody holds, everybody else who has arrived waits, and all is quiet.
async fn settle(shared: &Shared, arrived: usize) {
    let watches = shared.entry.card.guarantees.watches;
    let settled = async {
        loop {
            let before = shared.pulse.load(Ordering::Acquire);
            if is_in_place(shared, arrived) {
                if !watches {
                    return;
                }
                tokio::time::sleep(QUIET).await;
                if shared.pulse.load(Ordering::Acquire) == before && is_in_place(shared, arrived) {
                    return;
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let _ = tokio::time::timeout(SETTLE_AT_MOST, settled).await;
}

fn is_in_place(shared: &Shared, arrived: usize) -> bool {
    let board = &shared.board;
    let acquired = usize::try_from(board.acquired.load(Ordering::Acquire)).unwrap_or(usize::MAX);
    let released = usize::try_from(board.released.load(Ordering::Acquire)).unwrap_or(usize::MAX);
    let ended = ended(board);
    let holding = acquired.saturating_sub(released);
    let waiting = shared.gauge.waiting();
    // Whoever failed has ended without having released.
    let all_placed = waiting + holding + ended.max(released) >= arrived;
    all_placed && (holding > 0 || waiting == 0)
}

/// Waits until all is quiet, so that the last notifications are in.
pub async fn quiet(shared: &Shared) {
    let end = clock::now() + clock::micros(Duration::from_secs(2));
    let mut before = shared.pulse.load(Ordering::Acquire);
    while clock::now() < end {
        tokio::time::sleep(QUIET).await;
        let now = shared.pulse.load(Ordering::Acquire);
        if now == before {
            return;
        }
        before = now;
    }
}

async fn until(shared: &Shared, holds: impl Fn(&Board) -> bool) {
    while !holds(&shared.board) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
