//! What was seen of servers and links, or why it was not: proofs that a fault took effect, and that it ended.

use std::future::Future;
use std::time::{Duration, Instant};

/// What was seen, in words for people; or why it was not so, or could not be seen.
pub type Fact = Result<String, String>;

/// Nothing; or why something could not be done.
pub type Done = Result<(), String>;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks again and again until it is so, for that long.
///
/// # Errors
/// What the last look said, and for how long it was waited.
pub async fn eventually<T, F>(within: Duration, mut look: impl FnMut() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + within;
    loop {
        match look().await {
            Ok(seen) => return Ok(seen),
            Err(why) if Instant::now() >= deadline => return Err(format!("not within {within:?}: {why}")),
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_is_repeated_until_it_is_so_and_the_last_one_is_told_when_it_never_is() {
        let mut looks = 0;
        let third = eventually(Duration::from_secs(60), || {
            looks += 1;
            let seen = if looks < 3 { Err("not yet".to_owned()) } else { Ok(looks) };
            async { seen }
        });
        assert_eq!(third.await, Ok(3));
        let never: Fact =
            eventually(Duration::from_millis(50), || async { Err("still down".to_owned()) }).await;
        assert_eq!(never, Err("not within 50ms: still down".into()));
    }
}
