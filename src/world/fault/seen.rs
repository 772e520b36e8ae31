//! What was seen of a fault, as proof; and doing to each of several what one after the other may refuse.
//!
//! Whatever has been done once must be undone, so nothing in here gives up in the middle.

use std::future::Future;
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::words::catalog::fault::Proof;
use crate::world::ensemble::eventually;

/// What was running or passing when something was stopped is through within this.
const SETTLES: Duration = Duration::from_millis(20);

pub fn proof(seen: Result<String, String>) -> Proof {
    match seen {
        Ok(how) => Proof::Proved(how),
        Err(why) => Proof::NotProved(why),
    }
}

/// Nothing, or why it is not so.
pub fn only_if(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}

pub async fn all_still<T: Copy, F>(all: &[T], look: impl Fn(T) -> F) -> Result<(), String>
where
    F: Future<Output = Result<String, String>>,
{
    try_join_all(all.iter().map(|one| look(*one))).await.map(drop)
}

/// Does something to each of these, also after a failure.
pub async fn do_each<T: Copy, F>(all: &[T], deed: impl Fn(T) -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    let mut done = Ok(());
    for one in all {
        done = done.and(deed(*one).await);
    }
    done
}

/// Does something to each of these, and looks at each until it took effect.
pub async fn do_and_see<T: Copy, D, S>(
    all: &[T],
    deed: impl Fn(T) -> D,
    within: Duration,
    look: impl Fn(T) -> S,
) -> Result<String, String>
where
    D: Future<Output = Result<(), String>>,
    S: Future<Output = Result<String, String>>,
{
    do_each(all, deed).await?;
    let mut seen = Vec::new();
    for one in all {
        seen.push(eventually(within, || look(*one)).await?);
    }
    Ok(seen.join("; "))
}

pub async fn until(within: Duration, is_so: impl Fn() -> bool, otherwise: &str) -> Result<(), String> {
    let look = || async { only_if(is_so(), otherwise) };
    eventually(within, look).await
}

/// Whether something that counts stands still for so long.
pub async fn stands_still<T: PartialEq>(count: &impl Fn() -> T, lasts: Duration) -> bool {
    tokio::time::sleep(SETTLES).await;
    let before = count();
    tokio::time::sleep(lasts).await;
    count() == before
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn each_is_done_also_after_a_failure_and_the_first_failure_is_told() {
        let done = RefCell::new(Vec::new());
        let all = do_each(&[1, 2, 3], async |one| {
            done.borrow_mut().push(one);
            if one == 1 { Ok(()) } else { Err(format!("{one} failed")) }
        });
        assert_eq!(all.await, Err("2 failed".into()));
        assert_eq!(*done.borrow(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn what_counts_on_does_not_stand_still() {
        let count = std::cell::Cell::new(0);
        let moving = || count.replace(count.get() + 1);
        assert!(!stands_still(&moving, Duration::from_millis(1)).await);
        assert!(stands_still(&|| 7, Duration::from_millis(1)).await);
    }
}
