//! A metered session: the only way for strategies to reach ZooKeeper.
//!
//! Each request type has one method, which sends the request when *called*, not when awaited. Requests made
//! before the first `await` go out in one flush. Every request, reply and notification is counted and timed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zookeeper_client::{
    Acls, Client, CreateMode, Error as ClientError, LockPrefix, Names, OneshotWatcher, SessionState, Stat,
};

use super::gate::TaskScope;
use super::inner::{Begun, Inner, News, Observed, Sent, Undated, Watch};
use super::messages::MessageKind;
use super::notification::{Arm, Armed, Notification, StampWaker};
use super::whose::{self, ForeignSession, SessionKey, SessionStates};
use super::{Failure, counter, runtime, wire};
use zklockbench_core::clock;
use zklockbench_core::measure::RequestKind;

/// Polling interval while a session that should close is still in use.
const LETS_GO_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Full path, including the sequence number.
    pub path: String,
    pub sequence: Option<i64>,
    /// Transaction that created the node: the fencing token.
    pub czxid: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStat {
    pub czxid: i64,
    /// Transaction that last wrote the node's data.
    pub mzxid: i64,
    /// Session that owns an ephemeral node; 0 for other nodes.
    pub owner: i64,
    pub version: i32,
    /// Number of the directory's next sequential child.
    pub next_number: i64,
}

impl From<&Stat> for NodeStat {
    fn from(stat: &Stat) -> Self {
        Self {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            owner: stat.ephemeral_owner,
            version: stat.version,
            next_number: counter::next_number(stat.cversion, stat.num_children),
        }
    }
}

/// A metered session. Clones share the session.
#[derive(Clone)]
pub struct Session(pub(super) Rc<Inner>);

impl Session {
    /// Wraps a connected client. If `owned`, only the session's identity may access the nodes that the
    /// session creates.
    pub(super) fn new(client: Client, observed: Observed, owned: bool) -> Self {
        // Until the session expires, a reply can still arrive, even after a reconnect.
        let request_timeout = client.session_timeout();
        Self(Rc::new(Inner {
            client,
            observed,
            owned,
            request_timeout,
            parked: RefCell::default(),
            notifications: RefCell::new(Vec::with_capacity(16)),
            wakers: RefCell::default(),
            lag_us: Cell::new(0),
            busy_us: Cell::new(0),
            requests: Cell::new(0),
            news: News::default(),
            deleted: RefCell::default(),
            foreign: None,
        }))
    }

    /// Makes this session represent the session of another program, which takes the locks. The ID, timeout
    /// and end are then taken from the other session. If the other session has no ID, because its locks are
    /// not ZooKeeper's, this session's ID remains. Locks no longer send requests through this session.
    ///
    /// # Panics
    /// If the session has clones.
    #[allow(clippy::expect_used, reason = "see above")]
    pub fn standing_for(mut self, foreign: Arc<dyn ForeignSession>) -> Self {
        foreign.id().into_iter().for_each(whose::note_own_session);
        Rc::get_mut(&mut self.0).expect("the session has no clones").foreign = Some(foreign);
        self
    }

    pub fn stands_for_another(&self) -> bool {
        self.0.foreign.is_some()
    }

    pub fn id(&self) -> i64 {
        let foreign = self.0.foreign.as_ref().and_then(|foreign| foreign.id());
        foreign.unwrap_or_else(|| self.0.client.session_id().0)
    }

    pub fn timeout(&self) -> Duration {
        self.0.foreign.as_ref().map_or_else(|| self.0.client.session_timeout(), |foreign| foreign.timeout())
    }

