//! A TCP proxy between clients and the servers of an ensemble. It stands there from the start, so that a fault
//! of a client's link is only a setting.
//!
//! It knows clients by where they connect: each may have listeners of its own ([`Proxy::connect_for`]), so that what is
//! set for a client holds from the first byte of whatever it opens next, a new session too. It knows sessions by
//! reading the frames that pass, and changes none of them. What it does not understand (four-letter words, TLS) passes
//! untouched; such a connection belongs to no session.
//!
//! All its work is done on one thread of its own. Its timers are late by about a millisecond, never early.
//! Sockets between a proxy and its client are not those of a network: a server that is down shows as a reset
//! instead of a refusal.

mod conversation;
mod listen;
mod protocol;
mod pump;
mod setting;
mod table;
mod traffic;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use protocol::ClientRequest;
pub use setting::{Delay, Settings, Struck, Who};
pub use table::SessionTimeouts;
pub use traffic::{Passed, Waits};
pub use wire::{FanOut, Wire, Wired};

use listen::Listening;
use setting::{ConnectionEnd, LostPart, Setting};
use table::ProxyTable;
use zklockbench_core::error::Error;
use zklockbench_core::measure::RequestKind;

/// A proxy with one listener for each server. Dropped, it listens no more and all its connections are closed.
#[derive(Debug)]
pub struct Proxy {
    table: Arc<ProxyTable>,
    listening: Listening,
}

impl Proxy {
    /// Listens on the loopback interface before each of these servers, `host:port`. They need not be up yet.
    pub fn before(servers: &[String]) -> Result<Self, Error> {
        Self::with(servers, Arc::default())
    }

    /// One that counts what passes for clients that connect by [`Proxy::connect_for`].
    pub fn counting(servers: &[String]) -> Result<(Self, Arc<Wire>), Error> {
        let wire = Arc::<Wire>::default();
        Ok((Self::with(servers, Arc::new(ProxyTable::counting(Arc::clone(&wire))))?, wire))
    }

    fn with(servers: &[String], table: Arc<ProxyTable>) -> Result<Self, Error> {
        let listening = Listening::start(servers, &table)?;
        Ok(Self { table, listening })
    }

    /// Where to connect to instead of to the servers: `host:port` of each, in their order.
    pub fn addresses(&self) -> &[String] {
        &self.listening.addresses
    }

    /// The addresses as a connect string, without a chroot.
    pub fn connect(&self) -> String {
        self.addresses().join(",")
    }

    /// A connect string for that client alone, by which it is known whatever session it has: [`Who::Client`]. The same
    /// one each time.
    pub fn connect_for(&self, client: usize) -> Result<String, Error> {
        Ok(self.listening.addresses_for(client, &self.table)?.join(","))
    }

    /// Everything that this listens on, `host:port`.
    pub fn all_addresses(&self) -> Vec<String> {
        self.listening.all_addresses()
    }

    /// Closes listeners and connections, and waits until they are; dropping does the same.
    pub fn close(self) {}

    /// Data are under way for `delay.latency` and a random part of `delay.extra` longer, in each direction: a round
    /// trip takes twice that. Their order is kept. The random parts come from the seed and from the connection's
    /// place in the order of connecting. What waits when it is healed goes at once.
    pub fn delay(&self, who: Who, delay: Delay) -> Guard {
        Guard::set(&self.table, who, Setting::Delay(delay))
    }

    /// No more than so many bytes a second, at least 1, pass in each direction of each connection.
    pub fn bandwidth(&self, who: Who, bytes_per_second: u64) -> Guard {
        Guard::set(&self.table, who, Setting::Bandwidth(bytes_per_second.max(1)))
    }

    /// Connections stay open, and nothing moves in either direction, not even the news that one side has closed.
    /// Nothing is lost: once healed, it moves on. Only a client that has gone before its connect request had
    /// passed is let go, because a server would take its session away from a newer connection.
    pub fn stall(&self, who: Who) -> Guard {
        Guard::set(&self.table, who, Setting::Stall)
    }

