//! The contenders of a world. They run on their own thread and acquire and release the lock on command.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use zookeeper_client::{Acls, Client, CreateMode};

use super::schedule::Act;
use zklockbench_core::catalog::{Mode, Params};
use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_locks::driver::protocol::How;
use zklockbench_locks::driver::{DriverError, Mishap, Processes};
use zklockbench_locks::{AcquireError, DrivenLock, Entry, LockConfig, Patience};
use zklockbench_zk::gate::{Gate, Shut, TaskScope};
use zklockbench_zk::{CaughtUp, Failure, ForeignSession, Observed, Session, SessionKey, Target, runtime};

/// Time limit for opening or closing a session.
const WITHIN: Duration = Duration::from_secs(20);
/// Time limit for a driver to close a session at the end of a schedule.
const CLOSES_WITHIN: Duration = Duration::from_secs(2);
/// Session timeout, long enough that no session expires on its own during a schedule.
pub const SESSION: Duration = Duration::from_secs(40);

/// The lock to explore.
#[derive(Debug, Clone)]
pub struct Lock {
    pub label: String,
    pub entry: Entry,
    pub params: Params,
    /// Set if a driver implements the lock.
    pub driven: Option<DrivenLock>,
}

#[derive(Debug)]
pub enum Report {
    Opened(Result<(), String>),
    /// The contender acquired the lock. Contains the ID of the transaction that created its node, if it has a node.
    Acquired(Option<i64>),
    /// The acquire ended without the lock.
    NotAcquired(Ended),
    /// The driver reported that the contender's hold is lost.
    Lost,
    /// The release ended, successfully or not.
    Released(Result<(), Ended>),
}

/// Failure of an acquire or a release.
#[derive(Debug)]
pub struct Ended {
    pub why: String,
    /// Whether the contender's session is still usable.
    pub lives: bool,
}

/// Mode and time limit of an acquire.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub mode: Mode,
    pub timeout: Option<Duration>,
}

#[derive(Debug)]
pub enum Order {
    Acquire(Wanted),
    Release,
}

#[derive(Debug)]
pub enum Command {
    Open {
        contender: usize,
        connect: String,
        path: String,
    },
    Order(usize, Order),
    /// Cancels a contender's acquire.
    GiveUp(usize),
    /// Ends a contender as if its process were killed.
    Kill(usize),
    /// Stops a contender as SIGSTOP would stop its process.
    Freeze(usize),
    Thaw(usize),
    /// Ends a session from another connection.
    Expire(SessionKey, oneshot::Sender<Result<(), Failure>>),
    /// Ends all contenders.
    Clear(oneshot::Sender<()>),
    /// Requests a client that bypasses the contenders' network.
    Outside(oneshot::Sender<Result<Client, Failure>>),
}

/// Handle to the contenders' thread. Dropping the handle ends all contenders.
pub struct Cast {
    commands: Option<UnboundedSender<Command>>,
    pub reports: UnboundedReceiver<(usize, Report)>,
    drivers: Option<Arc<Processes>>,
    thread: Option<JoinHandle<()>>,
}

impl Cast {
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(lock: Lock, target: Target, contenders: usize) -> Result<Self, Error> {
        let (commands, wanted) = unbounded_channel();
        let (sender, reports) = unbounded_channel();
        let drivers =
            lock.driven.map(|driven| Arc::new(Processes::new(driven.wanted(&lock.params, contenders))));
        let troupe_drivers = drivers.clone();
        let work = move || runtime::block_on(serve(lock, target, troupe_drivers, wanted, sender));
        let thread = std::thread::Builder::new().name("contenders".into()).spawn(work);
        let thread = thread
            .map_err(|error| Error::environment(format!("cannot start the contenders' thread: {error}")))?;
        Ok(Self { commands: Some(commands), reports, drivers, thread: Some(thread) })
    }

    /// Returns the failures of drivers since the last call. The next schedule starts these drivers again.
    pub fn driver_failures(&self) -> Vec<DriverEnd> {
        let failed = self.drivers.iter().flat_map(|drivers| drivers.take_failed());
        failed.filter_map(|(contender, failure)| driver_end(contender, &failure)).collect()
    }

