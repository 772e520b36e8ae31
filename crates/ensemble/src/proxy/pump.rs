//! Forwards one direction of a connection: reads data, delays it if necessary, and writes it.
//!
//! Data that need not wait is written straight from the read buffer, without another wake-up. Data that must wait
//! is queued with the time at which it is due.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::conversation::{Conversation, LostRequest};
use super::setting::{ConnectionEnd, Delay, Orders, Settings};
use super::traffic::Direction;

const BUFFER: usize = 16 << 10;

enum PumpTurn {
    Look,
    Read,
    Write,
}

pub struct Pump<'a> {
    direction: Direction,
    from: &'a TcpStream,
    to: &'a TcpStream,
    conversation: &'a Conversation<'a>,
    orders: watch::Receiver<Orders>,
    settings: Arc<Settings>,
    buffer: Vec<u8>,
    queue: Queue,
    ended: bool,
    /// Whether the input ended with a broken connection.
    broken: bool,
    /// Request or reply to drop; nothing after it may pass.
    lost: Option<LostRequest>,
    has_passed: bool,
}

impl<'a> Pump<'a> {
    /// Creates the pump for one direction. `number` makes its random delays differ from other pumps' delays.
    pub fn new(
        direction: Direction,
        [client, server]: [&'a TcpStream; 2],
        conversation: &'a Conversation<'a>,
        orders: watch::Receiver<Orders>,
        number: u64,
    ) -> Self {
        let (from, to, number) = match direction {
            Direction::ToServer => (client, server, number),
            Direction::ToClient => (server, client, !number),
        };
        Self {
            direction,
            from,
            to,
            conversation,
            orders,
            settings: Arc::default(),
            buffer: vec![0; BUFFER],
            queue: Queue::new(direction, number, Instant::now()),
            ended: false,
            broken: false,
            lost: None,
            has_passed: false,
        }
    }

    pub async fn run(mut self) -> Result<(), ConnectionEnd> {
        loop {
            self.obey()?;
            if self.ended && self.queue.is_empty() && !self.settings.stalled {
                return self.finish();
            }
            let goes_on = match self.turn().await {
                PumpTurn::Look => true,
                PumpTurn::Read => self.read(),
                PumpTurn::Write => self.write(),
            };
            if !goes_on {
                // The receiver is gone, which the other direction detects, too.
                return Ok(());
            }
        }
    }

    async fn turn(&mut self) -> PumpTurn {
        let Self { from, to, orders, .. } = self;
        let now = Instant::now();
        let moves = !self.settings.stalled;
        let reads = moves && !self.ended && self.queue.has_room();
        let due = self.queue.due().filter(|_| moves);
        let is_over = |at: Instant| at <= now;
        let later = due.filter(|at| !is_over(*at));
        tokio::select! {
            biased;
            _ = orders.changed() => {
                // Keep the change marked, so that `obey` applies it.
                orders.mark_changed();
                PumpTurn::Look
            }
            _ = to.writable(), if due.is_some_and(is_over) => PumpTurn::Write,
            _ = from.readable(), if reads => PumpTurn::Read,
            () = sleep_until(later.unwrap_or(now)), if later.is_some() => PumpTurn::Look,
        }
    }

    fn obey(&mut self) -> Result<(), ConnectionEnd> {
        if !self.orders.has_changed().unwrap_or(false) {
            return Ok(());
        }
        let orders = self.orders.borrow_and_update().clone();
        if let Some(ending) = orders.ending() {
            return Err(ending);
        }
        let moves_again = self.settings.stalled && !orders.settings.stalled;
        self.settings = orders.settings;
        self.queue.set(&self.settings, Instant::now());
        // A connection that the client has abandoned must not take over the session.
        let is_fresh = self.direction == Direction::ToServer && !self.has_passed;
        if moves_again && is_fresh && has_hung_up(self.from) {
            return Err(ConnectionEnd::Cut);
        }
        Ok(())
    }

    /// Reads available data. Returns whether the receiver is still there.
    fn read(&mut self) -> bool {
        match self.from.try_read(&mut self.buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => return self.arrived(count),
            Err(error) if is_for_later(&error) => {}
            Err(_) => (self.ended, self.broken) = (true, true),
        }
        true
    }

    /// Passes the buffer on or queues it. Returns whether the receiver is still there.
    fn arrived(&mut self, count: usize) -> bool {
        self.lost = self.understand(count);
        let passes = self.lost.as_ref().map_or(count, |lost| lost.start);
        self.ended |= self.lost.is_some();
        let mut gone = 0;
        if self.queue.is_direct() && !self.settings.stalled {
            let Some(written) = self.pass(&self.buffer[..passes]) else { return false };
            gone = written;
            if gone == passes {
                self.conversation.traffic().kept(self.direction, Duration::ZERO);
            }
            self.has_passed |= gone > 0;
        }
        self.queue.push(&self.buffer[gone..passes], Instant::now());
        true
    }

    fn understand(&self, count: usize) -> Option<LostRequest> {
        let bytes = &self.buffer[..count];
        match self.direction {
            Direction::ToServer => self.conversation.requested(bytes),
            Direction::ToClient => self.conversation.replied(bytes),
        }
    }

    /// Writes data that is due. Returns whether the receiver is still there.
    fn write(&mut self) -> bool {
        let Some(part) = self.queue.part() else { return true };
        let Some(written) = self.pass(part) else { return false };
        if let Some(lasted) = self.queue.gone(written, Instant::now()) {
            self.conversation.traffic().kept(self.direction, lasted);
        }
        self.has_passed |= written > 0;
        true
    }

    /// Writes bytes without waiting. Returns the number written, or `None` if the receiver is gone.
    fn pass(&self, bytes: &[u8]) -> Option<usize> {
        match self.conversation.traffic().write(self.direction, || self.to.try_write(bytes)) {
            Ok(written) => {
                self.conversation.has_passed_data();
                Some(written)
            }
            Err(error) if is_for_later(&error) => Some(0),
            Err(_) => None,
        }
    }

    fn finish(self) -> Result<(), ConnectionEnd> {
        if let Some(lost) = self.lost {
            lost.strike();
            return Err(ConnectionEnd::Cut);
        }
        if self.broken {
            return Err(ConnectionEnd::Reset);
        }
        // Ignore errors: a socket that is already gone need not be shut down.
        let _ = SockRef::from(self.to).shutdown(Shutdown::Write);
        match self.direction {
            // The client may still be waiting for a reply, but a server that stops sending has closed the
            // connection.
            Direction::ToServer => Ok(()),
            Direction::ToClient => Err(ConnectionEnd::Cut),
        }
    }
}

/// Returns whether the peer has closed its end, even if unread bytes remain.
pub fn has_hung_up(socket: &TcpStream) -> bool {
    kernel_reports_closed(socket).unwrap_or_else(|| {
        let ready = socket.ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.map_or(true, |ready| ready.is_read_closed()))
    })
}

