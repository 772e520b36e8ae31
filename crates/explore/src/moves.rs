//! Sessions that move between servers: the contender's connection breaks, and its next one reaches another server.

use tokio::time::Instant;

use super::names::contender_name;
use super::schedule::Decision;
use super::stage::{Direction, Stage, Unexplored, short};
use super::stale::{HELD_FOR, Held, NEEDS_LINKS_AFTER};
use zklockbench_record::StepKind;

impl Stage<'_> {
    /// Leads the contender's next connection to the other server.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if there is none.
    pub fn move_to_other(&mut self, contender: usize) -> Result<(), Unexplored> {
        let servers = &self.world.servers;
        let Some(other) = &servers.other else {
            return Err(Unexplored("there is no other server to move to: add --servers 3".into()));
        };
        let is_there = self.world.net.upstream(contender) == *other;
        self.world.net.lead_to(contender, if is_there { &servers.home } else { other });
        self.all[contender].is_moving = true;
        self.note(contender, StepKind::Fault, "its session moves to another server");
        Ok(())
    }

    /// Delivers a write while the leader reaches one follower only, and moves the contender's session to that follower. The
    /// write is not committed.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if the links cannot be held, or if the write was answered or did not reach the leader.
    pub async fn move_to_stale(&mut self, contender: usize, lost: &Decision) -> Result<(), Unexplored> {
        let held = self.held()?;
        let before = held.proposals().await.map_err(Unexplored)?;
        self.held_since = Some(Instant::now());
        held.begin().await.map_err(Unexplored)?;
        // A follower whose packets are not acknowledged for 200 ms sends less, so the check of the links comes later.
        self.deliver(contender, Direction::ToServer, false);
        held.proposed_since(before).await.map_err(Unexplored)?;
        held.has_begun().await.map_err(Unexplored)?;
        self.take_news();
        let conn = self.all[contender].conn.as_ref();
        if conn.is_none_or(|conn| conn.awaited.is_empty()) {
            let name = contender_name(contender);
            return Err(Unexplored(format!("{name}'s write was answered although the links were held")));
        }
        self.note(contender, StepKind::LostReply, format!("{}, reply", short(&lost.at)));
        self.note(contender, StepKind::Fault, "its session moves to a server that has not applied this yet");
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

    /// Whether a request waits for the links, or they have been held for as long as is safe.
    pub fn needs_links(&self) -> bool {
        self.links_due().is_some_and(|due| due <= Instant::now())
    }

    /// Time at which to let the links go; `None` if they are not held.
    pub fn links_due(&self) -> Option<Instant> {
        let latest = self.held_since? + HELD_FOR;
        let conns = self.all.iter().filter_map(|one| one.conn.as_ref());
        let oldest = conns.filter_map(|conn| conn.awaited.front()).map(|awaited| awaited.since).min();
        Some(oldest.map_or(latest, |since| latest.min(since + NEEDS_LINKS_AFTER)))
    }

    /// While the links are held and no message is in flight, waits for the contender that moved, which may pause before it
    /// acts. Lets the links go if it has finished.
    ///
    /// # Errors
    ///
    /// As [`Stage::let_links_go`].
    pub async fn wait_with_links(&mut self) -> Result<(), Unexplored> {
        let is_busy = self.stale_for.is_some_and(|moved| self.all[moved].is_busy());
        match self.links_due().filter(|_| is_busy) {
            Some(due) => self.wait_until(due).await,
            None => self.let_links_go().await?,
        }
        Ok(())
    }

    /// Lets the links go, if they are held.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if the ensemble does not recover, or if the contender that moved asked the stale server for nothing.
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
