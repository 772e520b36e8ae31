//! A world: contenders, their network and a directory on the server, in which schedules run one after another.

use std::sync::Arc;
use std::time::Duration;

use super::cast::{Cast, Lock};
use super::habits::Habits;
use super::net::Net;
use super::stale::Servers;
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::error::Error;
use zklockbench_zk::Target;

/// Minimum of [`Pace::stuck_after`], as a multiple of the longest duration among the lock's parameters.
const PAUSES: u32 = 3;
/// Factor by which the time limit is longer to confirm that a contender is stuck, because a lock may pause.
pub const CONFIRMS: u32 = 3;

/// Time limits for the lock's clients.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Time to wait for a reaction to a new event.
    pub reacts_within: Duration,
    /// Time to wait for a contender to reconnect.
    pub reconnects_within: Duration,
    /// Time without messages after which a contender counts as stuck; longer than any pause of the lock or its
    /// client.
    pub stuck_after: Duration,
}

impl Pace {
    /// Returns the time limits for a lock. The suite's own locks reconnect after 100 ms. Other clients pause for up
    /// to two seconds, and longer after a refused request.
    pub fn of(lock: &Lock) -> Self {
        let millis = Duration::from_millis;
        let pace = match lock.driven {
            None => Self {
                reacts_within: millis(25),
                reconnects_within: millis(3_000),
                stuck_after: millis(3_000),
            },
            Some(_) => Self {
                reacts_within: millis(80),
                reconnects_within: millis(8_000),
                stuck_after: millis(8_000),
            },
        };
        let pauses = lock.params.values().filter_map(|value| match value {
            ParamValue::Duration(pause) => Some(*pause),
            _ => None,
        });
        let longest = pauses.max().unwrap_or_default();
        Self { stuck_after: pace.stuck_after.max(PAUSES * longest), ..pace }
    }

    /// Returns the time limits for a run that is to confirm a stuck contender.
    pub fn confirming(self) -> Self {
        Self { stuck_after: CONFIRMS * self.stuck_after, ..self }
    }
}

pub struct World {
    pub net: Net,
    pub cast: Cast,
    pub lock: Lock,
    pub pace: Pace,
    pub habits: Arc<Habits>,
    pub servers: Servers,
    contenders: usize,
    /// Directory of the world's locks.
    root: String,
    plays: u64,
}

impl World {
    /// Opens a world with the given number of contenders, plus a newcomer that tries the lock after them.
    ///
    /// # Errors
    /// If no port or thread is available, or if the directory cannot be created.
    pub async fn open(
        lock: Lock,
        target: &Target,
        servers: &Servers,
        root: String,
        contenders: usize,
        habits: Arc<Habits>,
    ) -> Result<Self, Error> {
        let net = listen(&servers.home, contenders).await?;
        let cast = Cast::start(lock.clone(), target.on(&servers.home), contenders + 1)?;
        let created = cast.create(&root).await;
        created.map_err(|failure| Error::environment(format!("cannot create {root}: {failure}")))?;
        let pace = Pace::of(&lock);
        let servers = servers.clone();
        Ok(Self { net, cast, lock, pace, habits, servers, contenders, root, plays: 0 })
    }

    /// Prepares the next schedule and returns the path of its lock. New ports prevent clients of earlier schedules
    /// from connecting.
    ///
    /// # Errors
    ///
    /// If the loopback interface has no free port.
    pub async fn next(&mut self) -> Result<String, Error> {
        self.net = listen(&self.servers.home, self.contenders).await?;
        self.plays += 1;
        Ok(format!("{}/{}", self.root, self.plays))
    }
}

/// Opens listeners for the contenders and the newcomer.
async fn listen(server: &str, contenders: usize) -> Result<Net, Error> {
    let net = Net::listen(server, contenders + 1).await;
    net.map_err(|error| Error::environment(format!("cannot listen on the loopback interface: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::Params;

    #[test]
    fn stuck_contender_has_more_time_than_the_longest_pause_of_its_lock() {
        let lock = |params: Params| {
            let entry = *zklockbench_locks::find("polling").unwrap();
            Lock { label: "polling".into(), entry, params, driven: None }
        };
        let pause = |seconds| {
            let pause = ParamValue::Duration(Duration::from_secs(seconds));
            Params::from([("poll_interval".to_owned(), pause)])
        };
        let stuck_after = |params| Pace::of(&lock(params)).stuck_after;
        assert_eq!(stuck_after(pause(4)), Duration::from_secs(12));
        assert_eq!(stuck_after(pause(0)), stuck_after(Params::new()));
        let pace = Pace::of(&lock(Params::new()));
        assert_eq!(pace.confirming().stuck_after, 3 * pace.stuck_after);
    }
}
