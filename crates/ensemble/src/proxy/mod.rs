//! A TCP proxy between clients and an ensemble's servers. The proxy is always in place, so a fault in a
//! client's link is only a setting.
//!
//! The proxy identifies clients by the address that they connect to: each client may have its own listeners
//! ([`Proxy::connect_for`]). A client's settings therefore apply from the first byte of any connection, even
//! in a new session. The proxy reads the frames that pass through but never changes them. Anything else
//! (four-letter commands, TLS) passes unread.
//!
//! All work is done on one thread. Timers are late by about a millisecond, never early. Clients connect to
//! the proxy's sockets, so a server that is down causes a reset instead of a refusal.

mod conversation;
mod listen;
mod protocol;
mod pump;
mod setting;
mod table;
mod trace;
mod traffic;
mod wire;

use std::sync::Arc;

use tokio::sync::watch;

pub use protocol::ClientRequest;
pub use setting::{Delay, Settings, Struck, Who};
pub use traffic::{Direction, Passed, Waits};
pub use wire::{FanOut, Wire, Wired};

use listen::Listening;
use setting::{ConnectionEnd, LostPart, Setting};
use table::ProxyTable;
use zklockbench_core::clock::Stamp;
use zklockbench_core::error::Error;
use zklockbench_core::measure::RequestKind;
use zklockbench_zk::Messages;

/// A proxy with a listener for each server. Dropping the proxy closes the listeners and all connections.
#[derive(Debug)]
pub struct Proxy {
    table: Arc<ProxyTable>,
    listening: Listening,
}

impl Proxy {
    /// Listens on the loopback interface in front of each of these servers (`host:port`), which may still be
    /// down.
    pub fn before(servers: &[String]) -> Result<Self, Error> {
        Self::with(servers, Arc::default())
    }

    /// Like [`Proxy::before`], but also counts the frames of clients that connect through [`Proxy::connect_for`].
    pub fn counting(servers: &[String]) -> Result<(Self, Arc<Wire>), Error> {
        let wire = Arc::<Wire>::default();
        Ok((Self::with(servers, Arc::new(ProxyTable::counting(Arc::clone(&wire))))?, wire))
    }

    fn with(servers: &[String], table: Arc<ProxyTable>) -> Result<Self, Error> {
        let listening = Listening::start(servers, &table)?;
        Ok(Self { table, listening })
    }

    /// Returns the addresses to use instead of the servers' (`host:port`), in server order.
    pub fn addresses(&self) -> &[String] {
        &self.listening.addresses
    }

    /// Returns the addresses as a connect string without a chroot.
    pub fn connect(&self) -> String {
        self.addresses().join(",")
    }

    /// Returns a client's connect string, which never changes. Its connections count as [`Who::Client`].
    pub fn connect_for(&self, client: usize) -> Result<String, Error> {
        Ok(self.listening.addresses_for(client, &self.table)?.join(","))
    }

    /// Records the messages of clients that have their own listeners, starting with their next connections.
    /// `messages` is indexed by client number; other clients are not traced.
    pub fn trace(&self, messages: &[Arc<Messages>]) {
        self.table.trace(messages);
    }

    /// Returns all addresses on which the proxy listens (`host:port`).
    pub fn all_addresses(&self) -> Vec<String> {
        self.listening.all_addresses()
    }

    /// Delays data by `delay.latency` plus a random part of `delay.extra`, in both directions unless
    /// `delay.only` is set. Preserves the order. The random parts depend on the seed and the connection's
    /// number. Healing releases all waiting data immediately.
    pub fn delay(&self, who: Who, delay: Delay) -> Guard {
        Guard::set(&self.table, who, Setting::Delay(delay))
    }

    /// Limits each direction of each connection to this many bytes per second, at least 1.
    pub fn bandwidth(&self, who: Who, bytes_per_second: u64) -> Guard {
        Guard::set(&self.table, who, Setting::Bandwidth(bytes_per_second.max(1)))
    }

