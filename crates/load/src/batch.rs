//! The batch: contenders arrive one after another, then each holds the lock once. Each step waits until the previous
//! step has settled. Among simultaneous holders (such as readers), the earliest arrival releases first.
//!
//! A step has settled when every contender that has arrived holds the lock, waits for it or has ended, and all
//! watches have been set again. Only settled steps have exact totals, which the accounting check verifies.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::shared::{Board, Shared};
use zklockbench_core::clock;

/// Number of steps that must pass on time and without traffic to count as silence.
const QUIET_STEPS: usize = 8;
const STEP: Duration = Duration::from_millis(5);
/// Maximum number of steps on a host that is never on time.
const STEPS_AT_MOST: usize = 80;
/// Maximum time to settle. After that, the batch continues with inexact totals.
const SETTLE_AT_MOST: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Conducts a batch. Cancel-safe: if the future is dropped, the drain ends the contenders.
pub async fn conduct(shared: &Shared) {
    let contenders = shared.spec.contenders;
    for arrived in 1..=contenders {
        shared.signals.arrivals.send_replace(arrived);
        settle(shared, arrived).await;
    }
    for allowed in 1..=contenders as u64 {
        let Some(first) = first_inside(shared).await else { break };
        shared.signals.releases.send_replace(Some(first));
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

/// Waits until a contender holds the lock. Returns the earliest arrival, or `None` once all contenders have ended.
async fn first_inside(shared: &Shared) -> Option<usize> {
    while ended(&shared.board) < shared.spec.contenders {
        let inside = shared.lock_states.all_inside().into_iter().min();
        if inside.is_some() {
            return inside;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    None
}

/// Waits until the step has settled. Silence shows that all watches have been set again.
async fn settle(shared: &Shared, arrived: usize) {
    let watches = shared.entry.card.guarantees.watches;
    let settled = async {
        loop {
            let before = shared.pulse.load(Ordering::Acquire);
            if is_in_place(shared, arrived) {
                if !watches {
                    return;
                }
                if is_quiet_since(shared, before).await && is_in_place(shared, arrived) {
                    return;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
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
    // A contender that failed has ended without a release.
    let all_placed = waiting + holding + ended.max(released) >= arrived;
    all_placed && (holding > 0 || waiting == 0)
}

/// Waits for silence, so that the last notifications have arrived.
pub async fn quiet(shared: &Shared) {
    let end = clock::now() + clock::micros(Duration::from_secs(2));
    while clock::now() < end {
        if is_quiet_since(shared, shared.pulse.load(Ordering::Acquire)).await {
            return;
        }
    }
}

/// Waits until there is silence. Returns false as soon as there is traffic.
///
/// A step that ends late does not count: if this process is not scheduled on time, the servers may not be
/// either, so their silence means nothing.
async fn is_quiet_since(shared: &Shared, pulse: u64) -> bool {
    let mut on_time = 0;
    for _ in 0..STEPS_AT_MOST {
        let began = clock::now();
        tokio::time::sleep(STEP).await;
        if shared.pulse.load(Ordering::Acquire) != pulse {
            return false;
        }
        on_time += usize::from(clock::now() - began < 2 * clock::micros(STEP));
        if on_time == QUIET_STEPS {
            break;
        }
    }
    true
}

async fn until(shared: &Shared, holds: impl Fn(&Board) -> bool) {
    while !holds(&shared.board) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