/// Queries the kernel, because the runtime's view of a socket is as old as its last poll. Not every system
/// reports a close before all bytes have been read.
#[cfg(target_os = "linux")]
fn kernel_reports_closed(socket: &TcpStream) -> Option<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let polled = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok().then(|| asked[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}

#[cfg(not(target_os = "linux"))]
fn kernel_reports_closed(_: &TcpStream) -> Option<bool> {
    None
}

fn is_for_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Maximum number of waiting bytes. At the maximum, reading stops, which slows the sender down.
const ROOM: usize = 4 << 20;
/// Parts per second under a bandwidth limit; each part holds at most 10 ms' worth of bytes.
const PARTS_A_SECOND: u64 = 100;
/// Maximum lateness for which a queue with a bandwidth limit compensates. Timers are about a millisecond late.
const CREDIT: Duration = Duration::from_millis(20);

/// Data from a single read.
#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    sent: usize,
    came: Instant,
    due: Instant,
}

/// Waiting pieces in order of arrival.
#[derive(Debug)]
struct Queue {
    direction: Direction,
    pieces: VecDeque<Piece>,
    bytes: usize,
    delays: Vec<(Delay, Rng)>,
    bandwidth: Option<u64>,
    /// Time at which a link with the bandwidth limit would have carried everything sent so far.
    idle_from: Instant,
    /// Number that makes this queue's random delays differ from other queues' delays.
    number: u64,
}

impl Queue {
    /// Creates an empty queue. Queues with different numbers have different random delays.
    fn new(direction: Direction, number: u64, now: Instant) -> Self {
        let (pieces, delays) = (VecDeque::new(), Vec::new());
        Self { direction, pieces, bytes: 0, delays, bandwidth: None, idle_from: now, number }
    }

