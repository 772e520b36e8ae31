//! One direction of one connection: reads, waits where it has to, writes.
//!
//! What need not wait is written from the buffer that it was read into, without another wake-up.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::conversation::{Conversation, LostRequest, Replies};
use super::queue::Queue;
use super::setting::{ConnectionEnd, Orders, Settings};
use super::traffic::{Direction, Mark};

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
    /// When a slow reader gets to what has come.
    reads_at: Option<Instant>,
    came_at: Option<Instant>,
    ended: bool,
    /// Nothing more comes because the connection broke.
    broken: bool,
    /// Nothing more is to pass because this request or reply is to be lost.
    lost: Option<LostRequest>,
    has_passed: bool,
}

impl<'a> Pump<'a> {
    /// From the client to the server; `number` tells its random delays from those of others.
    pub fn to_server(
        [client, server]: [&'a TcpStream; 2],
        conversation: &'a Conversation<'a>,
        orders: watch::Receiver<Orders>,
        number: u64,
    ) -> Self {
        Self {
            direction: Direction::ToServer,
            from: client,
            to: server,
            conversation,
            orders,
            settings: Arc::default(),
            buffer: vec![0; BUFFER],
            queue: Queue::new(number, Instant::now()),
            reads_at: None,
            came_at: None,
            ended: false,
            broken: false,
            lost: None,
            has_passed: false,
        }
    }

    pub fn to_client(
        [client, server]: [&'a TcpStream; 2],
        conversation: &'a Conversation<'a>,
        orders: watch::Receiver<Orders>,
        number: u64,
    ) -> Self {
        let other_way = Self::to_server([server, client], conversation, orders, !number);
        Self { direction: Direction::ToClient, ..other_way }
    }

    pub async fn run(mut self) -> Result<(), ConnectionEnd> {
        loop {
            self.obey()?;
            if self.ended && self.queue.is_empty() && !self.settings.stalled {
                return self.finish();
            }
            let goes_on = match self.turn().await {
                PumpTurn::Look => true,
                PumpTurn::Read => self.read()?,
                PumpTurn::Write => self.write(),
            };
            if !goes_on {
                // The receiver is gone, which the other direction notices by itself.
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
        let reads_at = self.reads_at.filter(|_| reads);
        let is_over = |at: Instant| at <= now;
        let later = [due, reads_at].into_iter().flatten().filter(|at| !is_over(*at)).min();
        tokio::select! {
            biased;
            _ = orders.changed() => {
                // Heard, but not obeyed yet.
                orders.mark_changed();
                PumpTurn::Look
            }
            _ = to.writable(), if due.is_some_and(is_over) => PumpTurn::Write,
            _ = from.readable(), if reads && reads_at.is_none_or(is_over) => PumpTurn::Read,
            () = sleep_until(later.unwrap_or(now)), if later.is_some() => PumpTurn::Look,
        }
    }

    /// Takes in what it has been told since it last looked.
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
        // A shorter lag than before lets it look sooner.
        self.reads_at = self.reads_at.zip(self.settings.lag).map(|(at, lag)| at.min(Instant::now() + lag));
        self.queue.set(&self.settings, Instant::now());
        // A session is not taken up by a connection that its client has given up.
        let is_fresh = self.direction == Direction::ToServer && !self.has_passed;
        if moves_again && is_fresh && has_hung_up(self.from) {
            return Err(ConnectionEnd::Cut);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<bool, ConnectionEnd> {
        if let Some(lag) = self.lag().filter(|_| self.reads_at.is_none()) {
            let now = Instant::now();
            (self.came_at, self.reads_at) = (Some(now), Some(now + lag));
            return Ok(true);
        }
        self.reads_at = None;
        let came_at = self.came_at.take();
        match self.from.try_read(&mut self.buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => {
                if let Some(came_at) = came_at {
                    self.conversation.traffic().unread(came_at.elapsed());
                }
                return self.arrived(count);
            }
            Err(error) if is_for_later(&error) => {}
            Err(_) => (self.ended, self.broken) = (true, true),
        }
        Ok(true)
    }

    fn lag(&self) -> Option<Duration> {
        self.settings.lag.filter(|_| self.direction == Direction::ToClient)
    }

    /// Passes on what is in the buffer, or puts it in the queue; whether there still is a receiver.
    fn arrived(&mut self, count: usize) -> Result<bool, ConnectionEnd> {
        let found = self.understand(count);
        let passes = found.lost.as_ref().map_or(count, |lost| lost.start);
        self.ended |= found.lost.is_some();
        self.lost = found.lost;
        // These bytes may have told whose connection it is.
        self.obey()?;
        let mut gone = 0;
        if self.queue.is_direct() && !self.settings.stalled {
            let Some(written) = self.pass(&self.buffer[..passes], 0, &found.marks) else { return Ok(false) };
            gone = written;
            if gone == passes {
                self.conversation.traffic().kept(Duration::ZERO);
            }
            self.has_passed |= gone > 0;
        }
        let rest = found.marks.into_iter().filter(|mark| mark.end > gone);
        let rest = rest.map(|mark| Mark { end: mark.end - gone, ..mark }).collect();
        self.queue.push(&self.buffer[gone..passes], rest, Instant::now());
        Ok(true)
    }

    fn understand(&self, count: usize) -> Replies {
        let bytes = &self.buffer[..count];
        match self.direction {
            Direction::ToServer => Replies { lost: self.conversation.requested(bytes), ..Replies::default() },
            Direction::ToClient => self.conversation.replied(bytes),
        }
    }

    /// Writes what is due; whether there still is a receiver.
    fn write(&mut self) -> bool {
        let Some(part) = self.queue.part() else { return true };
        let Some(written) = self.pass(part.bytes, part.from, part.marks) else { return false };
        if let Some(lasted) = self.queue.gone(written, Instant::now()) {
            self.conversation.traffic().kept(lasted);
        }
        self.has_passed |= written > 0;
        true
    }

    /// How much could be written at once; `None` when there is no reader.
    fn pass(&self, bytes: &[u8], from: usize, marks: &[Mark]) -> Option<usize> {
        match self.conversation.write(self.direction, from, marks, || self.to.try_write(bytes)) {
            Ok(written) => Some(written),
            Err(error) if is_for_later(&error) => Some(0),
            Err(_) => None,
        }
    }

    fn finish(self) -> Result<(), ConnectionEnd> {
        if let Some(lost) = self.lost {
            self.conversation.lose(lost);
            return Err(ConnectionEnd::Cut);
        }
        if self.broken {
            return Err(ConnectionEnd::Reset);
        }
        // A socket that is gone already need not be told.
        let _ = SockRef::from(self.to).shutdown(Shutdown::Write);
        match self.direction {
            // A client may have said all it has to say and wait for the answer; a server that says no more has
            // closed.
            Direction::ToServer => Ok(()),
            Direction::ToClient => Err(ConnectionEnd::Cut),
        }
    }
}

/// Whether the other side has closed its end, whatever it may have sent before.
pub fn has_hung_up(socket: &TcpStream) -> bool {
    is_told_closed(socket).unwrap_or_else(|| {
        let ready = socket.ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.map_or(true, |ready| ready.is_read_closed()))
    })
}

/// What the kernel says: what the runtime knows of a socket is as old as its last look at all of them. Not every system
/// tells an end that has unread bytes before it.
#[cfg(target_os = "linux")]
fn is_told_closed(socket: &TcpStream) -> Option<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let told = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    told.is_ok().then(|| asked[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}

#[cfg(not(target_os = "linux"))]
fn is_told_closed(_: &TcpStream) -> Option<bool> {
    None
}

fn is_for_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
