//! Decides which server a session goes to.
//!
//! The client library tries the servers in an order that it shuffles, as all clients do. With ten contenders
//! the shares are then rarely equal, and a session on the leader is served sooner: two trials of one lock
//! differ for no reason but the draw. So the draw is made to begin with a chosen server. After a lost connection the
//! library draws again, by itself.

use std::pin::pin;
use std::task::Poll;

/// Polls what connects with the generator of the library's shuffle set so that the server at this position
/// comes first.
pub async fn begin_with<T>(position: usize, servers: usize, connecting: impl Future<Output = T>) -> T {
    let mut connecting = pin!(connecting);
    let mut seed = seed_for(position, servers);
    std::future::poll_fn(|cx| match seed.take() {
        // The library shuffles before its first wait, on this thread.
        Some(seed) => {
            let before = fastrand::get_seed();
            fastrand::seed(seed);
            let polled: Poll<T> = connecting.as_mut().poll(cx);
            fastrand::seed(before);
            polled
        }
        None => connecting.as_mut().poll(cx),
    })
    .await
}

/// A seed by which the shuffle of so many puts that one first. One in as many seeds does.
fn seed_for(position: usize, servers: usize) -> Option<u64> {
    const TRIED_AT_MOST: u64 = 1_000;
    let mut order = Vec::with_capacity(servers);
    (0..TRIED_AT_MOST).find(|seed| {
        order.clear();
        order.extend(0..servers);
        fastrand::Rng::with_seed(*seed).shuffle(&mut order);
        order.first() == Some(&position)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_the_servers_can_be_put_first() {
        for servers in 1..=9 {
            for position in 0..servers {
                let drawn =
                    futures_util::future::FutureExt::now_or_never(begin_with(position, servers, async {
                        let mut order: Vec<usize> = (0..servers).collect();
                        fastrand::shuffle(&mut order);
                        order[0]
                    }));
                assert_eq!(drawn, Some(position));
            }
        }
    }

    #[test]
    fn what_is_drawn_later_is_as_random_as_before() {
        fastrand::seed(7);
        let expected: Vec<u64> = std::iter::repeat_with(|| fastrand::u64(..)).take(3).collect();
        fastrand::seed(7);
        futures_util::future::FutureExt::now_or_never(begin_with(0, 3, async { fastrand::u64(..) }));
        let drawn: Vec<u64> = std::iter::repeat_with(|| fastrand::u64(..)).take(3).collect();
        assert_eq!(drawn, expected);
    }
}
