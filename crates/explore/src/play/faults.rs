//! Injects the faults of a schedule.

use tokio::time::Instant;

use super::Play;
use crate::candidates::is_release;
use crate::cast::Command;
use crate::names::contender_name;
use crate::schedule::{Act, Decision, Move};
use crate::stage::{Direction, Status, Unexplored};
use zklockbench_record::StepKind;

impl Play<'_, '_> {
    pub(super) async fn fault(
        &mut self,
        contender: usize,
        direction: Direction,
        decision: &Decision,
    ) -> Result<(), Unexplored> {
        let contender = decision.victim.unwrap_or(contender);
        let needs_connection = match decision.act {
            Act::Expire | Act::Kill | Act::Freeze => true,
            Act::Cut => is_release(&decision.at),
            _ => false,
        };
        if needs_connection && !self.stage.is_connected(contender) {
            self.miss(format!("{} had no connection at `{}`", contender_name(contender), decision.at));
            return Ok(());
        }
        if let Some(why) = decision.mistake() {
            return Err(Unexplored(why));
        }
        self.stage.all[contender].acquires_again |= !decision.act.is_delay();
        if decision.moves == Some(Move::Other) {
            self.stage.move_to_other(contender)?;
        }
        if decision.stays_away {
            self.stage.world.net.refuse(contender, true);
            self.stage.all[contender].is_away = true;
        }
        match &decision.act {
            Act::LoseRequest => {
                self.fault_noted(contender, "the request is lost, and the connection breaks");
                self.stage.lose(contender, Direction::ToServer);
            }
            Act::LoseReply if decision.moves == Some(Move::Stale) => {
                self.events.push((contender, decision.at.clone()));
                self.stage.move_to_stale(contender, decision).await?;
            }
            Act::LoseReply if direction == Direction::ToClient => {
                self.fault_noted(contender, "the notification is lost, and the connection breaks");
                self.events.push((contender, decision.at.clone()));
                self.stage.lose(contender, Direction::ToClient);
            }
            Act::LoseReply => {
                self.fault_noted(contender, "the reply will be lost, and the connection breaks");
                self.events.push((contender, decision.at.clone()));
                self.stage.deliver(contender, direction, true);
            }
            Act::Cut => {
                if !is_release(&decision.at) {
                    self.events.push((contender, decision.at.clone()));
                    self.stage.deliver(contender, direction, false);
                }
                self.fault_noted(contender, "the connection breaks");
                self.stage.disconnect(contender);
            }
            Act::Expire => {
                self.fault_noted(contender, "the session ends");
                self.stage.end_session(contender).await?;
            }
            Act::Kill => {
                self.fault_noted(contender, "is killed, and its session ends");
                self.kill(contender).await?;
            }
            Act::Freeze => {
                self.fault_noted(contender, "is frozen, and its session ends");
                self.stage.world.cast.send(Command::Freeze(contender));
                self.stage.all[contender].is_frozen = true;
                self.stage.end_session(contender).await?;
            }
            Act::Delete => self.delete(contender, decision).await,
            Act::Delay { past } => {
                self.fault_noted(contender, format!("`{}` is delayed", decision.at));
                self.stage.all[contender].delayed = Some((direction, past.clone()));
            }
            Act::GiveUp | Act::TimeOut => self.give_up(contender, decision).await,
        }
        Ok(())
    }

    /// Ends a contender's wait: cancels the acquire, or holds the event back until the acquire times out.
    async fn give_up(&mut self, contender: usize, decision: &Decision) {
        let end = self.gives_up.filter(|(_, end)| Instant::now() < *end);
        if self.stage.all[contender].status != Status::Acquiring
            || (self.times_out(contender) && end.is_none())
        {
            return self.miss(format!("{} was not waiting at `{}`", contender_name(contender), decision.at));
        }
        let Some((_, end)) = end else {
            self.fault_noted(contender, "its wait is cancelled");
            self.gives_up = Some((contender, Instant::now()));
            self.stage.world.cast.send(Command::GiveUp(contender));
            return self.stage.touch(contender, "its wait is cancelled");
        };
        self.fault_noted(contender, "its wait times out");
        self.stage.leave_unlearned(contender);
        self.stage.forward_until(end).await;
        self.stage.touch(contender, "its wait times out");
    }

    /// Returns whether the contender's first acquire has a timeout because the schedule ends its wait.
    pub(super) fn times_out(&self, contender: usize) -> bool {
        // Earlier versions recorded timeouts of locks without cancellation as `give-up`.
        let can_cancel = self.stage.world.lock.gives_up().contains(&Act::GiveUp);
        let by_timeout = |act: &Act| *act == Act::TimeOut || (*act == Act::GiveUp && !can_cancel);
        let ends_it = |decision: &Decision| by_timeout(&decision.act) && decision.hits(contender);
        self.schedule.decisions.iter().any(ends_it)
    }

    /// Waits until a cancelled or timed-out acquire ends; returns whether it ended or messages arrived.
    pub(super) async fn wait_ends(&mut self, contender: usize) -> bool {
        let until = Instant::now() + self.stage.world.pace.stuck_after;
        while self.stage.all[contender].status == Status::Acquiring && Instant::now() < until {
            self.stage.wait_until(until).await;
            self.stage.pass_on();
            if self.next_message().is_some() {
                return true;
            }
        }
        self.stage.all[contender].status != Status::Acquiring
    }

    /// Records that the decision just taken had no effect, so it caused nothing.
    fn miss(&mut self, why: String) {
        self.taken.pop();
        self.missed.push(why);
    }

    pub(super) fn fault_noted(&mut self, contender: usize, what: impl Into<String>) {
        self.stage.note(contender, StepKind::Fault, what);
    }

    async fn kill(&mut self, contender: usize) -> Result<(), Unexplored> {
        self.stage.world.net.refuse(contender, true);
        self.stage.world.cast.send(Command::Kill(contender));
        self.stage.end_session(contender).await?;
        self.stage.all[contender].is_dead = true;
        self.stage.all[contender].status = Status::Done(Some("killed".into()));
        self.stage.disconnect(contender);
        Ok(())
    }

    /// Deletes the nodes of the contender's last create. Without its node, the contender has no right to the lock.
    async fn delete(&mut self, contender: usize, decision: &Decision) {
        let mut deleted = false;
        for path in self.stage.names.newest_of(contender).to_vec() {
            deleted |= self.stage.world.cast.delete(&path).await.is_ok();
        }
        if !deleted {
            return self.miss(format!("{} had no node at `{}`", contender_name(contender), decision.at));
        }
        self.fault_noted(contender, "its node is deleted by another program");
        self.stage.lose_right(contender);
    }
}