    /// Keeps connections open but passes nothing in either direction, not even a close. No data is lost:
    /// waiting data passes after healing. The exception is a connection whose client hung up before the connect
    /// request passed: it is dropped, because it would take the session away from a newer connection.
    pub fn stall(&self, who: Who) -> Guard {
        Guard::set(&self.table, who, Setting::Stall)
    }

    /// Resets existing connections, and new connections as they are accepted.
    pub fn refuse(&self, who: Who) -> Guard {
        Guard::set(&self.table, who, Setting::Refuse)
    }

    /// Returns the combined settings of the target's next connection.
    pub fn in_force(&self, who: Who) -> Settings {
        self.table.in_force(who)
    }

    /// Resets connections, losing data in flight. Returns the number of connections being reset. Resetting is
    /// asynchronous: wait until [`Proxy::connections`] no longer counts them.
    pub fn reset(&self, who: Who) -> usize {
        self.table.end(who, ConnectionEnd::Reset)
    }

    /// Closes connections on both sides, as when a client crashes, losing data in flight. Returns the number
    /// of connections being closed. Closing is asynchronous: wait until [`Proxy::connections`] no longer counts
    /// them.
    pub fn cut(&self, who: Who) -> usize {
        self.table.end(who, ConnectionEnd::Cut)
    }

    /// Drops the reply to the target's next request of one of these kinds. The server executes the request,
    /// earlier replies are passed on, and the connection is cut. If the connection breaks earlier, the loss
    /// applies to the next matching request.
    pub fn drop_reply(&self, who: Who, kinds: &[RequestKind]) -> LostMessage {
        LostMessage(self.table.arm(who, LostPart::Reply, kinds))
    }

    /// Drops the target's next request of one of these kinds after passing earlier requests on, and cuts the
    /// connection.
    pub fn drop_request(&self, who: Who, kinds: &[RequestKind]) -> LostMessage {
        LostMessage(self.table.arm(who, LostPart::Request, kinds))
    }

    /// Returns the bytes passed on so far, to servers and to clients, on all connections of the target.
    pub fn passed(&self, who: Who) -> (u64, u64) {
        let passed = self.table.passed(who);
        (passed.to_server.bytes, passed.to_client.bytes)
    }

    /// Returns the last time at which data of this session passed on a connection to the client's own addresses, if
    /// any. Encrypted data counts for any session.
    pub fn last_passed(&self, client: usize, session: i64) -> Option<Stamp> {
        self.table.last_passed(client, session)
    }

    pub fn counted(&self, who: Who) -> Passed {
        self.table.passed(who)
    }

    /// Returns the number of open connections. A connection that ended during a stall counts until the stall is
    /// healed.
    pub fn connections(&self, who: Who) -> usize {
        self.table.connections(who)
    }
}

/// Guard that keeps a connection setting in force.
#[must_use = "dropping the guard undoes the setting"]
#[derive(Debug)]
pub struct Guard {
    table: Arc<ProxyTable>,
    number: u64,
}

impl Guard {
    fn set(table: &Arc<ProxyTable>, who: Who, setting: Setting) -> Self {
        Self { table: Arc::clone(table), number: table.set(who, setting) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.table.unset(self.number);
    }
}

/// Handle to a request or reply to drop.
#[must_use = "dropping the handle cancels the loss"]
#[derive(Debug)]
pub struct LostMessage(watch::Receiver<Option<Struck>>);

impl LostMessage {
    /// Waits until the message is dropped, or forever if no request matches. Works on any executor.
    pub async fn strikes(&self) -> Struck {
        let mut told = self.0.clone();
        let struck = told.wait_for(Option::is_some).await.ok().and_then(|struck| struck.clone());
        match struck {
            Some(struck) => struck,
            None => std::future::pending().await,
        }
    }
}
