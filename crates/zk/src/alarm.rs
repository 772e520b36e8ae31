//! Microsecond-accurate sleeps for arrivals, holds and polls. Tokio's timers only have millisecond
//! resolution. Each thread sets one kernel timer to the end of its earliest sleep.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::runtime::{Task, spawn_local};
use zklockbench_core::clock::{self, Stamp};

thread_local! {
    static HERE: RefCell<Option<Rc<Alarm>>> = const { RefCell::new(None) };
}

/// Pending sleeps of one thread, ordered by end time.
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    sleepers: RefCell<BTreeMap<(Stamp, u64), Waker>>,
    sleeps: Cell<u64>,
}

/// Guard of a thread's alarm; dropping it uninstalls the alarm.
pub struct Installed {
    _ringing: Option<Task<()>>,
}

impl Drop for Installed {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

impl Alarm {
    /// Installs an alarm for the sleeps on this thread. Without a kernel timer, sleeps end on whole milliseconds.
    pub fn install() -> Installed {
        let alarm = timer()
            .and_then(registered)
            .ok()
            .map(|timer| Rc::new(Self { timer, sleepers: RefCell::default(), sleeps: Cell::new(0) }));
        let ringing = alarm.clone().map(|alarm| spawn_local(async move { alarm.ring().await }));
        HERE.set(alarm);
        Installed { _ringing: ringing }
    }

    pub fn here() -> Option<Rc<Self>> {
        HERE.with_borrow(Clone::clone)
    }

    pub fn wait(self: Rc<Self>, until: Stamp) -> Sleep {
        let number = self.sleeps.get();
        self.sleeps.set(number + 1);
        Sleep { key: (until, number), alarm: self }
    }

    /// Wakes due sleepers whenever the timer expires. The timer is never read, because setting it again
    /// clears the expiration.
    async fn ring(&self) {
        while let Ok(mut expired) = self.timer.readable().await {
            expired.clear_ready();
            drop(expired);
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let now = clock::now();
        while let Some(waker) = self.take_due(now) {
            waker.wake();
        }
        if let Some(((until, _), _)) = self.sleepers.borrow().first_key_value() {
            self.set(*until);
        }
    }

    fn take_due(&self, now: Stamp) -> Option<Waker> {
        let mut sleepers = self.sleepers.borrow_mut();
        let first = sleepers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn sleeps(&self, key: (Stamp, u64), waker: &Waker) {
        let mut sleepers = self.sleepers.borrow_mut();
        let is_first = sleepers.first_key_value().is_none_or(|(first, _)| key < *first);
        sleepers.entry(key).and_modify(|known| known.clone_from(waker)).or_insert_with(|| waker.clone());
        if is_first {
            self.set(key.0);
        }
    }

    fn set(&self, until: Stamp) {
        // Zero would disarm the timer.
        let left = Duration::from_micros(until.saturating_sub(clock::now()).max(1));
        set_timer(self.timer.get_ref(), left);
    }
}

/// A sleep, cancelled when dropped.
pub struct Sleep {
    key: (Stamp, u64),
    alarm: Rc<Alarm>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.alarm.sleeps(self.key, cx.waker());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.alarm.sleepers.borrow_mut().remove(&self.key);
    }
}

#[allow(unsafe_code, reason = "tokio deprecated its safe constructors as unsound")]
fn registered(timer: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: `AsyncFd` owns the descriptor, which therefore stays open until the `AsyncFd` is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?)
}

#[cfg(target_os = "linux")]
fn timer() -> io::Result<OwnedFd> {
    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

    Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?)
}

#[cfg(not(target_os = "linux"))]
fn timer() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn set_timer(timer: &OwnedFd, left: Duration) {
    use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let Ok(left) = Timespec::try_from(left) else { return };
    let once = Itimerspec { it_interval: never, it_value: left };
    // Fails only for an invalid time.
    let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &once);
}

#[cfg(not(target_os = "linux"))]
fn set_timer(_: &OwnedFd, _: Duration) {}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::runtime;

    /// Returns the smallest lateness of up to 500 sleeps, in microseconds, or the first one below `enough`. The minimum
    /// tolerates a busy host.
    fn least_lateness(length: Duration, enough: u64) -> u64 {
        let lateness = |()| async move {
            let due = clock::now() + clock::micros(length);
            runtime::sleep(length).await;
            clock::now().checked_sub(due).expect("sleeps must not end early")
        };
        runtime::block_on(async {
            let mut least = u64::MAX;
            for () in [(); 500] {
                least = least.min(lateness(()).await);
                if least < enough {
                    break;
                }
            }
            least
        })
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn sleep_overshoots_by_less_than_half_a_millisecond() {
        for us in [1, 150, 2_300] {
            let late = least_lateness(Duration::from_micros(us), 500);
            assert!(late < 500, "{us} µs took {late} µs longer");
        }
    }

    #[test]
    fn sleeps_end_in_deadline_order_and_are_removed_when_cancelled() {
        runtime::block_on(async {
            let ended = Rc::new(RefCell::new(Vec::new()));
            let sleeping = [30_u64, 10, 20].map(|ms| {
                let ended = Rc::clone(&ended);
                async move {
                    runtime::sleep(Duration::from_millis(ms)).await;
                    ended.borrow_mut().push(ms);
                }
            });
            // Given an earlier sleep that is cancelled
            let cancelled =
                runtime::timeout(Duration::from_millis(1), runtime::sleep(Duration::from_secs(60)));
            assert!(cancelled.await.is_none());
            join_all(sleeping).await;
            assert_eq!(*ended.borrow(), [10, 20, 30]);
            assert!(Alarm::here().unwrap().sleepers.borrow().is_empty());
        });
    }
}
