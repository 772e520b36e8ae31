//! Notices that the lock is free, that somebody waits for it, and that nobody gets it.
//!
//! Between a release and the next acquisition that is so for a moment in every lock. When it lasts, it was the
//! ensemble that stood still, not the lock, and the trial's figures say nothing about the lock: servers of
//! some versions forget a request until the next one comes (ZOOKEEPER-4537).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::shared::Shared;
use crate::catalog::{ParamValue, Params};
use crate::clock;

/// How closely it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long a lock may be free while others wait, beside the times that it sleeps by its parameters.
const AT_MOST: Duration = Duration::from_secs(1);

/// Notes the longest standstill on the board, for as long as it is polled.
pub async fn watch(shared: &Shared) {
    let board = &shared.board;
    let mut since = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let acquired = board.acquired.load(Ordering::Acquire);
        let is_free = shared.scenes.iter().all(|scene| scene.inside() == 0) && shared.gauge.waiting() > 0;
        let now = clock::now();
        since = match since {
            Some((began, before)) if is_free && before == acquired => {
                board.standstill_us.fetch_max(now.saturating_sub(began), Ordering::Relaxed);
                Some((began, before))
            }
            _ => is_free.then_some((now, acquired)),
        };
    }
}

/// Why the longest standstill makes the trial invalid, if it does. Not asked of locks that let their waiters
/// down by themselves.
pub fn judge(shared: &Shared) -> Option<String> {
    let stood = Duration::from_micros(shared.board.standstill_us.load(Ordering::Relaxed));
    let at_most = AT_MOST + 2 * longest_pause(&shared.spec.strategy.params);
    (shared.entry.card.guarantees.exclusive && stood > at_most).then(|| {
        format!(
            "the ensemble stood still: for {:.1} s the lock was free, somebody waited for it, and nobody got it \
             (servers before 3.6.4, 3.7.2 and 3.8.1 can forget a request: ZOOKEEPER-4537); run it again",
            stood.as_secs_f64()
        )
    })
}

/// How long the lock sleeps before it looks again.
fn longest_pause(params: &Params) -> Duration {
    let by_flag = matches!(params.get("wake"), Some(ParamValue::Word(how)) if how == "poll-flag");
    let pauses = params.iter().filter_map(|(name, value)| match value {
        ParamValue::Duration(pause) if by_flag || name == "poll_interval" => Some(*pause),
        _ => None,
    });
    pauses.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_may_sleep_as_long_as_it_was_told_to() {
        let second = ParamValue::Duration(Duration::from_secs(1));
        let with = |pairs: &[(&str, ParamValue)]| -> Params {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        assert_eq!(longest_pause(&with(&[("poll_interval", second.clone())])), Duration::from_secs(1));
        let flag = |how: &str| [("wake", ParamValue::Word(how.into())), ("flag_interval", second.clone())];
        assert_eq!(longest_pause(&with(&flag("poll-flag"))), Duration::from_secs(1));
        assert_eq!(longest_pause(&with(&flag("at-once"))), Duration::ZERO);
    }
}