    /// Connections are reset, and new ones at once: everybody's and a client's as they are accepted, a session's once its
    /// connect request has named it, which then does not reach the server.
    pub fn refuse(&self, who: Who) -> Guard {
        Guard::set(&self.table, who, Setting::Refuse)
    }

    /// The client reads slowly: what a server sends is taken off its hands so much later, and 16 KiB at a time.
    pub fn slow_reader(&self, who: Who, lag: Duration) -> Guard {
        Guard::set(&self.table, who, Setting::SlowReader(lag))
    }

    /// What all that is set together means for their next connection, before that has named a session.
    pub fn in_force(&self, who: Who) -> Settings {
        self.table.in_force(who)
    }

    /// Resets connections; how many. Data under way are lost. Done when [`Proxy::connections`] no longer counts them.
    pub fn reset(&self, who: Who) -> usize {
        self.table.end(who, ConnectionEnd::Reset)
    }

    /// Closes connections towards both sides without a word, as when a client crashes; how many. Data under way
    /// are lost. It is done when they are no longer among [`Proxy::connections`].
    pub fn cut(&self, who: Who) -> usize {
        self.table.end(who, ConnectionEnd::Cut)
    }

    /// Loses the reply to their next request of one of these kinds: the server carries it out, what it
    /// sends before the reply arrives, then the connection is cut. If the connection breaks for another reason
    /// first, the next such request is taken.
    pub fn drop_reply(&self, who: Who, kinds: &[RequestKind]) -> LostMessage {
        LostMessage::arm(&self.table, who, LostPart::Reply, kinds)
    }

    /// Loses their next request of one of these kinds: what was sent before it reaches the server, the
    /// request does not, and the connection is cut.
    pub fn drop_request(&self, who: Who, kinds: &[RequestKind]) -> LostMessage {
        LostMessage::arm(&self.table, who, LostPart::Request, kinds)
    }

    /// What a session's timeouts are, as client and server have negotiated them on its latest connection.
    pub fn session_timeouts(&self, session: i64) -> Option<SessionTimeouts> {
        self.table.timeouts(session)
    }

    /// Bytes passed on so far, to servers and to clients; a session's or a client's on all its connections.
    pub fn passed(&self, who: Who) -> (u64, u64) {
        let passed = self.table.passed(who);
        (passed.to_server, passed.to_client)
    }

    pub fn counted(&self, who: Who) -> Passed {
        self.table.passed(who)
    }

    /// How many connections are open. One whose end could not be noticed in a stall counts until it is healed.
    pub fn connections(&self, who: Who) -> usize {
        self.table.connections(who)
    }
}

/// Something that holds for connections as long as this lives.
#[must_use = "dropped, it undoes what was set"]
#[derive(Debug)]
pub struct Guard {
    table: Arc<ProxyTable>,
    number: u64,
}

impl Guard {
    fn set(table: &Arc<ProxyTable>, who: Who, setting: Setting) -> Self {
        Self { table: Arc::clone(table), number: table.set(who, setting) }
    }

    /// Undoes it, as dropping does. Other settings of the same connections keep their effect.
    pub fn heal(self) {}
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.table.unset(self.number);
    }
}

/// A request or a reply that is to be lost, as long as this lives.
#[must_use = "dropped, it loses nothing"]
#[derive(Debug)]
pub struct LostMessage {
    table: Arc<ProxyTable>,
    number: u64,
    told: watch::Receiver<Option<Struck>>,
}

impl LostMessage {
    fn arm(table: &Arc<ProxyTable>, who: Who, part: LostPart, kinds: &[RequestKind]) -> Self {
        let (number, told) = table.arm(who, part, kinds);
        Self { table: Arc::clone(table), number, told }
    }

    /// The request that was struck, if one was by now.
    pub fn struck(&self) -> Option<Struck> {
        self.told.borrow().clone()
    }

    /// Waits until a request is struck; for ever if none comes. On any executor.
    pub async fn strikes(&self) -> Struck {
        let mut told = self.told.clone();
        loop {
            if let Some(struck) = self.struck() {
                return struck;
            }
            if told.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for LostMessage {
    fn drop(&mut self) {
        self.table.disarm(self.number);
    }
}
