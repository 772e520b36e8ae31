//! Decides the outcome of a schedule that has ended, and describes it.

use super::interleaving::interleaving;
use super::{Aftermath, HOLDS, Play};
use crate::cast::DriverEnd;
use crate::judged::{Intrusion, kind_of};
use crate::names::contender_name;
use crate::outcome::{Fault, Outcome};
use crate::schedule::{Act, Decision};
use crate::stage::{Status, Unexplored};
use zklockbench_core::catalog::Params;
use zklockbench_locks::{AcquireError, blocks};
use zklockbench_record::history::LockKind;

/// Returns whether an acquire timed out on a lock whose acquires do not wait, whether or not the lock was held.
fn is_failed_try(params: &Params, why: &str) -> bool {
    !blocks(params) && why == AcquireError::TimedOut.to_string()
}

impl Play<'_, '_> {
    pub(super) fn outcome(&mut self, played: Result<Aftermath, Unexplored>) -> Outcome {
        let judged = self.stage.deeds.judge();
        let exclusion = judged.clone().unwrap_or_default();
        let unmoved = self.stage.all.iter().position(|one| one.is_moving).map(contender_name);
        self.missed.extend(unmoved.map(|name| format!("{name} did not connect to another server")));
        // A wait may time out before the schedule reaches the event.
        let (late, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|decision| decision.act == Act::TimeOut);
        self.missed.extend(late.iter().map(|decision| format!("the wait ended before `{}`", decision.at)));
        let mut left = open.iter().map(|decision| &decision.at).chain(&self.wanted);
        let diverged = || {
            left.next().map(|event| {
                format!("`{event}` did not arrive: the run diverged from the one it is based on")
            })
        };
        let unexplored = played.as_ref().err().map(|why| why.0.clone()).or_else(|| judged.err());
        let unexplored = unexplored.or_else(diverged);
        let (refused, overtaken) = (self.refused(), self.overtaken());
        let aftermath = played.unwrap_or_default();
        let fault = if exclusion.violations > 0 {
            Some(Fault::Violated)
        } else if self.stuck.is_some() || aftermath.is_blocked {
            Some(Fault::Stuck)
        } else if refused.is_some() {
            Some(Fault::Refused)
        } else if overtaken.is_some() {
            Some(Fault::OutOfOrder)
        } else {
            (!aftermath.beyond.is_empty()).then_some(Fault::NodeLeft)
        };
        let entry = exclusion.first.map(|first| self.entry_step(first));
        let first = exclusion.first.zip(entry);
        let failure = refused.or(overtaken).unwrap_or_default();
        let sentence =
            fault.map_or_else(String::new, |fault| self.sentence(fault, first, &aftermath.beyond, failure));
        let needs = self.causes(first).count();
        Outcome {
            schedule: self.schedule.clone(),
            trace: std::mem::take(&mut self.stage.trace),
            fault,
            sentence,
            entry,
            needs,
            zombies: exclusion.zombies,
            unexplored,
            impossible: self.missed.first().cloned(),
            choices: std::mem::take(&mut self.choices),
            events: std::mem::take(&mut self.events),
            left: aftermath.left,
        }
    }

    /// Describes the failure of a driver, unless the driver exited after a fault hit its contender: such a contender
    /// counts as killed.
    pub(super) fn driver_failure(&self) -> Option<String> {
        let failures = self.stage.world.cast.driver_failures();
        let is_unexpected =
            |end: &DriverEnd| !(end.exited && end.contender.is_some_and(|contender| self.was_hit(contender)));
        let failure = failures.into_iter().find(is_unexpected)?;
        Some(format!("{}{}", self.after(None), failure.why))
    }

    fn was_hit(&self, contender: usize) -> bool {
        self.taken.iter().any(|(decision, _)| decision.hits(contender))
    }

    /// Describes an acquire that failed although no fault hit its contender, or a release that failed without any
    /// fault: a hold may depend on another contender's session. A stale server affects every contender. Also returns
    /// the contender.
    fn refused(&self) -> Option<(usize, String)> {
        if self.schedule.decisions.is_empty()
            && let Some((contender, why)) = &self.stage.failed_release
        {
            let who = self.called(*contender);
            return Some((*contender, format!("{who}'s release failed although there was no fault: {why}")));
        }
        let is_hit = |contender| self.schedule.decisions.iter().any(|decision| decision.hits(contender));
        let all = self.stage.all.iter().enumerate().filter(|(contender, one)| {
            one.asked > 0 && !one.is_dead && !is_hit(*contender) && !self.schedule.makes_stale()
        });
        let params = &self.stage.world.lock.params;
        let mut refused = all.filter_map(|(contender, one)| match &one.status {
            Status::Done(Some(why)) if !is_failed_try(params, why) => Some((contender, why)),
            _ => None,
        });
        let (contender, why) = refused.next()?;
        let who = self.called(contender);
        Some((contender, format!("{who}'s acquire failed although no fault hit it: {why}")))
    }