    pub fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // If the thread has ended, the caller notices the missing answer.
            let _ = commands.send(command);
        }
    }

    pub fn open(&self, contender: usize, connect: &str, path: &str) {
        self.send(Command::Open { contender, connect: connect.to_owned(), path: path.to_owned() });
    }

    /// Ends all contenders.
    pub fn clear(&self) -> oneshot::Receiver<()> {
        let (done, cleared) = oneshot::channel();
        self.send(Command::Clear(done));
        cleared
    }

    /// Ends a session at the server.
    ///
    /// # Errors
    /// If the session has already ended, or if the server does not answer.
    pub async fn expire(&self, session: SessionKey) -> Result<(), Failure> {
        self.ask(|done| Command::Expire(session, done)).await
    }

    pub async fn create(&self, path: &str) -> Result<(), Failure> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.outside().await?.create(path, &[], &options).await.map(drop).map_err(Failure::from)
    }

    pub async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.outside().await?.delete(path, None).await.map_err(Failure::from)
    }

    /// Returns the node at `path` and all nodes below it, with their sessions. Parents come before their children.
    pub async fn list(&self, path: &str) -> Result<Vec<(String, i64)>, Failure> {
        let client = self.outside().await?;
        let tree = CaughtUp::with(&client).await?;
        let (mut nodes, mut paths) = (Vec::new(), vec![path.to_owned()]);
        while let Some(path) = paths.pop() {
            let Some(stat) = tree.stat(&path).await? else { continue };
            if stat.num_children > 0 {
                // A node that was just deleted has no children.
                let names = tree.children(&path).await.unwrap_or_default();
                paths.extend(names.into_iter().map(|name| format!("{path}/{name}")));
            }
            nodes.push((path, stat.ephemeral_owner));
        }
        Ok(nodes)
    }

    pub async fn remove_all(&self, path: &str) -> Result<(), Failure> {
        for (path, _) in self.list(path).await?.into_iter().rev() {
            match self.delete(&path).await {
                Ok(()) | Err(Failure::NoNode) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> Command,
    ) -> Result<T, Failure> {
        let (done, answer) = oneshot::channel();
        self.send(command(done));
        let ended = |_| Err(Failure::NotConnected("the contenders' thread has ended".into()));
        answer.await.unwrap_or_else(ended)
    }

    /// Returns the exploration's own client. The client's tasks run on the contenders' thread.
    async fn outside(&self) -> Result<Client, Failure> {
        self.ask(Command::Outside).await
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        drop(self.commands.take());
        if let Some(thread) = self.thread.take() {
            // A panicked thread has also ended.
            let _ = thread.join();
        }
    }
}

impl Lock {
    pub fn has_readers(&self) -> bool {
        self.entry.card.guarantees.has_read_side()
    }

    /// Returns the ways to end an acquire early; empty if a driver's lock supports neither cancellation nor timeouts.
    pub fn gives_up(&self) -> Vec<Act> {
        let abilities = self.driven.map(|driven| driven.abilities);
        let (cancel, timeout) = abilities.map_or((How::Native, How::Native), |can| (can.cancel, can.timeout));
        ways(cancel, timeout)
    }
}

fn ways(cancel: How, timeout: How) -> Vec<Act> {
    let ways = [(cancel, Act::GiveUp), (timeout, Act::TimeOut)];
    ways.into_iter().filter(|(how, _)| *how != How::None).map(|(_, act)| act).collect()
}

/// Failure of a driver's process.
#[derive(Debug)]
pub struct DriverEnd {
    /// Contender of the process; `None` if the process was replaced or could not be started.
    pub contender: Option<usize>,
    pub exited: bool,
    /// The failure, with the broken rule.
    pub why: String,
}

/// Returns `None` for a missing answer: the driver may be waiting for a stuck lock, which is an outcome of the
/// exploration. Also returns `None` if a process ended before the schedule.
fn driver_end(contender: Option<usize>, failure: &DriverError) -> Option<DriverEnd> {
    let exited = matches!(failure.what, Mishap::Exited(_));
    if exited && contender.is_none() {
        return None;
    }
    let rule = match failure.what {
        Mishap::NoAnswer { .. } => return None,
        Mishap::Garbage { .. } => {
            "\nEach line must be a JSON object, and each answer must be {\"id\":…,\"ok\":{…}} or {\"id\":…,\"err\":\"…\"}. \
             See \"Rules\" in docs/testing-your-client.md, and run `zklockbench driver check`."
        }
        _ => "",
    };
    Some(DriverEnd { contender, exited, why: format!("{failure}{rule}") })
}

/// State shared by all contenders on the thread.
struct Troupe {
    lock: Lock,
    target: Target,
    drivers: Option<Arc<Processes>>,
    reports: UnboundedSender<(usize, Report)>,
}

struct Actor {
    scope: TaskScope,
    gate: Arc<Gate>,
    orders: UnboundedSender<Order>,
    task: runtime::Task<()>,
    frozen: Option<Shut>,
    /// Deadline and cancellation of the current acquire.
    patience: Rc<RefCell<Patience>>,
}

async fn serve(
    lock: Lock,
    target: Target,
    drivers: Option<Arc<Processes>>,
    mut commands: UnboundedReceiver<Command>,
    reports: UnboundedSender<(usize, Report)>,
) {
    let troupe = Rc::new(Troupe { lock, target, drivers, reports });
    let mut actors: HashMap<usize, Actor> = HashMap::new();
    let mut outside: Option<Client> = None;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Open { contender, connect, path } => {
                actors.insert(contender, actor(&troupe, contender, &connect, path));
            }
            Command::Order(contender, order) => {
                if let Some(actor) = actors.get(&contender) {
                    let _ = actor.orders.send(order);
                }
            }
            Command::GiveUp(contender) => {
                if let Some(actor) = actors.get(&contender) {
                    actor.patience.borrow().cancel.cancel();
                }
            }
            Command::Kill(contender) => kill(&troupe, contender, actors.remove(&contender)),
            Command::Freeze(contender) => {
                if let Some(actor) = actors.get_mut(&contender) {
                    actor.frozen = Some(Shut::these([&actor.gate]));
                }
            }
            Command::Thaw(contender) => {
                drop(actors.get_mut(&contender).and_then(|actor| actor.frozen.take()))
            }
            Command::Expire(session, done) => {
                let _ = done.send(troupe.target.expire(session, WITHIN).await);
            }
            Command::Clear(done) => {
                let numbers: Vec<usize> = actors.keys().copied().collect();
                actors.drain().for_each(|(_, actor)| end(actor));
                close_drivers(&troupe, &numbers).await;
                let _ = done.send(());
            }
            Command::Outside(done) => {
                outside.take_if(|client| client.state().is_terminated());
                let opened = match outside.take() {
                    Some(client) => Ok(client),
                    None => troupe.target.client(SESSION).await,
                };
                outside = opened.as_ref().ok().cloned();
                let _ = done.send(opened);
            }
        }
    }
    actors.drain().for_each(|(_, actor)| end(actor));
    if let Some(drivers) = &troupe.drivers {
        drivers.close();
    }
}