    /// Creates a node. The path of a sequential node gets a sequence number appended.
    pub fn create<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        kind: CreateMode,
    ) -> impl Future<Output = Result<Created, Failure>> + 'a {
        let acls = if self.0.owned { Acls::creator_all() } else { Acls::anyone_all() };
        let is_numbered = kind == CreateMode::EphemeralSequential;
        let sent = self.sending(RequestKind::Create, path, wire::create(path, data, self.0.owned));
        let reply = self.metered(sent, self.0.client.create(path, data, &kind.with_acls(acls)), move |_| {
            wire::created(path) + if is_numbered { 10 } else { 0 }
        });
        async move {
            let (stat, number) = reply.await?;
            let sequence = is_numbered.then(|| number.into_i64());
            if let (Some(log), Some(number)) = (self.0.log_of(path), sequence) {
                log.created(number, sent.at, clock::now());
            }
            self.0.news.learn(stat.czxid);
            let path = if sequence.is_some() { format!("{path}{number}") } else { path.to_owned() };
            Ok(Created { path, sequence, czxid: stat.czxid })
        }
    }

    pub fn delete(&self, path: &str) -> impl Future<Output = Result<(), Failure>> {
        self.0.note_deletion(path);
        let sent = self.sending(RequestKind::Delete, path, wire::delete(path));
        let reply = self.metered(sent, self.0.client.delete(path, None), |()| wire::EMPTY_REPLY);
        async move {
            reply.await?;
            if let Some(log) = self.0.log_of(path) {
                log.deleted(path, sent.at, clock::now());
            }
            Ok(())
        }
    }

    pub fn get_children(&self, path: &str) -> impl Future<Output = Result<Names, Failure>> {
        let sent = self.sending(RequestKind::GetChildren, path, wire::read(path));
        let client = &self.0.client;
        let reply = self.metered(sent, client.list_names(path), wire::children);
        async move {
            let names = self.dated(reply.await)?;
            self.0.learn_of_reply();
            self.0.listed(path, &names);
            Ok(names)
        }
    }

    /// Returns the names of a node's children, and a watch on their next change.
    pub fn get_children_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Names, Watch), Failure>> {
        let sent = self.sending(RequestKind::GetChildrenWatch, path, wire::read(path));
        let client = &self.0.client;
        let reply = self.metered(sent, client.list_and_watch_names(path), |(names, _)| wire::children(names));
        async move {
            let (names, watcher) = self.dated(reply.await)?;
            self.0.learn_of_reply();
            let arm = self.0.listed(path, &names);
            Ok((names, self.arm(watcher, path, Some(arm))))
        }
    }

    pub fn get_data(&self, path: &str) -> impl Future<Output = Result<(Vec<u8>, NodeStat), Failure>> {
        let sent = self.sending(RequestKind::GetData, path, wire::read(path));
        let reply = self.metered(sent, self.0.client.get_data(path), |(data, _)| wire::data(data));
        async move {
            let (data, stat) = self.dated(reply.await)?;
            self.0.news.learn(latest(&stat));
            Ok((data, NodeStat::from(&stat)))
        }
    }

    /// Returns a node's data, and a watch on the node. If the node is missing, returns [`Failure::NoNode`]
    /// and sets no watch.
    pub fn get_data_and_watch(&self, path: &str) -> impl Future<Output = Result<(Vec<u8>, Watch), Failure>> {
        let sent = self.sending(RequestKind::GetDataWatch, path, wire::read(path));
        let reply =
            self.metered(sent, self.0.client.get_and_watch_data(path), |(data, _, _)| wire::data(data));
        async move {
            let (data, stat, watcher) = self.dated(reply.await)?;
            self.0.news.raise(latest(&stat));
            Ok((data, self.arm(watcher, path, None)))
        }
    }

    pub fn exists(&self, path: &str) -> impl Future<Output = Result<Option<NodeStat>, Failure>> {
        let sent = self.sending(RequestKind::Exists, path, wire::read(path));
        let reply = self.metered(sent, self.0.client.check_stat(path), stat_size);
        async move {
            let stat = reply.await?;
            self.read_ended(stat.as_ref());
            Ok(stat.as_ref().map(NodeStat::from))
        }
    }

    /// Returns a node's stat, and a watch on the node. A watch on a missing node fires when the node is
    /// created.
    pub fn exists_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<NodeStat>, Watch), Failure>> {
        let sent = self.sending(RequestKind::ExistsWatch, path, wire::read(path));
        let reply = self.metered(sent, self.0.client.check_and_watch_stat(path), |(stat, _)| stat_size(stat));
        async move {
            let (stat, watcher) = reply.await?;
            self.read_ended(stat.as_ref());
            Ok((stat.as_ref().map(NodeStat::from), self.arm(watcher, path, None)))
        }
    }

    pub fn set_data(&self, path: &str, data: &[u8]) -> impl Future<Output = Result<NodeStat, Failure>> {
        let sent = self.sending(RequestKind::SetData, path, wire::set_data(path, data));
        let reply = self.metered(sent, self.0.client.set_data(path, data, None), |_| wire::STAT_REPLY);
        async move { reply.await.map(|stat| NodeStat::from(&stat)) }
    }

    /// Returns whether the server has a watch of this session on the node. Curator makes this check
    /// before it forgets a watch. Removes no watch.
    pub fn check_watches(&self, path: &str) -> impl Future<Output = Result<bool, Failure>> {
        let sent = self.sending(RequestKind::CheckWatches, path, wire::delete(path));
        let reply = self.metered(sent, self.0.client.check_watches(path), |()| wire::EMPTY_REPLY);
        async move {
            match reply.await {
                Ok(()) => Ok(true),
                Err(Failure::NoWatch) => Ok(false),
                Err(failure) => Err(failure),
            }
        }
    }

    /// Waits until the session's server has caught up with the leader. If that server is the leader itself, it may
    /// reply before it has applied its own latest commits.
    pub fn sync(&self, path: &str) -> impl Future<Output = Result<(), Failure>> {
        let sent = self.sending(RequestKind::Sync, path, wire::read(path) - 1);
        self.metered(sent, self.0.client.sync(path), |()| wire::EMPTY_REPLY + 4)
    }

    /// Resets the observed transactions and the requested deletion.
    pub fn forget_observed(&self) {
        self.0.news.forget();
        self.0.deleted.borrow_mut().clear();
    }

    /// Returns whether this was the last node whose deletion was requested since [`Session::forget_observed`].
    pub fn has_asked_to_delete(&self, path: &str) -> bool {
        *self.0.deleted.borrow() == path
    }

    /// Returns the latest zxid as of the last observation since [`Session::forget_observed`]; `None` if unknown. The
    /// session has observed all earlier transactions, but possibly no later ones. Servers before 3.9 send events
    /// without a zxid.
    pub fn known_zxid(&self) -> Option<i64> {
        self.0.news.zxid()
    }

    /// Returns the last observation since [`Session::forget_observed`], if it was an event without its
    /// transaction.
    pub fn undated_event(&self) -> Option<Undated> {
        self.0.news.undated()
    }

    /// Returns whether nothing was observed since [`Session::forget_observed`], which means that the lock
    /// bypassed the session.
    pub fn has_learned_nothing(&self) -> bool {
        self.0.news.is_none()
    }

    /// Reads a node on behalf of the suite. Like a lock's request, the read is sent when this method is
    /// called, but it is not counted, timed or recorded. Returns the latest transaction in the node's stat,
    /// including changes of its children. `None` if the node is missing or the read failed.
    pub fn look_beside(&self, path: &str) -> impl Future<Output = Option<i64>> {
        // The order of this read relative to requests of another program's session would be unknown.
        let looking = self.0.foreign.is_none().then(|| self.0.client.check_stat(path));
        async move { looking?.await.ok().flatten().map(|stat| latest(&stat)) }
    }

    /// Like [`Session::sync`], but neither counted nor timed. The reply follows the replies to all earlier requests.
    /// Returns whether the server answered.
    pub async fn catch_up_beside(&self) -> bool {
        self.0.client.sync("/").await.is_ok()
    }

    /// Returns a directory's next sequence number. The read is not counted, timed or recorded.
    pub async fn next_number_beside(&self, path: &str) -> Option<i64> {
        let stat = self.0.client.check_stat(path).await.ok()??;
        Some(NodeStat::from(&stat).next_number)
    }

    /// Writes to a node on behalf of the suite. The write is sent when this method is called, but it is not counted,
    /// timed or recorded. Returns the write's transaction.
    pub fn write_beside(&self, path: &str) -> impl Future<Output = Option<i64>> {
        let writing = self.0.client.set_data(path, &[], None);
        async move { writing.await.ok().map(|stat| stat.mzxid) }
    }

    /// Records the result of reading a node.
    fn read_ended(&self, stat: Option<&Stat>) {
        match stat {
            Some(stat) => self.0.news.raise(latest(stat)),
            None => self.0.learn_of_reply(),
        }
    }

    /// Records a `NoNode` reply as an observation.
    fn dated<T>(&self, reply: Result<T, Failure>) -> Result<T, Failure> {
        reply.inspect_err(|failure| {
            if *failure == Failure::NoNode {
                self.0.learn_of_reply();
            }
        })
    }

    pub fn states(&self) -> SessionStates {
        let mut states = match &self.0.foreign {
            Some(foreign) => SessionStates::Told(foreign.states()),
            None => SessionStates::Seen(self.0.client.state_watcher()),
        };
        states.state();
        states
    }

    /// Returns once the session is over: expired, closed, or refused.
    pub async fn over(&self) {
        let mut states = self.states();
        let mut state = states.peek_state();
        while !state.is_terminated() {
            state = states.changed().await;
        }
    }

    pub fn is_over(&self) -> bool {
        match &self.0.foreign {
            Some(foreign) => foreign.states().borrow().is_terminated(),
            None => self.0.client.state().is_terminated(),
        }
    }

    /// Takes the notifications that arrived since the last call, including notifications of dropped watches.
    pub fn take_notifications(&self, into: &mut Vec<Notification>) {
        self.0.reap();
        into.append(&mut self.0.notifications.borrow_mut());
    }

    /// Takes the generator's own lag, in microseconds, since a notification last woke this session.
    pub fn take_lag_us(&self) -> u64 {
        self.0.lag_us.take()
    }

    /// Records how far a sleep between two requests overran because the machine was busy.
    pub fn overslept(&self, us: u64) {
        self.0.busy_us.set(self.0.busy_us.get() + us);
    }

    /// Takes the time, in microseconds, spent in requests and oversleeping since the last call.
    pub fn take_busy_us(&self) -> u64 {
        self.0.busy_us.take()
    }

    /// Takes the number of requests sent since the last call.
    pub fn take_requests(&self) -> u64 {
        self.0.requests.take()
    }

    /// Closes the session and waits until the server has answered. The session's ephemeral nodes are then
    /// gone.
    ///
    /// Waits until all clones are dropped. After the deadline, the session closes when its last clone is
    /// dropped, or expires. Returns whether the session is over.
    pub async fn close(self, deadline: Duration) -> bool {
        let until = clock::now() + clock::micros(deadline);
        let mut shared = self.0;
        let inner = loop {
            match Rc::try_unwrap(shared) {
                Ok(inner) => break inner,
                Err(_) if clock::now() >= until => return false,
                Err(still_shared) => shared = still_shared,
            }
            runtime::sleep(LETS_GO_EVERY).await;
        };
        inner.reap();
        if let Some(foreign) = inner.foreign {
            let said = runtime::timeout(deadline, foreign.close()).await;
            close(inner.client, deadline).await;
            return said == Some(true);
        }
        close(inner.client, deadline).await.is_some()
    }

    /// Records that another program acquires a lock for this contender, with requests that are not counted
    /// here.
    pub fn is_passed_by(&self) {
        self.0.observed.count(clock::now(), |counts| counts.unseen += 1);
    }

    /// Returns the credentials for using this session from another connection.
    pub fn key(&self) -> SessionKey {
        let foreign = self.0.foreign.as_ref().and_then(|foreign| foreign.key());
        foreign.unwrap_or_else(|| SessionKey::own(self.0.client.session().clone()))
    }

    /// Ends the session as if its process were killed: the connection closes without notice, and the server
    /// keeps the session until its timeout. All tasks of the contender end, too.
    pub fn crash(self) {
        if let Some(foreign) = &self.0.foreign {
            foreign.crash();
        }
        if let Some(scope) = TaskScope::here() {
            scope.kill();
        }
    }

    pub(super) fn sending(&self, kind: RequestKind, path: &str, bytes: u64) -> Begun {
        let now = clock::now();
        if let Some(trace) = &self.0.observed.trace {
            trace.borrow_mut().push(Sent { session: self.id(), kind, path: path.to_owned() });
        }
        self.0.observed.note(now, MessageKind::Request(kind), path);
        self.0.observed.pulse.fetch_add(1, Ordering::Relaxed);
        if let Some(throttle) = &self.0.observed.throttle {
            throttle.spend(1);
        }
        self.0.requests.set(self.0.requests.get() + 1);
        let mut recorder = self.0.observed.recorder.borrow_mut();
        recorder.count(now, |counts| {
            counts.requests.add(kind, 1);
            counts.bytes_sent += bytes;
        });
        if let Some(second) = recorder.second(now) {
            second.requests += 1;
        }
        Begun { kind, at: now }
    }

    /// Awaits the reply to a request that was already sent.
    pub(super) async fn metered<T>(
        &self,
        sent: Begun,
        request: impl Future<Output = Result<T, ClientError>>,
        size: impl Fn(&T) -> u64,
    ) -> Result<T, Failure> {
        let waker = self.0.take_waker();
        let reply = {
            let mut request = pin!(request);
            let stamped = poll_fn(|cx| waker.poll(request.as_mut(), cx));
            runtime::within(sent.at, self.0.request_timeout, stamped).await
        };
        let reply = reply.map(|reply| reply.map_err(Failure::from));
        let reply = reply.unwrap_or(Err(Failure::NoReply));
        let (message, bytes) = match &reply {
            Ok(reply) => (MessageKind::Reply(sent.kind), size(reply)),
            Err(failure) if failure.is_definite() => {
                (MessageKind::Refusal(sent.kind, failure.kind()), wire::EMPTY_REPLY)
            }
            // No usable reply arrived, e.g. because the connection was lost or the deadline passed.
            Err(failure) => (MessageKind::NoReply(sent.kind, failure.kind()), 0),
        };
        self.0.ended(sent, waker.arrived(), message, bytes);
        self.0.return_waker(waker);
        reply
    }

    fn arm(&self, watcher: OneshotWatcher, path: &str, arm: Option<Arm>) -> Watch {
        let stamp = StampWaker::new(Some(Arc::clone(&self.0.observed.pulse)));
        let armed = Armed::new(watcher.left_set_on_drop(), stamp, Rc::from(path), arm);
        self.0.supersede(&armed);
        Watch::new(armed, Rc::clone(&self.0))
    }

    /// Acquires the client library's own lock. Most of the library's requests bypass the session and are not
    /// counted.
    ///
    /// Joins the queue with an ephemeral sequential node named `prefix` plus its number. Waits until no child
    /// whose name contains `contenders` has a lower number. Returns the node's path; the caller must delete
    /// the node.
    ///
    /// The create is counted. Later requests are hidden: a getChildren and, while another node is ahead, a
    /// getData with a watch, its notification and another getChildren. The acquire is recorded as partly
    /// hidden.
    ///
    /// If the future is dropped early, the library sends a removeWatches and deletes the node. If the create
    /// is still unanswered, the library first searches for the node.
    ///
    /// # Errors
    /// [`Failure::OwnNodeMissing`] if the node disappeared during the wait; otherwise the request's failure.
    pub async fn crate_lock(&self, prefix: &str, contenders: &str) -> Result<String, Failure> {
        let acls = if self.0.owned { Acls::creator_all() } else { Acls::anyone_all() };
        let name = LockPrefix::new_custom(prefix.to_owned(), contenders)?;
        let sent = self.sending(RequestKind::Create, prefix, wire::create(prefix, &[], self.0.owned));
        self.0.observed.count(sent.at, |counts| counts.unseen += 1);
        let waker = self.0.take_waker();
        let locked = {
            let mut locking = pin!(self.0.client.lock(name, &[], acls));
            poll_fn(|cx| waker.poll(locking.as_mut(), cx)).await
        };
        self.0.return_waker(waker);
        let held = locked.map_err(|error| match error {
            ClientError::RuntimeInconsistent => Failure::OwnNodeMissing,
            other => other.into(),
        })?;
        self.0.observed.count(clock::now(), |counts| {
            counts.succeeded.add(sent.kind, 1);
            counts.bytes_received += wire::created(held.lock_path());
        });
        let path = held.lock_path().to_owned();
        // The lock's destructor would send a second delete, which costs a proposal. Forgetting the lock leaks
        // its copy of the path.
        std::mem::forget(held);
        Ok(path)
    }
}

fn stat_size(stat: &Option<Stat>) -> u64 {
    if stat.is_some() { wire::STAT_REPLY } else { wire::EMPTY_REPLY }
}

/// Returns the latest transaction in a node's stat.
fn latest(stat: &Stat) -> i64 {
    stat.czxid.max(stat.mzxid).max(stat.pzxid)
}

/// Closes a client's session and waits at most `deadline` until the session is over. Returns the final state.
/// `Closed` was confirmed by a server; the client inferred any other state.
pub async fn close(client: Client, deadline: Duration) -> Option<SessionState> {
    let mut states = client.state_watcher();
    drop(client);
    let closed = runtime::timeout(deadline, async {
        let mut state = states.state();
        while !state.is_terminated() {
            state = states.changed().await;
        }
        state
    });
    closed.await
}
