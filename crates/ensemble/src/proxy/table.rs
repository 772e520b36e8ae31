//! Table of all connections: their clients, settings and traffic.

use std::collections::{BTreeMap, HashMap};
use std::ops::Add;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::setting::{Armed, ConnectionEnd, LostPart, Orders, Setting, Settings, Struck, Who};
use super::traffic::{Passed, Traffic};
use super::wire::Wire;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_core::measure::RequestKind;
use zklockbench_zk::Messages;

#[derive(Debug)]
struct Connection {
    client: Option<usize>,
    orders: watch::Sender<Orders>,
    course: Arc<Course>,
}

/// Session of a connection, and the last time at which the connection passed data.
#[derive(Debug, Default)]
pub struct Course {
    /// Session ID; 0 while unknown.
    session: AtomicI64,
    passed_at: AtomicU64,
}

impl Course {
    /// Session of a connection that does not use the plain protocol, for example because of TLS.
    const UNREADABLE: i64 = i64::MIN;

    pub fn carries(&self, session: i64) {
        self.session.store(session, Ordering::Release);
    }

    pub fn is_unreadable(&self) {
        self.carries(Self::UNREADABLE);
    }

    pub fn has_passed_data(&self) {
        self.passed_at.store(clock::now(), Ordering::Release);
    }

    /// Returns the last time at which data of this session may have passed.
    fn passed_for(&self, session: i64) -> Option<Stamp> {
        let carried = self.session.load(Ordering::Acquire);
        (carried == session || carried == Self::UNREADABLE).then(|| self.passed_at.load(Ordering::Acquire))
    }
}

#[derive(Debug, Default)]
struct Inner {
    settings: BTreeMap<u64, (Who, Setting)>,
    connections: HashMap<u64, Connection>,
    /// Traffic by client (`None` for the shared listeners), including closed connections.
    traffic: HashMap<Option<usize>, Arc<Traffic>>,
    /// Closed connection of each client and session that was the last to pass data.
    closed: HashMap<(usize, i64), Arc<Course>>,
    /// Pending losses, including cancelled ones.
    losses: Vec<Armed>,
    /// Message logs of traced clients, by client number.
    traced: Box<[Arc<Messages>]>,
    numbers: u64,
}

/// Shared table of connections. Faults add settings and losses, and connections read them.
#[derive(Debug, Default)]
pub struct ProxyTable {
    inner: Mutex<Inner>,
    /// Frame counter for clients with their own listeners, if frames are counted.
    wire: Option<Arc<Wire>>,
}

impl ProxyTable {
    /// Creates a table that counts its clients' frames in `wire`.
    pub fn counting(wire: Arc<Wire>) -> Self {
        Self { wire: Some(wire), ..Self::default() }
    }

    /// Adds a setting. Returns its number for [`ProxyTable::unset`].
    pub fn set(&self, who: Who, setting: Setting) -> u64 {
        let mut inner = locked(&self.inner);
        let number = inner.number();
        inner.settings.insert(number, (who, setting));
        inner.give_orders(who);
        number
    }

    pub fn unset(&self, number: u64) {
        let mut inner = locked(&self.inner);
        if let Some((who, _)) = inner.settings.remove(&number) {
            inner.give_orders(who);
        }
    }

    pub fn in_force(&self, who: Who) -> Settings {
        let client = match who {
            Who::All => None,
            Who::Client(client) => Some(client),
        };
        Settings::clone(&locked(&self.inner).settings_for(client))
    }

    /// Ends connections. Returns how many of them were not already ending.
    pub fn end(&self, who: Who, ending: ConnectionEnd) -> usize {
        let inner = locked(&self.inner);
        let told = inner.covered(who).filter(|connection| {
            connection.orders.send_if_modified(|orders| {
                let is_first = orders.ending.is_none();
                orders.ending.get_or_insert(ending);
                is_first
            })
        });
        told.count()
    }

    /// Arms the loss of the next matching request or its reply, until the receiver is dropped.
    pub fn arm(&self, who: Who, part: LostPart, kinds: &[RequestKind]) -> watch::Receiver<Option<Struck>> {
        let (told, hears) = watch::channel(None);
        locked(&self.inner).losses.push(Armed { who, part, kinds: kinds.to_vec(), told });
        hears
    }

    pub fn connections(&self, who: Who) -> usize {
        locked(&self.inner).covered(who).count()
    }

    /// Returns the last time at which data of this session passed on the client's connections, if any.
    pub fn last_passed(&self, client: usize, session: i64) -> Option<Stamp> {
        let inner = locked(&self.inner);
        let open = inner.covered(Who::Client(client)).filter_map(|one| one.course.passed_for(session));
        let closed = [session, Course::UNREADABLE].map(|session| inner.closed.get(&(client, session)));
        let closed = closed.into_iter().flatten().filter_map(|course| course.passed_for(session));
        open.chain(closed).max()
    }

