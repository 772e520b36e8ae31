//! Sessions that move between servers: the contender's connection breaks, and its next connection reaches another
//! server.

use tokio::time::Instant;

use super::names::contender_name;
use super::schedule::Decision;
use super::stage::{Direction, Stage, Unexplored, short};
use super::stale::{HELD_FOR, Held, NEEDS_LINKS_AFTER};
use zklockbench_record::StepKind;

impl Stage<'_> {
    /// Directs the contender's next connection to the other server.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if there is no other server.
    pub fn move_to_other(&mut self, contender: usize) -> Result<(), Unexplored> {
        let servers = &self.world.servers;
        let Some(other) = &servers.other else {
            return Err(Unexplored("there is no other server to move to; set --servers 3".into()));
        };
        let is_there = self.world.net.upstream(contender) == *other;
        self.world.net.lead_to(contender, if is_there { &servers.home } else { other });
        self.all[contender].is_moving = true;
        self.note(contender, StepKind::Fault, "its session moves to another server");
        Ok(())
    }

    /// Delivers a write while the leader reaches only one follower, and moves the contender's session to that
    /// follower. The write is not committed.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if the links cannot be blocked, or if the write was answered or did not reach the leader.
    pub async fn move_to_stale(&mut self, contender: usize, lost: &Decision) -> Result<(), Unexplored> {
        let held = self.held()?;
        let before = held.proposals().await.map_err(Unexplored)?;
        self.held_since = Some(Instant::now());
        held.begin().await.map_err(Unexplored)?;
        // Check the links only after the delivery: TCP slows a follower down if it gets no acknowledgement for 200 ms.
        self.deliver(contender, Direction::ToServer, false);
        held.proposed_since(before).await.map_err(Unexplored)?;
        held.has_begun().await.map_err(Unexplored)?;
        self.take_news();
        let conn = self.all[contender].conn.as_ref();
        if conn.is_none_or(|conn| conn.awaited.is_empty()) {
            let name = contender_name(contender);
            return Err(Unexplored(format!("{name}'s write was answered although the links were blocked")));
        }
        self.note(contender, StepKind::LostReply, format!("{}, reply", short(&lost.at)));
        self.note(contender, StepKind::Fault, "its session moves to a server without this write");
        self.world.net.lead_to(contender, &held.stale());
        self.all[contender].is_moving = true;
        self.stale_for = Some(contender);
        self.disconnect(contender);
        Ok(())
    }

    fn held(&self) -> Result<Held, Unexplored> {
        let held = &self.world.servers.held;
        held.clone().map_err(|why| Unexplored(format!("no server can be made stale: {why}")))
    }

    /// Returns whether the links must be unblocked, because a request needs them or `HELD_FOR` has passed.
    pub fn needs_links(&self) -> bool {
        self.links_due().is_some_and(|due| due <= Instant::now())
    }

    /// Returns the time at which to unblock the links, or `None` if they are not blocked.
    pub fn links_due(&self) -> Option<Instant> {
        let latest = self.held_since? + HELD_FOR;
        let conns = self.all.iter().filter_map(|one| one.conn.as_ref());
        let oldest = conns.filter_map(|conn| conn.awaited.front()).map(|awaited| awaited.since).min();
        Some(oldest.map_or(latest, |since| latest.min(since + NEEDS_LINKS_AFTER)))
    }

    /// Waits for the moved contender while the links are blocked and no message is in flight. Unblocks the links if
    /// the contender has finished.
    ///
    /// # Errors
    ///
    /// See [`Stage::let_links_go`].
    pub async fn wait_with_links(&mut self) -> Result<(), Unexplored> {
        let is_busy = self.stale_for.is_some_and(|moved| self.all[moved].is_busy());
        match self.links_due().filter(|_| is_busy) {
            Some(due) => self.wait_until(due).await,
            None => self.let_links_go().await?,
        }
        Ok(())
    }

    /// Unblocks the links, if they are blocked.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if the ensemble does not recover, or if the moved contender sent no request to the stale
    /// server.
    pub async fn let_links_go(&mut self) -> Result<(), Unexplored> {
        if self.held_since.take().is_none() {
            return Ok(());
        }
        self.held()?.end().await.map_err(Unexplored)?;
        self.note_write();
        let idle = self.stale_for.take().filter(|idle| self.all[*idle].is_busy());
        idle.map_or(Ok(()), |idle| {
            let missed = if self.all[idle].is_moving { "did not reach" } else { "sent nothing to" };
            Err(Unexplored(format!("{} {missed} the server while it was stale", contender_name(idle))))
        })
    }
}
