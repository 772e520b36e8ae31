//! Every lock reacts to each event as the table below its card states.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use zklockbench_core::catalog::Mode;
use zklockbench_core::catalog::after::{Event, FailedWith, Outcome};
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, runtime};

use super::event::{self, Course, Ended, Entered, Terms};
use crate::support::contender::Contender;
use crate::support::ensemble::shared;
use crate::support::sessions::Scene;
use crate::support::ways::{self, Way};

/// Number of concurrent events, which mostly wait until no message is in flight.
const AT_ONCE: usize = 120;
/// Time longer than any lock here pauses before a retry.
const CALM: Duration = Duration::from_millis(700);
/// Number of creates to lose for a lock that never gives up.
const NOT_ENOUGH: u32 = 3;
/// Difference between the poll interval and [`CALM`].
const POLLS_AFTER_CALM: Duration = Duration::from_millis(500);

/// A lock, and the mode in which it is requested.
#[derive(Clone, Copy)]
struct Subject {
    way: Way,
    mode: Mode,
}

fn subjects() -> impl Iterator<Item = Subject> {
    let sides = |way: Way| {
        let reads = way.entry.card.guarantees.has_read_side().then_some(Mode::Read);
        [Some(Mode::Write), reads].into_iter().flatten().map(move |mode| Subject { way, mode })
    };
    ways::all().flat_map(sides)
}

impl Subject {
    fn terms(&self, event: Event) -> Terms {
        Terms {
            lock: self.way.name(),
            params: self.way.params(CALM + POLLS_AFTER_CALM),
            mode: self.mode,
            creates: self.way.after.creates.unwrap_or(NOT_ENOUGH) as usize,
            comes: self.way.after.outcome(event) != Outcome::Never,
            calm: CALM,
            last_calm: CALM,
            gone: CALM,
            sets_limits_beforehand: false,
        }
    }

    /// Returns how the lock differs from its card, or `None` if it does not.
    async fn complaint(&self, event: Event) -> Option<String> {
        let terms = self.terms(event);
        let contender = async |address: &str, scene: &Scene| {
            Contender::numbered(address, (terms.lock, 1), &terms.params, scene).await
        };
        let course = event::play(&event::Event::named(event), &terms, shared(), contender).await;
        let stated = self.way.after.outcome(event);
        let wrong = match outcome(event, &course) {
            Ok(seen) if seen == stated => serves_another(&terms, course.scene).await.err()?,
            seen => format!("its card says {stated:?}, but the outcome was {seen:?}"),
        };
        Some(format!("{}, {:?}, {}: {wrong}", self.way.label(), self.mode, event.name()))
    }
}

/// Outcome of an event; an error if the tables have no term for it.
fn outcome(event: Event, course: &Course) -> Result<Outcome, String> {
    if !course.has_happened {
        return Ok(Outcome::Never);
    }
    let fails = |failure: &Failure| {
        let with = failed_with(failure)?;
        Ok(if course.left == 0 { Outcome::Fails(with) } else { Outcome::FailsAndLeaves(with) })
    };
    match &course.ended {
        Ended::Waits => Err("an endless wait".into()),
        Ended::Failed(AcquireError::TimedOut) if course.left == 0 => Ok(Outcome::TimesOut),
        Ended::Failed(AcquireError::TimedOut) => Ok(Outcome::TimesOutAndLeaves),
        Ended::Failed(AcquireError::Failed(failure)) => fails(failure),
        Ended::Failed(why) => Err(why.to_string()),
        Ended::Entered(Entered { nodes: 0, .. }) => Ok(Outcome::WithoutNode),
        // Deleting all nodes also ends the holder's hold.
        Ended::Entered(Entered { is_beside: true, .. }) if event != Event::DirectoryDeleted => {
            Err("entered while the holder was inside".into())
        }
        Ended::Entered(Entered { released: Ok(()), .. }) if course.left == 0 => Ok(Outcome::GoesOn),
        Ended::Entered(Entered { released: Ok(()), .. }) => Err(format!("{} nodes left", course.left)),
        Ended::Entered(Entered { released: Err(failure), .. }) => fails(failure),
    }
}

fn failed_with(failure: &Failure) -> Result<FailedWith, String> {
    match failure {
        Failure::ConnectionLoss => Ok(FailedWith::ConnectionLoss),
        Failure::SessionExpired => Ok(FailedWith::SessionExpired),
        Failure::NoNode => Ok(FailedWith::NoNode),
        Failure::OwnNodeMissing => Ok(FailedWith::OwnNodeMissing),
        other => Err(other.to_string()),
    }
}

/// Checks that a newcomer acquires the lock after the session has ended, and leaves no node.
async fn serves_another(terms: &Terms, scene: Scene) -> Result<(), String> {
    scene.restore().await;
    let mut another = Contender::with(terms.lock, &terms.params, &scene).await;
    let served = another.acquire(Mode::Write).await;
    let held = served.map_err(|why| format!("a newcomer was not served: {why}"))?;
    another.release(held).await.map_err(|why| format!("another's release: {why}"))?;
    another.die().await;
    match scene.nodes().await {
        0 => Ok(()),
        left => Err(format!("{left} nodes are left")),
    }
}

#[test]
fn every_lock_reacts_to_each_event_as_its_card_states() {
    let cases = subjects().flat_map(|subject| Event::ALL.map(|event| (subject, event)));
    let playing = cases.map(|(subject, event)| async move { subject.complaint(event).await });
    let complaints: Vec<Option<String>> =
        runtime::block_on(async { iter(playing).buffer_unordered(AT_ONCE).collect().await });
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    assert!(complaints.is_empty(), "{} failures:\n{}", complaints.len(), complaints.join("\n"));
}