    /// Returns the traffic so far, including closed connections.
    pub fn passed(&self, who: Who) -> Passed {
        let inner = locked(&self.inner);
        let covered = inner.traffic.iter().filter(|(client, _)| who.covers(**client));
        covered.map(|(_, traffic)| traffic.passed()).fold(Passed::default(), Passed::add)
    }

    /// Records the messages of these clients' next connections.
    pub fn trace(&self, messages: &[Arc<Messages>]) {
        locked(&self.inner).traced = messages.into();
    }

    /// Adds a new connection. `client` is set if the connection arrived at a client's own listener.
    pub fn join(self: &Arc<Self>, client: Option<usize>) -> Registration {
        let mut inner = locked(&self.inner);
        let number = inner.number();
        let orders = watch::Sender::new(Orders { settings: inner.settings_for(client), ending: None });
        let joined_stalled = orders.borrow().settings.stalled;
        let heard = orders.subscribe();
        let course = Arc::<Course>::default();
        inner.connections.insert(number, Connection { client, orders, course: Arc::clone(&course) });
        let traffic = Arc::clone(inner.traffic.entry(client).or_default());
        traffic.connected();
        let messages = client.and_then(|client| inner.traced.get(client)).map(Arc::clone);
        drop(inner);
        let table = Arc::clone(self);
        Registration { table, number, client, traffic, course, messages, joined_stalled, heard }
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn covered(&self, who: Who) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(move |connection| who.covers(connection.client))
    }

    fn settings_for(&self, client: Option<usize>) -> Arc<Settings> {
        let settings = self.settings.values().filter(|(who, _)| who.covers(client));
        Arc::new(Settings::of(settings.map(|(_, setting)| *setting)))
    }

    fn give_orders(&self, who: Who) {
        for connection in self.covered(who) {
            let settings = self.settings_for(connection.client);
            connection.orders.send_if_modified(|orders| {
                let differs = orders.settings != settings;
                orders.settings = settings;
                differs
            });
        }
    }
}

/// One connection's entry in the table, removed when dropped.
#[derive(Debug)]
pub struct Registration {
    table: Arc<ProxyTable>,
    pub number: u64,
    client: Option<usize>,
    /// Traffic of the connection's client.
    pub traffic: Arc<Traffic>,
    pub course: Arc<Course>,
    /// Message log of the connection's client, if traced.
    pub messages: Option<Arc<Messages>>,
    /// Whether the connection was stalled when it joined. The stall may have ended before the connection is served.
    pub joined_stalled: bool,
    heard: watch::Receiver<Orders>,
}

/// A loss with a matching request. If this value is dropped before `strike` is called, the loss waits for the next
/// matching request.
#[derive(Debug)]
pub struct FoundLoss {
    table: Arc<ProxyTable>,
    armed: Option<Armed>,
}

impl FoundLoss {
    pub fn is_of_request(&self) -> bool {
        self.armed.as_ref().is_some_and(|armed| armed.part == LostPart::Request)
    }

    /// Returns whether the loss was cancelled after it had found its request.
    pub fn is_cancelled(&self) -> bool {
        self.armed.as_ref().is_none_or(|armed| armed.told.is_closed())
    }

    /// Reports that the request or reply was dropped.
    pub fn strike(mut self, struck: Struck) {
        if let Some(armed) = self.armed.take() {
            armed.told.send_replace(Some(struck));
        }
    }
}

impl Drop for FoundLoss {
    fn drop(&mut self) {
        locked(&self.table.inner).losses.extend(self.armed.take());
    }
}

impl Registration {
    /// Counts a frame if the client's frames are counted.
    pub fn count(&self, count: impl FnOnce(&Wire, usize)) {
        if let (Some(wire), Some(client)) = (&self.table.wire, self.client) {
            count(wire, client);
        }
    }

    /// Returns the orders for the connection, starting with the current orders.
    pub fn orders(&self) -> watch::Receiver<Orders> {
        let mut heard = self.heard.clone();
        heard.mark_changed();
        heard
    }