    /// Applies changed settings. Data that is already waiting is never delayed further.
    fn set(&mut self, settings: &Settings, now: Instant) {
        self.bandwidth = settings.bandwidth;
        // Do not compensate for time during which no data could be sent.
        self.idle_from = self.idle_from.max(now);
        let is_ours = |delay: &&Delay| delay.only.is_none_or(|only| only == self.direction);
        let delays: Vec<Delay> = settings.delays.iter().filter(is_ours).copied().collect();
        if self.delays.iter().map(|(delay, _)| delay).eq(&delays) {
            return;
        }
        let random =
            |delay: &Delay| Rng::with_seed(delay.seed.wrapping_add(Rng::with_seed(self.number).u64(..)));
        self.delays = delays.iter().map(|delay| (*delay, random(delay))).collect();
        let mut before = None;
        for piece in &mut self.pieces {
            // The piece is due as if only these delays had applied on arrival, but never later than before.
            let due = (piece.came + late(&mut self.delays)).max(now);
            piece.due = piece.due.min(before.map_or(due, |before| due.max(before)));
            before = Some(piece.due);
        }
    }

    /// Returns whether data can pass without waiting.
    fn is_direct(&self) -> bool {
        self.pieces.is_empty() && self.delays.is_empty() && self.bandwidth.is_none()
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn has_room(&self) -> bool {
        self.bytes < ROOM
    }

    fn push(&mut self, bytes: &[u8], now: Instant) {
        if bytes.is_empty() {
            return;
        }
        let before = self.pieces.back().map_or(now, |piece| piece.due);
        let due = before.max(now + late(&mut self.delays));
        self.bytes += bytes.len();
        self.pieces.push_back(Piece { bytes: bytes.to_vec(), sent: 0, came: now, due });
    }

    /// Returns the time at which the next part is due; `None` if the queue is empty.
    fn due(&self) -> Option<Instant> {
        let part = self.part()?;
        Some(self.carried(part.len()).unwrap_or(self.pieces.front()?.due))
    }

    /// Returns the unsent bytes of the first piece; under a bandwidth limit, only as many as may be sent at once.
    fn part(&self) -> Option<&[u8]> {
        let piece = self.pieces.front()?;
        let rest = &piece.bytes[piece.sent..];
        let most = self
            .bandwidth
            .map_or(usize::MAX, |rate| usize::try_from(rate.div_ceil(PARTS_A_SECOND)).unwrap_or(usize::MAX));
        Some(&rest[..most.clamp(1, rest.len())])
    }

    /// Removes sent bytes of the first piece. Once the whole piece is sent, returns how long it was held back.
    fn gone(&mut self, bytes: usize, now: Instant) -> Option<Duration> {
        if let Some(carried) = self.carried(bytes) {
            self.idle_from = carried.max(now.checked_sub(CREDIT).unwrap_or(now));
        }
        let piece = self.pieces.front_mut()?;
        piece.sent += bytes;
        self.bytes -= bytes;
        let has_gone = piece.sent == piece.bytes.len();
        has_gone
            .then(|| self.pieces.pop_front())
            .flatten()
            .map(|piece| now.saturating_duration_since(piece.came))
    }

    /// Returns the time at which the limited link will have carried these bytes; `None` without a bandwidth limit.
    fn carried(&self, bytes: usize) -> Option<Instant> {
        let (rate, piece) = (self.bandwidth?, self.pieces.front()?);
        Some(self.idle_from.max(piece.due) + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64))
    }
}

