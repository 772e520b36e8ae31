//! Table of all connections: their owners, settings and traffic.

use std::collections::{BTreeMap, HashMap};
use std::ops::Add;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::setting::{ConnectionEnd, Losses, LostPart, Orders, Owner, Setting, Settings, Struck, Who};
use super::traffic::{Passed, Traffic};
use super::wire::Wire;
use zklockbench_core::locked::locked;
use zklockbench_core::measure::RequestKind;

#[derive(Debug)]
struct Connection {
    owner: Owner,
    traffic: Arc<Traffic>,
    orders: watch::Sender<Orders>,
}

/// Traffic of one session, and its client.
#[derive(Debug, Default)]
struct OfSession {
    client: Option<usize>,
    traffic: Arc<Traffic>,
}

#[derive(Debug, Default)]
struct Inner {
    settings: BTreeMap<u64, (Who, Setting)>,
    connections: HashMap<u64, Connection>,
    /// Sessions stay, because they may reconnect. For a client with its own listeners, only the latest one
    /// stays.
    sessions: HashMap<i64, OfSession>,
    /// Latest session of each client with its own listeners.
    latest: HashMap<usize, i64>,
    /// Traffic, by client, of closed connections whose session was never known or has been forgotten.
    nameless: HashMap<Option<usize>, Traffic>,
    losses: Losses,
    numbers: u64,
}

/// Settings and losses as set by faults and read by connections.
#[derive(Debug, Default)]
pub struct ProxyTable {
    inner: Mutex<Inner>,
    /// Number of pending losses, so that requests take no lock while there is none.
    armed: AtomicUsize,
    /// Counter of the frames of clients with their own listeners, if they are counted.
    wire: Option<Arc<Wire>>,
}

impl ProxyTable {
    /// A table whose clients' frames are counted in `wire`.
    pub fn counting(wire: Arc<Wire>) -> Self {
        Self { wire: Some(wire), ..Self::default() }
    }

    /// Adds a setting; returns its number for [`ProxyTable::unset`].
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
        Settings::clone(&locked(&self.inner).orders_for(who.owner()).settings)
    }

    /// Makes connections end; returns how many were not ending before.
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

    pub fn arm(
        &self,
        who: Who,
        part: LostPart,
        kinds: &[RequestKind],
    ) -> (u64, watch::Receiver<Option<Struck>>) {
        let mut inner = locked(&self.inner);
        let number = inner.number();
        let hears = inner.losses.arm(number, who, part, kinds);
        self.armed.store(inner.losses.len(), Ordering::SeqCst);
        (number, hears)
    }

    pub fn disarm(&self, number: u64) {
        let mut inner = locked(&self.inner);
        inner.losses.disarm(number);
        self.armed.store(inner.losses.len(), Ordering::SeqCst);
    }

    pub fn connections(&self, who: Who) -> usize {
        locked(&self.inner).covered(who).count()
    }

    /// Traffic so far, including closed connections.
    pub fn passed(&self, who: Who) -> Passed {
        let inner = locked(&self.inner);
        let sessions = inner.sessions.iter().filter_map(|(session, OfSession { client, traffic, .. })| {
            who.covers(Owner { client: *client, session: Some(*session) }).then_some(&**traffic)
        });
        // A connection counts for its session, unless that has been forgotten.
        let is_known = |session| inner.sessions.contains_key(&session);
        let nameless =
            inner.covered(who).filter(|connection| !connection.owner.session.is_some_and(is_known));
        let nameless = nameless.map(|connection| &*connection.traffic);
        let gone = inner.nameless.iter().filter_map(|(client, traffic)| {
            who.covers(Owner { client: *client, session: None }).then_some(traffic)
        });
        let each = sessions.chain(nameless).chain(gone).map(Traffic::passed);
        each.fold(Passed::default(), Passed::add)
    }

    /// Adds a new connection, with its client if it came by the client's own listener.
    pub fn join(self: &Arc<Self>, client: Option<usize>) -> Registration {
        let mut inner = locked(&self.inner);
        let number = inner.number();
        let owner = Owner { client, session: None };
        let orders = watch::Sender::new(inner.orders_for(owner));
        let joined_stalled = orders.borrow().settings.stalled;
        let (traffic, heard) = (Arc::new(Traffic::of_connection()), orders.subscribe());
        inner.connections.insert(number, Connection { owner, traffic, orders });
        drop(inner);
        Registration { table: Arc::clone(self), number, client, joined_stalled, heard }
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn covered(&self, who: Who) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(move |connection| who.covers(connection.owner))
    }

    fn orders_for(&self, owner: Owner) -> Orders {
        let settings = self.settings.values().filter(|(who, _)| who.covers(owner));
        let settings = Arc::new(Settings::of(settings.map(|(_, setting)| *setting)));
        Orders { settings, ending: None }
    }

    fn give_orders(&self, who: Who) {
        self.covered(who).for_each(|connection| self.give(connection));
    }

    fn give(&self, connection: &Connection) {
        let Orders { settings, .. } = self.orders_for(connection.owner);
        connection.orders.send_if_modified(|orders| {
            let differs = orders.settings != settings;
            orders.settings = settings;
            differs
        });
    }

    /// Returns the connection's traffic from now on; `None` if it has left the table.
    fn identify(&mut self, number: u64, session: Option<i64>) -> Option<Arc<Traffic>> {
        let Self { connections, sessions, .. } = self;
        let connection = connections.get_mut(&number)?;
        if connection.owner.session == session {
            return Some(Arc::clone(&connection.traffic));
        }
        let client = connection.owner.client;
        let traffic = session.map(|session| {
            let known =
                sessions.entry(session).or_insert_with(|| OfSession { client, ..OfSession::default() });
            Arc::clone(&known.traffic)
        });
        let traffic = traffic.unwrap_or_default();
        if connection.owner.session.is_none() {
            traffic.take_over(&connection.traffic);
        }
        connection.owner.session = session;
        connection.traffic = Arc::clone(&traffic);
        self.give(&self.connections[&number]);
        if let Some((client, session)) = client.zip(session) {
            self.is_latest(client, session);
        }
        Some(traffic)
    }

    /// Forgets the client's previous session, and keeps its traffic.
    fn is_latest(&mut self, client: usize, session: i64) {
        let Some(before) = self.latest.insert(client, session).filter(|before| *before != session) else {
            return;
        };
        if let Some(over) = self.sessions.remove(&before) {
            self.nameless.entry(Some(client)).or_default().take_over(&over.traffic);
        }
    }
}