fn actor(troupe: &Rc<Troupe>, contender: usize, connect: &str, path: String) -> Actor {
    let gate = Arc::new(Gate::default());
    let scope = TaskScope::behind(Arc::clone(&gate));
    let (orders, wanted) = unbounded_channel();
    let target = troupe.target.on(connect);
    let patience = Rc::<RefCell<Patience>>::default();
    let role = Role { contender, target, path, gate: Arc::clone(&gate), patience: Rc::clone(&patience) };
    let task = runtime::spawn_local(scope.around(live(Rc::clone(troupe), role, wanted)));
    Actor { scope, gate, orders, task, frozen: None, patience }
}

fn end(actor: Actor) {
    let Actor { scope, task, frozen, .. } = actor;
    drop(frozen);
    drop(task);
    scope.kill();
}

/// Closes the contenders' sessions in their drivers. A driver that does not answer is killed.
async fn close_drivers(troupe: &Troupe, contenders: &[usize]) {
    let Some(drivers) = &troupe.drivers else { return };
    let links: Vec<_> = contenders.iter().filter_map(|contender| drivers.link(*contender)).collect();
    let closing = links.iter().map(|link| async move {
        if runtime::timeout(CLOSES_WITHIN, ForeignSession::close(&**link)).await.is_none() {
            ForeignSession::crash(&**link);
        }
    });
    futures_util::future::join_all(closing).await;
}

fn kill(troupe: &Troupe, contender: usize, actor: Option<Actor>) {
    if let Some(link) = troupe.drivers.as_ref().and_then(|drivers| drivers.link(contender)) {
        ForeignSession::crash(&*link);
    }
    actor.into_iter().for_each(end);
}

struct Role {
    contender: usize,
    target: Target,
    path: String,
    gate: Arc<Gate>,
    patience: Rc<RefCell<Patience>>,
}

