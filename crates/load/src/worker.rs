//! A generator thread, with its runtime, its contenders and its recorder.
//!
//! A reply is read, decoded and passed to its contender on the same thread, which also has its own recorder.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::contender::Contender;
use super::keeper::{Notes, Observation};
use super::shared::Shared;
use zklockbench_core::clock;
use zklockbench_core::measure::{Histogram, new_histogram};
use zklockbench_record::Part;
use zklockbench_zk::gate::TaskScope;
use zklockbench_zk::keep_awake::{Unread, keep_awake};
use zklockbench_zk::{Target, runtime};

const PROBE_INTERVAL: Duration = Duration::from_millis(25);

#[derive(Debug, Default)]
pub struct Share {
    pub contenders: Vec<usize>,
    /// Servers to keep awake, each with the interval between reads.
    pub awake: Vec<(Target, Duration)>,
    pub notes: Notes,
}

pub struct ThreadRecord {
    pub part: Part,
    /// Number of notes for the judge that could not be stored.
    pub lost: u64,
    /// Periods during which servers were not kept awake.
    pub unread: Vec<Unread>,
}

/// Starts a thread for a share of the contenders. The thread sends its record once they have ended or after an abort.
pub fn spawn(
    shared: Arc<Shared>,
    share: Share,
    seconds: usize,
) -> std::io::Result<oneshot::Receiver<ThreadRecord>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("generator".into()).spawn(move || {
        let record = runtime::block_on(work(shared, share, seconds));
        // The receiver is gone if the run was abandoned.
        let _ = sender.send(record);
    })?;
    Ok(receiver)
}

async fn work(shared: Arc<Shared>, share: Share, seconds: usize) -> ThreadRecord {
    let observation = Observation::new(&shared, share.notes, seconds);
    let timer_lag = Rc::new(RefCell::new(new_histogram()));
    let probe = runtime::spawn_local(probe(observation.clone(), Rc::clone(&timer_lag)));
    let window = runtime::spawn_local(follow_window(Arc::clone(&shared), observation.clone()));
    let start = |id: usize| {
        let contender = Contender::new(id, Arc::clone(&shared), observation.clone());
        runtime::spawn_local(TaskScope::behind(Arc::clone(&shared.controls[id].gate)).around(contender.run()))
    };
    let contenders: Vec<_> = share.contenders.into_iter().map(start).collect();
    let close = &shared.signals.close;
    let keep = |(server, every)| runtime::spawn_local(keep_awake(server, every, close.clone()));
    let awake: Vec<_> = share.awake.into_iter().map(keep).collect();
    let abort = shared.signals.abort.clone();
    // Use a separate task, because a future awaited here would be polled at every event of this thread.
    let all = runtime::spawn_local(async move {
        abort.run_until_cancelled(async { (join_all(contenders).await, join_all(awake).await).1 }).await
    });
    let unread = all.await.unwrap_or_default();
    drop((window, probe));
    observation.recorder.borrow_mut().settle();
    let recorder = observation.recorder.borrow().clone();
    let log = observation.log.take();
    let timer_lag = timer_lag.borrow().clone();
    let part = Part { recorder, occurrences: log.occurrences, timer_lag };
    ThreadRecord { part, lost: log.notes.finish(), unread }
}

async fn follow_window(shared: Arc<Shared>, observation: Observation) {
    let mut window = shared.signals.window.subscribe();
    loop {
        observation.recorder.borrow_mut().set_window(*window.borrow_and_update());
        if window.changed().await.is_err() {
            return;
        }
    }
}

async fn probe(observation: Observation, lag: Rc<RefCell<Histogram>>) {
    loop {
        let due = clock::now() + clock::micros(PROBE_INTERVAL);
        runtime::sleep(PROBE_INTERVAL).await;
        let now = clock::now();
        if observation.recorder.borrow().window().contains(now) {
            lag.borrow_mut().saturating_record(now.saturating_sub(due));
        }
    }
}