    /// Returns the pending loss that matches a request, if any.
    pub fn loss_for(&self, kind: RequestKind) -> Option<FoundLoss> {
        let losses = &mut locked(&self.table.inner).losses;
        losses.retain(|armed| !armed.told.is_closed());
        let fits = |armed: &Armed| armed.who.covers(self.client) && armed.kinds.contains(&kind);
        let armed = losses.iter().position(fits).map(|first| losses.remove(first))?;
        Some(FoundLoss { table: Arc::clone(&self.table), armed: Some(armed) })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut inner = locked(&self.table.inner);
        inner.connections.remove(&self.number);
        let session = self.course.session.load(Ordering::Acquire);
        if let Some(client) = self.client.filter(|_| session != 0) {
            let last = inner.closed.entry((client, session)).or_default();
            // An abandoned connection may close later than its successor.
            if last.passed_at.load(Ordering::Acquire) <= self.course.passed_at.load(Ordering::Acquire) {
                *last = Arc::clone(&self.course);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::protocol::ClientRequest;
    use crate::proxy::traffic::Direction;

    const ONE: Who = Who::Client(1);

    fn settings(registration: &Registration) -> Arc<Settings> {
        Arc::clone(&registration.orders().borrow().settings)
    }

    fn sends(registration: &Registration, bytes: usize) {
        registration.traffic.write(Direction::ToServer, || Ok(bytes)).unwrap();
    }

    #[test]
    fn setting_applies_to_its_clients_existing_and_new_connections_until_unset() {
        let table = Arc::new(ProxyTable::default());
        let [one, other] = [table.join(Some(1)), table.join(Some(2))];
        let setting = table.set(ONE, Setting::Stall);
        let [again, nameless] = [table.join(Some(1)), table.join(None)];
        let found = [&one, &other, &again, &nameless].map(|registration| settings(registration).stalled);
        assert_eq!(found, [true, false, true, false]);
        table.unset(setting);
        assert!(!settings(&one).stalled && !settings(&again).stalled);
    }

    #[test]
    fn bytes_of_closed_connections_count_for_their_client() {
        let table = Arc::new(ProxyTable::default());
        for _ in 0..2 {
            sends(&table.join(Some(1)), 10);
        }
        sends(&table.join(Some(8)), 100);
        sends(&table.join(None), 1_000);
        assert_eq!((table.passed(ONE).to_server.bytes, table.passed(ONE).connections), (20, 2));
        assert_eq!(table.passed(Who::All).to_server.bytes, 1_120);
    }

    #[test]
    fn time_of_last_data_remains_known_after_the_connection_closes() {
        let table = Arc::new(ProxyTable::default());
        let [one, unreadable] = [table.join(Some(1)), table.join(Some(2))];
        one.course.carries(7);
        one.course.has_passed_data();
        let passed = table.last_passed(1, 7);
        assert!(passed.is_some_and(|at| at > 0), "{passed:?}");
        assert_eq!([table.last_passed(1, 8), table.last_passed(2, 7)], [None, None]);
        drop(one);
        assert_eq!(table.last_passed(1, 7), passed);
        unreadable.course.is_unreadable();
        unreadable.course.has_passed_data();
        assert!(table.last_passed(2, 7).is_some());
        drop(unreadable);
        assert!(table.last_passed(2, 8).is_some());
    }

    #[test]
    fn abandoned_connection_that_closes_last_does_not_hide_later_data() {
        let table = Arc::new(ProxyTable::default());
        let [abandoned, newer] = [(); 2].map(|()| table.join(Some(1)));
        for (registration, at) in [(&abandoned, 5), (&newer, 9)] {
            registration.course.carries(7);
            registration.course.passed_at.store(at, Ordering::Release);
        }
        drop(newer);
        drop(abandoned);
        assert_eq!(table.last_passed(1, 7), Some(9));
    }

    #[test]
    fn connection_ends_only_once() {
        let table = Arc::new(ProxyTable::default());
        let registrations = [table.join(Some(1)), table.join(None)];
        assert_eq!(table.end(ONE, ConnectionEnd::Reset), 1);
        assert_eq!(table.end(Who::All, ConnectionEnd::Cut), 1);
        assert_eq!(registrations[0].orders().borrow().ending(), Some(ConnectionEnd::Reset));
        drop(registrations);
        assert_eq!((table.end(Who::All, ConnectionEnd::Cut), table.connections(Who::All)), (0, 0));
    }

    const CREATE: RequestKind = RequestKind::Create;

    #[test]
    fn loss_matches_one_request_of_its_client_and_kind() {
        let table = Arc::new(ProxyTable::default());
        let [one, nameless] = [table.join(Some(1)), table.join(None)];
        let told = table.arm(ONE, LostPart::Reply, &[CREATE]);
        assert!(nameless.loss_for(CREATE).is_none() && one.loss_for(RequestKind::Delete).is_none());
        let found = one.loss_for(CREATE).unwrap();
        assert!(!found.is_of_request() && one.loss_for(CREATE).is_none() && told.borrow().is_none());
        let request = ClientRequest { xid: 1, opcode: 1, kind: CREATE, path: "/a".into() };
        found.strike(Struck { request, zxid: 5 });
        assert_eq!(told.borrow().as_ref().map(|struck| struck.zxid), Some(5));
        assert!(one.loss_for(CREATE).is_none());
    }

    #[test]
    fn loss_without_a_strike_waits_for_the_next_request_until_cancelled() {
        let table = Arc::new(ProxyTable::default());
        let one = table.join(Some(1));
        let told = table.arm(ONE, LostPart::Request, &[CREATE]);
        drop(one.loss_for(CREATE).unwrap());
        let found = one.loss_for(CREATE).unwrap();
        drop(told);
        drop(found);
        assert!(one.loss_for(CREATE).is_none());
    }
}