/// One connection's entry in the table, removed when dropped.
#[derive(Debug)]
pub struct Registration {
    table: Arc<ProxyTable>,
    pub number: u64,
    client: Option<usize>,
    /// Whether the connection was stalled when it joined; the stall may be over by the time it is served.
    pub joined_stalled: bool,
    heard: watch::Receiver<Orders>,
}

#[derive(Debug)]
pub struct CountedBy<'a> {
    pub wire: &'a Wire,
    pub connection: u64,
    pub client: usize,
}

impl Registration {
    pub fn counted_by(&self) -> Option<CountedBy<'_>> {
        Some(CountedBy { wire: self.table.wire.as_deref()?, connection: self.number, client: self.client? })
    }

    /// Orders for the connection, beginning with the current ones.
    pub fn orders(&self) -> watch::Receiver<Orders> {
        let mut heard = self.heard.clone();
        heard.mark_changed();
        heard
    }

    /// Sets the connection's session, if any; returns the traffic in which it counts from now on.
    pub fn identify(&self, session: Option<i64>) -> Arc<Traffic> {
        locked(&self.table.inner).identify(self.number, session).unwrap_or_default()
    }

    /// Number and part of the pending loss that matches a request, if any.
    pub fn loss_for(&self, kind: RequestKind) -> Option<(u64, LostPart)> {
        if self.table.armed.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut inner = locked(&self.table.inner);
        let owner = inner.connections.get(&self.number)?.owner;
        inner.losses.find(self.number, owner, kind)
    }

    pub fn spare(&self, loss: u64) {
        locked(&self.table.inner).losses.spare(loss);
    }

    pub fn strike(&self, loss: u64, struck: Struck) {
        let mut inner = locked(&self.table.inner);
        inner.losses.strike(loss, struck);
        self.table.armed.store(inner.losses.len(), Ordering::SeqCst);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut inner = locked(&self.table.inner);
        inner.losses.gone(self.number);
        let Some(connection) = inner.connections.remove(&self.number) else { return };
        let Owner { client, session } = connection.owner;
        if session.is_none_or(|session| !inner.sessions.contains_key(&session)) {
            inner.nameless.entry(client).or_default().take_over(&connection.traffic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::traffic::Direction;

    const ONE: Who = Who::Session(1);

    fn settings(registration: &Registration) -> Arc<Settings> {
        Arc::clone(&registration.orders().borrow().settings)
    }

    fn sends(registration: &Registration, session: Option<i64>, bytes: usize) {
        registration.identify(session).write(Direction::ToServer, || Ok(bytes)).unwrap();
    }

    #[test]
    fn setting_applies_to_existing_and_new_connections_until_unset() {
        let table = Arc::new(ProxyTable::default());
        let [one, other] = [table.join(None), table.join(None)];
        one.identify(Some(1));
        let setting = table.set(ONE, Setting::Stall);
        let again = table.join(None);
        assert_eq!(
            [&one, &other, &again].map(|registration| settings(registration).stalled),
            [true, false, false]
        );
        again.identify(Some(1));
        assert!(settings(&again).stalled);
        again.identify(None);
        assert!(!settings(&again).stalled, "the session is over");
        table.unset(setting);
        assert!(!settings(&one).stalled);
    }

    #[test]
    fn setting_of_a_client_holds_for_all_its_sessions_and_before_them() {
        let table = Arc::new(ProxyTable::default());
        let client = Who::Client(7);
        let first = table.join(Some(7));
        first.identify(Some(1));
        let _setting = table.set(client, Setting::Refuse);
        drop(first);
        let next = table.join(Some(7));
        assert!(settings(&next).refused, "before it has asked for its next session");
        next.identify(Some(2));
        assert!(settings(&next).refused);
        assert!(!settings(&table.join(Some(8))).refused && !settings(&table.join(None)).refused);
        assert_eq!((table.connections(client), table.connections(Who::Session(2))), (1, 1));
    }

    #[test]
    fn bytes_of_all_sessions_count_for_their_client() {
        let table = Arc::new(ProxyTable::default());
        for session in [1, 2] {
            let registration = table.join(Some(7));
            sends(&registration, Some(session), 10);
        }
        sends(&table.join(Some(7)), None, 1);
        sends(&table.join(Some(8)), Some(3), 100);
        assert_eq!(table.passed(Who::Client(7)).to_server, 21);
        assert_eq!(table.passed(Who::All).to_server, 121);
    }

    #[test]
    fn replaced_session_is_forgotten_and_its_traffic_still_counts() {
        let table = Arc::new(ProxyTable::default());
        for session in 1..=1_000 {
            sends(&table.join(Some(7)), Some(session), 10);
        }
        // Given a connection of the previous session that is not closed yet
        let late = table.join(Some(7));
        sends(&late, Some(1_001), 10);
        let next = table.join(Some(7));
        sends(&next, Some(1_002), 10);
        sends(&late, Some(1_001), 1);
        drop(late);
        assert_eq!(locked(&table.inner).sessions.len(), 1);
        assert_eq!(table.passed(Who::Client(7)).connections, 1_002);
        assert_eq!(table.passed(Who::Client(7)).to_server, 10_021);
        assert_eq!(table.passed(Who::Session(1_002)).to_server, 10);
    }

    #[test]
    fn new_session_still_counts_when_the_old_one_reconnects_to_be_closed() {
        let table = Arc::new(ProxyTable::default());
        let next = table.join(Some(7));
        sends(&next, Some(2), 10);
        let late = table.join(Some(7));
        sends(&late, Some(1), 100);
        sends(&next, Some(2), 1_000);
        assert_eq!(table.passed(Who::Client(7)).to_server, 1_110);
        drop((late, next));
        assert_eq!(table.passed(Who::Client(7)).to_server, 1_110);
    }

    #[test]
    fn connection_is_ended_once() {
        let table = Arc::new(ProxyTable::default());
        let registrations = [table.join(None), table.join(None)];
        registrations[0].identify(Some(1));
        assert_eq!(table.end(ONE, ConnectionEnd::Reset), 1);
        assert_eq!(table.end(Who::All, ConnectionEnd::Cut), 1);
        assert_eq!(registrations[0].orders().borrow().ending(), Some(ConnectionEnd::Reset));
        drop(registrations);
        assert_eq!((table.end(Who::All, ConnectionEnd::Cut), table.connections(Who::All)), (0, 0));
    }

    #[test]
    fn bytes_count_for_the_session_from_the_start_of_each_connection() {
        let table = Arc::new(ProxyTable::default());
        for _ in 0..2 {
            let registration = table.join(None);
            sends(&registration, None, 3);
            assert_eq!(table.passed(Who::All).to_server % 10, 3);
            sends(&registration, Some(1), 7);
        }
        let nameless = table.join(None);
        sends(&nameless, None, 5);
        drop(nameless);
        assert_eq!(table.passed(ONE).to_server, 20);
        assert_eq!(table.passed(Who::All).to_server, 25);
    }

    #[test]
    fn loss_matches_only_requests_of_its_session() {
        let table = Arc::new(ProxyTable::default());
        let registrations = [table.join(None), table.join(None)];
        registrations[0].identify(Some(1));
        let (number, _told) = table.arm(ONE, LostPart::Reply, &[RequestKind::Create]);
        assert_eq!(registrations[1].loss_for(RequestKind::Create), None);
        assert_eq!(registrations[0].loss_for(RequestKind::Create), Some((number, LostPart::Reply)));
        table.disarm(number);
        assert_eq!(table.armed.load(Ordering::SeqCst), 0);
    }
}
