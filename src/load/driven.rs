//! Trials of drivers' locks: what the way to a driver costs, what is recorded of it, and what is said of it when the trial is over.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::drivers::{Driver, Drivers};
use super::environment::{EnvironmentEvent, Sink};
use super::lock_state::LockState;
use super::shared::Shared;
use crate::record::{DriverRecord, EchoTimes};
use crate::words::clock;
use crate::words::measure::Window;
use crate::words::units::counted;
use crate::world::driver::Processes;

/// Goes on measuring what the way to the drivers takes until the measured phase begins: it is not to be disturbed.
pub async fn measure_until_measured(shared: &Shared) -> Infallible {
    let mut window = shared.signals.window.subscribe();
    let measured = async {
        let opens = window.wait_for(|window| *window != Window::CLOSED).await.map(|window| window.start);
        if let Ok(opens) = opens {
            tokio::time::sleep(Duration::from_micros(opens.saturating_sub(clock::now()))).await;
        }
    };
    let measuring = join_all(shared.drivers.all().map(|driver| driver.processes.measure_under_load()));
    tokio::select! {
        () = measured => {}
        _ = measuring => {}
    }
    std::future::pending().await
}

/// What is recorded of a trial's drivers; `None` where the lock is the suite's own.
pub fn record_of(shared: &Shared) -> Option<DriverRecord> {
    let (places, taken) = shared.drivers.places();
    let of_place = |(place, driver): (usize, &Driver)| {
        let Driver { program, processes } = driver;
        let pipe = processes.pipe();
        let count = processes.count();
        let mut each = vec![0; count];
        let own = shared.own().filter(|contender| contender % places == place);
        own.for_each(|contender| each[contender % count] += 1);
        DriverRecord {
            program: program.clone(),
            processes: each.iter().filter(|contenders| **contenders > 0).count(),
            contenders_each: each.iter().copied().max().unwrap_or(0),
            clock_fits: pipe.clock_fits,
            held_by_itself: shared.leaves_holds_to_driver(),
            ahead: processes.ahead(),
            out_of_order: shared.lock_states.iter().map(LockState::out_of_order).sum::<u64>()
                + processes.told_out_of_order(),
            echo: EchoTimes::of(pipe.reader),
            contender_echo: EchoTimes::of(pipe.contender),
            echo_under_load: EchoTimes::of(pipe.under_load),
        }
    };
    taken.map(of_place).reduce(|one, other| {
        let program = format!("{} and {}", one.program, other.program);
        DriverRecord { program, ..one.and(other) }
    })
}

/// Ends the processes of a trial's drivers, and says what was wrong with them. Returns why what was measured does not count, where
/// one of them has failed by itself.
pub async fn end(drivers: Drivers, strategy: &str, sink: Sink<'_>) -> Option<String> {
    let mut failed = None;
    for processes in drivers.into_processes() {
        failed = failed.or(end_one(processes, strategy, sink).await);
    }
    failed
}

/// Ends the processes of a trial, and says what was wrong with them. Returns why what was measured does not count, where one of
/// them has failed by itself: its contenders waited for a new one meanwhile, or for sessions of a dead one to expire.
async fn end_one(processes: Arc<Processes>, driver: &str, sink: Sink<'_>) -> Option<String> {
    let failed = processes.failed();
    for failure in processes.failures() {
        sink(EnvironmentEvent::Warning(&failure));
    }
    let late = processes.late_grants();
    if late > 0 {
        let granted = counted(late, "lock was", "locks were");
        sink(EnvironmentEvent::Warning(&format!(
            "{granted} granted to `{driver}` after it had said that the wait for it was over; each was released at once"
        )));
    }
    // They may take seconds to end.
    let _ = tokio::task::spawn_blocking(move || processes.close()).await;
    let first = failed.first()?;
    let times = match failed.len() {
        1 => String::new(),
        times => format!(" (the first of {times} failures)"),
    };
    Some(format!(
        "the driver `{}` {}{times}; it has failed by itself during the trial",
        first.driver, first.what
    ))
}