/// Returns the sum of all delays for the next piece.
fn late(delays: &mut [(Delay, Rng)]) -> Duration {
    delays.iter_mut().map(|(delay, rng)| delay.latency + delay.extra.mul_f64(rng.f64())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::setting::Setting;

    const MS: Duration = Duration::from_millis(1);

    fn set(settings: Settings) -> (Queue, Instant) {
        let now = Instant::now();
        let mut queue = Queue::new(Direction::ToServer, 1, now);
        queue.set(&settings, now);
        (queue, now)
    }

    fn delayed(latency: Duration, extra: Duration, seed: u64) -> Settings {
        Settings { delays: vec![Delay { latency, extra, seed, only: None }], ..Settings::default() }
    }

    #[test]
    fn data_is_forwarded_immediately_without_settings() {
        let (mut queue, now) = set(Settings::default());
        assert!(queue.is_direct());
        queue.push(b"abc", now);
        assert_eq!(queue.due(), Some(now));
        queue.gone(1, now);
        assert_eq!(queue.part(), Some(&b"bc"[..]));
        queue.gone(2, now);
        assert!(queue.is_direct() && queue.due().is_none());
    }

    #[test]
    fn random_delays_preserve_order_stay_in_bounds_and_depend_on_the_seed() {
        let dues = |seed| {
            let (mut queue, now) = set(delayed(5 * MS, 10 * MS, seed));
            let mut dues = Vec::new();
            for n in 0..100_u8 {
                queue.push(&[n], now);
                let due = queue.pieces.back().unwrap().due - now;
                assert!((5 * MS..=15 * MS).contains(&due), "{due:?}");
                dues.push(due);
            }
            assert!(dues.is_sorted());
            dues
        };
        assert_eq!(dues(7), dues(7));
        assert_ne!(dues(7), dues(8));
    }

    #[test]
    fn longest_possible_delay_does_not_panic() {
        let now = Instant::now();
        let mut queue = Queue::new(Direction::ToServer, 1, now);
        let longest = Delay { latency: Duration::MAX, extra: Duration::MAX, seed: 1, only: None };
        queue.set(&Settings::of([Setting::Delay(longest); 3].into_iter()), now);
        queue.push(b"a", now);
        assert!(queue.due().unwrap() > now + Duration::from_secs(365 * 24 * 3600));
    }

    #[test]
    fn waiting_data_is_due_when_its_delay_is_removed() {
        let (mut queue, now) = set(delayed(1000 * MS, Duration::ZERO, 1));
        queue.push(b"a", now);
        queue.push(b"b", now);
        assert_eq!(queue.due(), Some(now + 1000 * MS));
        queue.set(&Settings::default(), now + MS);
        assert_eq!(queue.due(), Some(now + MS));
        assert_eq!(queue.gone(1, now + MS), Some(MS), "how long the piece was held back");
        assert_eq!(queue.part(), Some(&b"b"[..]));
    }

    #[test]
    fn remaining_delay_still_applies_when_another_delay_is_removed() {
        let (long, short) = (delayed(1000 * MS, Duration::ZERO, 1), delayed(20 * MS, Duration::ZERO, 1));
        let both = Settings { delays: [&long.delays[..], &short.delays].concat(), ..Settings::default() };
        let (mut queue, now) = set(both);
        queue.push(b"a", now);
        assert_eq!(queue.due(), Some(now + 1020 * MS));
        queue.set(&short, now + MS);
        assert_eq!(queue.due(), Some(now + 20 * MS));
        queue.push(b"b", now + 2 * MS);
        queue.gone(1, now + 20 * MS);
        assert_eq!(queue.due(), Some(now + 22 * MS));
    }

    #[test]
    fn delay_in_one_direction_does_not_affect_the_other() {
        let one_way = |only| Delay { latency: 20 * MS, extra: Duration::ZERO, seed: 1, only: Some(only) };
        let settings = Settings { delays: vec![one_way(Direction::ToClient)], ..Settings::default() };
        let (queue, now) = set(settings.clone());
        assert!(queue.is_direct());
        let mut queue = Queue::new(Direction::ToClient, 1, now);
        queue.set(&settings, now);
        queue.push(b"a", now);
        assert_eq!(queue.due(), Some(now + 20 * MS));
    }

    #[test]
    fn bandwidth_limit_is_fully_used_despite_late_timers() {
        let (mut queue, now) = set(Settings { bandwidth: Some(1000), ..Settings::default() });
        queue.push(&[0; 500], now);
        while let Some(part) = queue.part() {
            let (bytes, due) = (part.len(), queue.due().unwrap());
            assert!(bytes <= 10);
            // The timers are late, but the queue compensates for that.
            queue.gone(bytes, due + MS);
            assert!(queue.due().is_none_or(|next| next <= due + 10 * MS));
            assert!(queue.idle_from >= now);
        }
        assert_eq!(queue.idle_from, now + 500 * MS);
    }

    #[test]
    fn idle_link_does_not_accumulate_bandwidth() {
        let (mut queue, now) = set(Settings { bandwidth: Some(1000), ..Settings::default() });
        queue.push(&[0; 10], now + 5000 * MS);
        assert_eq!(queue.due(), Some(now + 5010 * MS));
        // A link with a slow receiver does not accumulate bandwidth either.
        queue.gone(10, now + 9000 * MS);
        assert_eq!(queue.idle_from, now + 9000 * MS - CREDIT);
    }

    #[test]
    fn queue_limits_the_number_of_waiting_bytes() {
        let (mut queue, now) = set(delayed(MS, Duration::ZERO, 1));
        let mut pushed = 0;
        while queue.has_room() {
            queue.push(&[0; 65536], now);
            pushed += 65536;
        }
        assert_eq!(pushed, ROOM);
        queue.gone(65536, now);
        assert!(queue.has_room());
    }
}
