//! Deliberately broken locks, and the checks that detect each flaw.

use crate::support::{ensemble, trials};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use zklockbench_core::catalog::{LockCard, Mode};
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::{AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use zklockbench_record::{StepKind, Trial};
use zklockbench_zk::{Failure, Session};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Enters without waiting.
    EntersEarly,
    /// Also deletes the next contender's node on release.
    ReleasesTwice,
    /// Continues to hold the lock after its session has ended.
    IgnoresExpiry,
}

struct Queue {
    lock: String,
    contender: usize,
    flaw: Flaw,
}

thread_local! {
    /// Acquisitions with a failed release, by lock and contender.
    static HELD: RefCell<HashMap<(String, usize), Held>> = RefCell::default();
}

#[async_trait(?Send)]
impl Strategy for Queue {
    async fn acquire(
        &mut self,
        session: &Session,
        _: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        let mine = HELD.with_borrow_mut(|held| held.remove(&(self.lock.clone(), self.contender)));
        if let Some(held) = mine {
            return Ok(held);
        }
        let node = QueueNode::join(session, &self.lock, "n-", &[]).await?;
        if self.flaw == Flaw::EntersEarly {
            return Ok(Held::by(node));
        }
        loop {
            let names = session.get_children(&self.lock).await?;
            // A contender that is missing from the list treats itself as the first.
            if node.nearest_before(&names, 1).unwrap_or_default().is_empty() {
                break;
            }
            if let Err(ended) = patience.sleep(Duration::from_millis(5)).await {
                return Err(node.give_up(session, ended).await);
            }
        }
        Ok(Held::by(node))
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        let node = held.node.clone().unwrap();
        if self.flaw == Flaw::ReleasesTwice {
            let names = session.get_children(&self.lock).await?;
            if let Ok(Some(next)) = node.next_behind(&names) {
                let _ = session.delete(&format!("{}/{next}", self.lock)).await;
            }
        }
        let left = node.leave(session).await;
        if self.flaw == Flaw::IgnoresExpiry && left.is_err() {
            HELD.with_borrow_mut(|all| all.insert((self.lock.clone(), self.contender), held));
        }
        left
    }
}

const CARD: LockCard = LockCard { name: "broken", ..LockCard::OF_ZOOKEEPER };

fn queue(config: &LockConfig, flaw: Flaw) -> Box<dyn Strategy> {
    Box::new(Queue { lock: config.path.clone(), contender: config.contender, flaw })
}

const ENTERS_EARLY: Entry = Entry { card: CARD, build: |config| queue(config, Flaw::EntersEarly) };
const RELEASES_TWICE: Entry = Entry { card: CARD, build: |config| queue(config, Flaw::ReleasesTwice) };
const IGNORES_EXPIRY: Entry = Entry { card: CARD, build: |config| queue(config, Flaw::IgnoresExpiry) };

/// Runs a three-second trial with four contenders, in which holders' sessions expire five times.
async fn trial(entry: Entry) -> Trial {
    let local = ensemble::alone().await;
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"30ms\"\nduration = \"3s\"\n\
                 session_timeout = \"3s\"\n[[fault]]\nkind = \"expire\"\ntarget = \"holder\"\nat = \"300ms\"\n\
                 times = 5\nevery = \"400ms\"\n";
    trials::run_beside(&local, &trials::plan(lines)[0], entry, trials::uninterrupted()).await
}

fn is_violated(trial: &Trial) -> bool {
    matches!(trial.judged.verdict, Verdict::Violated(_))
}

#[tokio::test]
async fn early_entry_is_found_by_contenders_and_by_server_logs() {
    let trial = trial(ENTERS_EARLY).await;
    assert!(is_violated(&trial), "{:?}", trial.judged.verdict);
    let order = trial.ensemble_order.as_ref().unwrap();
    assert!(order.overlaps > 0 && order.first.as_ref().unwrap().contains("entered lock 0 although the node"));
    assert!(order.too_early > 0, "no early entry among {} checked", order.checked_by_zxid);
    // And the timeline contains messages from both contenders
    let violation = trial.violations.first().unwrap();
    let timeline = violation.timeline.as_ref().unwrap();
    let [inside, entered] = [&violation.inside, &violation.entered].map(|one| one.contender);
    let summary = &timeline.summary;
    assert!(summary.starts_with(&format!("contender {entered} entered ")), "{summary}");
    assert!(summary.contains(" after the reply to its create "), "{summary}");
    assert!(summary.contains(&format!("while contender {inside} held")), "{summary}");
    for lane in [0, 1] {
        let sent = timeline.steps.iter().any(|step| {
            step.contender == Some(lane) && step.kind == StepKind::Request && step.what == "create n-"
        });
        assert!(sent, "{timeline:#?}");
    }
    assert!(timeline.steps.iter().is_sorted_by_key(|step| step.at_us), "{timeline:#?}");
    let why = trial.judged.exclusion.why().unwrap();
    assert!(why.contains(summary), "{why}");
}

#[tokio::test]
async fn exclusion_is_violated_when_a_release_deletes_the_next_node() {
    let trial = trial(RELEASES_TWICE).await;
    assert!(trial.violation_count > 0 && is_violated(&trial), "{:?}", trial.judged.verdict);
}

#[tokio::test]
async fn exclusion_is_violated_when_a_lock_ignores_a_session_expiry() {
    let trial = trial(IGNORES_EXPIRY).await;
    assert!(trial.sessions.rejoined > 0, "{:?}", trial.sessions);
    assert!(trial.violation_count > 0, "{:?} {:?}", trial.judged.verdict, trial.excused);
    assert!(is_violated(&trial), "{:?} {:?}", trial.judged.verdict, trial.excused);
}