    /// Describes an acquisition that overtook a waiting contender, if the lock promises the order of arrival. A fault
    /// may cost a contender its position, and readers or leases admit several contenders at once, so only schedules
    /// without them count. A delay costs no position. Also returns the contender that acquired it.
    fn overtaken(&self) -> Option<(usize, String)> {
        let (contender, other) = self.stage.overtaken?;
        let (lock, schedule) = (&self.stage.world.lock, self.schedule);
        let card = &lock.entry.card;
        let is_one_by_one =
            schedule.readers.is_empty() && !matches!(kind_of(card, &lock.params), LockKind::Semaphore(2..));
        let is_undisturbed = schedule.decisions.iter().all(|decision| decision.act.is_delay());
        (card.guarantees.fifo && is_one_by_one && is_undisturbed).then(|| {
            let (who, other) = (self.called(contender), self.called(other));
            let what =
                format!("{who} acquired the lock before {other}, which was already waiting when {who} asked");
            (contender, what)
        })
    }

    /// Returns the contender's name for use in sentences.
    fn called(&self, contender: usize) -> String {
        if contender < self.schedule.contenders { contender_name(contender) } else { "a newcomer".to_owned() }
    }

    /// Returns the index of the intrusion in the trace.
    fn entry_step(&self, entry: Intrusion) -> usize {
        let trace = self.stage.trace.iter().enumerate();
        let mut entries = trace.filter(|(_, step)| step.what == HOLDS).map(|(number, _)| number);
        entries.nth(entry.entry).unwrap_or(self.stage.trace.len())
    }

    /// Returns the decisions that may have caused the first violation: those taken before its step in the trace.
    fn causes(&self, first: Option<(Intrusion, usize)>) -> impl Iterator<Item = &Decision> {
        let until = first.map_or(usize::MAX, |(_, step)| step);
        self.taken.iter().filter(move |(_, at)| *at < until).map(|(decision, _)| decision)
    }

    /// Names the causes of the first violation, or all faults if there was none, as the start of a sentence.
    fn after(&self, first: Option<(Intrusion, usize)>) -> String {
        let cause = self.causes(first).map(Decision::cause).collect::<Vec<_>>().join(", and ");
        if cause.is_empty() { String::new() } else { format!("{cause}; then ") }
    }

    /// Describes what led to a failure of the contender, as the start of a sentence: the faults or, in an order
    /// without a fault, how the requests interleaved.
    fn cause(&self, first: Option<(Intrusion, usize)>, subject: usize) -> String {
        if self.schedule.acquires_again && self.taken.is_empty() {
            return "every contender asked for the lock twice, without a fault; then ".to_owned();
        }
        if self.schedule.order.is_none() || !self.taken.is_empty() {
            return self.after(first);
        }
        let trace = &self.stage.trace;
        let until = first.map_or(trace.len(), |(_, step)| step);
        interleaving(&trace[..until], self.schedule.contenders, subject)
    }

    fn sentence(
        &self,
        fault: Fault,
        first: Option<(Intrusion, usize)>,
        left: &[String],
        failure: (usize, String),
    ) -> String {
        let nodes = if left.is_empty() { String::new() } else { format!("; remaining: {}", left.join(", ")) };
        let stuck = self.stuck.unwrap_or(self.schedule.contenders);
        let (subject, what) = match fault {
            Fault::Violated => {
                let name = |who: Option<usize>, other: &str| {
                    who.map_or_else(|| other.to_owned(), |who| self.called(who))
                };
                let intruder = name(first.map(|(first, _)| first.intruder), "a contender");
                let holder = name(first.and_then(|(first, _)| first.holder), "another contender");
                let what = format!("{intruder} acquired the lock while {holder} held it");
                (first.map_or(0, |(first, _)| first.intruder), what)
            }
            Fault::Stuck => {
                let (who, limit) = (self.called(stuck), self.stage.world.pace.stuck_after);
                let what = if self.is_deaf {
                    format!("{who} kept waiting for more than {limit:?}{nodes}")
                } else if self.stage.all[stuck].status == Status::Releasing {
                    format!("{who}'s release did not return within {limit:?}{nodes}")
                } else {
                    format!("{who} waited for more than {limit:?} although no contender held the lock{nodes}")
                };
                (stuck, what)
            }
            Fault::Refused | Fault::OutOfOrder => failure,
            Fault::NodeLeft if self.schedule.acquires_again => {
                (0, format!("more nodes remained than after one acquisition each: {}", left.join(", ")))
            }
            Fault::NodeLeft => (0, format!("every contender had finished{nodes}")),
        };
        format!("{}{what}", self.cause(first, subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::ParamValue;

    #[test]
    fn timeout_is_a_failed_try_only_if_acquires_do_not_wait() {
        let params = |blocking| Params::from([("blocking".to_owned(), ParamValue::Bool(blocking))]);
        assert!(is_failed_try(&params(false), "timed out"));
        assert!(!is_failed_try(&params(false), "deadlock"));
        assert!(!is_failed_try(&params(true), "timed out"));
        assert!(!is_failed_try(&Params::new(), "timed out"));
    }
}