async fn live(troupe: Rc<Troupe>, role: Role, mut orders: UnboundedReceiver<Order>) {
    let Role { contender, target, path, gate, patience } = role;
    let report = |report| drop(troupe.reports.send((contender, report)));
    let session = match open(&troupe, contender, &target, &gate).await {
        Ok(session) => session,
        Err(failure) => return report(Report::Opened(Err(failure.to_string()))),
    };
    report(Report::Opened(Ok(())));
    let config =
        LockConfig { path, params: troupe.lock.params.clone(), contender, drivers: troupe.drivers.clone() };
    let mut lock = (troupe.lock.entry.build)(&config);
    let (mut held, mut is_lost) = (None, false);
    loop {
        let order = tokio::select! {
            biased;
            order = orders.recv() => order,
            () = session.over(), if session.stands_for_another() && held.is_some() && !is_lost => {
                is_lost = true;
                report(Report::Lost);
                continue;
            }
        };
        let Some(order) = order else { return };
        match order {
            Order::Acquire(Wanted { mode, timeout }) => {
                let deadline = timeout.map(|timeout| clock::now() + clock::micros(timeout));
                let patient = Patience { deadline, ..Patience::default() };
                patience.replace(patient.clone());
                match lock.acquire(&session, mode, &patient).await {
                    Ok(granted) => {
                        let token = granted.node.as_ref().map(|node| node.czxid);
                        held = Some(granted);
                        report(Report::Acquired(token));
                    }
                    Err(error) => {
                        let (why, lives) = (error.to_string(), !ends_the_session(&error));
                        if !lives {
                            drop(lock);
                            session.close(WITHIN).await;
                            return report(Report::NotAcquired(Ended { why, lives }));
                        }
                        report(Report::NotAcquired(Ended { why, lives }));
                    }
                }
            }
            Order::Release => {
                let released = match held.take() {
                    Some(held) => lock.release(&session, held).await,
                    None => Ok(()),
                };
                let lives = released.as_ref().map_or_else(Failure::is_definite, |()| true);
                let outcome = released.map_err(|failure| Ended { why: failure.to_string(), lives });
                if !lives {
                    drop(lock);
                    session.close(WITHIN).await;
                    return report(Report::Released(outcome));
                }
                report(Report::Released(outcome));
            }
        }
    }
}

/// Returns whether the acquire's outcome is unknown. The caller then ends the session, as the documentation advises.
fn ends_the_session(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Failed(failure) if !failure.is_definite())
}

async fn open(
    troupe: &Troupe,
    contender: usize,
    target: &Target,
    gate: &Arc<Gate>,
) -> Result<Session, Failure> {
    let Some(drivers) = &troupe.drivers else {
        return target.open(SESSION, WITHIN, Observed::by_nobody()).await;
    };
    let link = drivers.open(contender, target, SESSION, WITHIN, gate).await?;
    let own = troupe.target.open(SESSION, WITHIN, Observed::by_nobody()).await?;
    Ok(own.standing_for(link))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn protocol_error_quotes_the_drivers_line_and_the_rule() {
        let line = r#"{"id":3,"ok":true}"#.to_owned();
        let failure = |what| DriverError { driver: "q".into(), what, stderr: String::new() };
        let garbage = failure(Mishap::Garbage { why: "`ok` is not an object".into(), line: line.clone() });
        let end = driver_end(Some(0), &garbage).unwrap();
        assert!(end.why.contains(&line) && end.why.contains(r#""ok":{…}"#) && !end.exited, "{end:?}");
        let silent = Mishap::NoAnswer { doing: "`release`", wrote: String::new() };
        assert!(driver_end(Some(0), &failure(silent)).is_none());
    }

    #[test]
    fn exit_of_a_driver_counts_for_the_schedule_in_which_it_happened() {
        let what = Mishap::Exited("exit status 1".into());
        let exited = DriverError { driver: "q".into(), what, stderr: String::new() };
        assert!(driver_end(Some(1), &exited).is_some_and(|end| end.exited && end.contender == Some(1)));
        assert!(driver_end(None, &exited).is_none());
    }

    #[test]
    fn waits_end_in_every_way_that_the_lock_supports() {
        let lock = |name| {
            let entry = *zklockbench_locks::find(name).unwrap();
            Lock { label: name.into(), entry, params: Params::new(), driven: None }
        };
        assert_eq!(lock("count").gives_up(), [Act::GiveUp, Act::TimeOut]);
        assert_eq!(ways(How::None, How::Native), [Act::TimeOut]);
        assert_eq!(ways(How::Emulated, How::None), [Act::GiveUp]);
        assert!(ways(How::None, How::None).is_empty());
    }
}
