//! Claims about what becomes of locks when something breaks.

use super::claim::{Answer, Article, BEHAVIOUR, Claim, DecisionDraft, Of};
use super::evidence::{Evidence, Trials};
use crate::results::record::Trial;
use crate::words::measure::Outcome;

const MAJORITY: &str = "articles-majority";
const DISCONNECTED: &str = "articles-disconnected";
const CRASHED: &str = "articles-holder-crashed";
const REPLY_LOST: &str = "articles-reply-lost";
const ZOMBIE: &str = "articles-zombie";

/// By how much a dead holder's lock may be freed before and after its session timeout: sessions expire in whole ticks
/// after the last heartbeat.
const AROUND_TIMEOUT: (f64, f64) = (0.4, 2.0);
/// Up to which share of acquisitions that are overtaken places are called kept: a create that is sent again arrives later
/// than it was meant to, and who came later may then be before it.
const OVERTAKEN: f64 = 0.05;
/// How much of an outage may be missing of the gap that it causes: it is seen a moment after it begins.
const OF_OUTAGE: f64 = 0.8;

pub const CLAIMS: &[Claim] = &[
    Claim {
        number: 7,
        articles: &[Article::A2],
        text: "The lock is available as long as a majority is alive",
        decided_by: "One of three servers killed: acquisitions go on; two killed: none until they are back",
        needs: &[MAJORITY],
        decide: |evidence| majority(&evidence.all(MAJORITY)),
    },
    Claim {
        number: 8,
        articles: &[Article::A2],
        text: "A client whose connection breaks goes on at another server with its session",
        decided_by: "Connections reset again and again: sessions lost, sessions opened anew, places in the queue lost",
        needs: &[DISCONNECTED],
        decide: |evidence| goes_on(&evidence.all(DISCONNECTED).of("curator-mutex")),
    },
    Claim {
        number: 14,
        articles: &[Article::A2, Article::A3],
        text: "An ephemeral node goes when its session times out; a persistent one would block for ever",
        decided_by: "Time from a holder's crash to the next acquisition against the session timeout; what is left of both \
                     kinds of node when a session has ended",
        needs: &[CRASHED, BEHAVIOUR],
        decide: ephemeral_goes,
    },
    Claim {
        number: 23,
        articles: &[Article::A3],
        text: "When a client is disconnected ZooKeeper deletes its node",
        decided_by: "Resets that are followed by a reconnection within the session timeout: sessions and places kept",
        needs: &[DISCONNECTED],
        decide: |evidence| deleted_at_once(&evidence.all(DISCONNECTED).of("curator-mutex")),
    },
    Claim {
        number: 28,
        articles: &[Article::A3],
        text: "Reliability: polling ≪ parent watch < predecessor watch",
        decided_by: "The article's classes under broken connections and crashes: acquired, gave up, stuck, violated",
        needs: &[DISCONNECTED, CRASHED],
        decide: reliability,
    },
    Claim {
        number: 30,
        articles: &[Article::A4],
        text: "The reply to create is lost: without a GUID the client blocks everybody; with it, it finds its node again",
        decided_by: "The reply to a create dropped while the session lives on, with and without protection",
        needs: &[REPLY_LOST],
        decide: |evidence| reply_lost(&evidence.all(REPLY_LOST)),
    },
    Claim {
        number: 31,
        articles: &[Article::A4],
        text: "With a strongly consistent store the local lock never outlives the remote one",
        decided_by: "Holders of `local-then-remote` that are still inside when their session is gone and another has entered",
        needs: &[ZOMBIE],
        decide: |evidence| outlives(&evidence.all(ZOMBIE).of("local-then-remote")),
    },
    Claim {
        number: 34,
        articles: &[Article::A4],
        text: "The lock is safe because ZooKeeper is strongly consistent",
        decided_by: "Violations and zombies under faults; stale writes that a fencing token stopped",
        needs: &[ZOMBIE, DISCONNECTED, CRASHED],
        decide: safe,
    },
];

fn majority(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let trial = *trials.0.first()?;
    let find = |kind: &str| {
        let record = trial.faults.iter().find(|fault| fault.kind == kind && fault.proved)?;
        let asked = trial.spec.faults.iter().find(|fault| fault.kind == kind)?;
        Some((record.longest_gap_us? as f64, asked.duration?.as_micros() as f64, record.recovered_us))
    };
    let (one_gap, one_lasted, one_over) = find("kill")?;
    let (two_gap, two_lasted, two_over) = find("lose-majority")?;
    let goes_on = one_gap < OF_OUTAGE * one_lasted && one_over.is_some();
    let stops = two_gap >= OF_OUTAGE * two_lasted;
    let found = match (goes_on, stops, two_over.is_some()) {
        (true, true, true) => DecisionDraft::new(
            Answer::Confirmed,
            "with two of three alive acquisitions go on, with one of three there are none, and they go on when the others \
             are back",
        ),
        (false, ..) => DecisionDraft::new(Answer::Refuted, "with two of three alive nobody acquired"),
        (true, false, _) => DecisionDraft::new(Answer::Refuted, "somebody acquired without a majority"),
        (true, true, false) => DecisionDraft::new(
            Answer::NotDecided,
            "nobody acquired after the majority was back before the run ended",
        ),
    };
    Some(
        found
            .with("one killed: longest time without an acquisition", one_gap, Of::Us)
            .with("one killed: for", one_lasted, Of::Us)
            .with("two killed: longest time without an acquisition", two_gap, Of::Us)
            .with("two killed: for", two_lasted, Of::Us),
    )
}

/// Of the resets that were seen to take effect: what they cost.
struct Resets {
    proved: u64,
    expired: u64,
    rejoined: u64,
    acquired: u64,
    overtaken: u64,
}

fn resets(trials: &Trials<'_>) -> Option<Resets> {
    Some(Resets {
        proved: trials.sum(|trial| trial.faults_proved() as u64)?,
        expired: trials.sum(|trial| trial.sessions.expired)?,
        rejoined: trials.sum(|trial| trial.sessions.rejoined)?,
        acquired: trials.sum(|trial| trial.measured.acquired())?,
        overtaken: trials.sum(|trial| trial.measured.overtaken)?,
    })
}

impl Resets {
    fn shown(&self, found: DecisionDraft) -> DecisionDraft {
        found
            .with("resets of all connections", self.proved as f64, Of::Amount)
            .with("sessions expired", self.expired as f64, Of::Amount)
            .with("sessions opened anew", self.rejoined as f64, Of::Amount)
            .with("acquisitions", self.acquired as f64, Of::Amount)
            .with("of them overtaken", self.overtaken as f64, Of::Amount)
    }
}

fn goes_on(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let resets = resets(trials)?;
    let keeps_places = resets.overtaken as f64 <= OVERTAKEN * resets.acquired as f64;
    let found = match (resets.proved, resets.expired + resets.rejoined, keeps_places) {
        (0, ..) => DecisionDraft::new(Answer::NotDecided, "no reset was seen to take effect"),
        (_, 0, true) => DecisionDraft::new(
            Answer::Confirmed,
            "sessions and places in the queue outlive broken connections",
        ),
        (_, 0, false) => DecisionDraft::new(
            Answer::HoldsWhen,
            "sessions outlive broken connections, but some places in the queue are lost",
        ),
        _ => DecisionDraft::new(Answer::Refuted, "sessions were lost with their connections"),
    };
    Some(resets.shown(found))
}

fn deleted_at_once(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let resets = resets(trials)?;
    let found = match (resets.proved, resets.expired + resets.rejoined) {
        (0, _) => DecisionDraft::new(Answer::NotDecided, "no reset was seen to take effect"),
        (_, 0) => DecisionDraft::new(
            Answer::Refuted,
            "a client that connects again in time keeps its session and its node; only the session timeout deletes it",
        ),
        _ => DecisionDraft::new(
            Answer::NotDecided,
            "sessions ended in this run, and it does not say whether by the reset alone",
        ),
    };
    Some(resets.shown(found))
}

fn ephemeral_goes(evidence: &Evidence) -> Option<DecisionDraft> {
    let trials = evidence.all(CRASHED).of("predecessor-watch");
    let trial = *trials.0.first()?;
    let timeout = trial.sessions.negotiated_timeout_us as f64;
    let crashes: Vec<f64> = trial
        .faults
        .iter()
        .filter(|fault| fault.proved)
        .map(|fault| fault.recovered_us.map(|us| us as f64))
        .collect::<Option<_>>()?;
    let (least, most) =
        (crashes.iter().copied().reduce(f64::min)?, crashes.iter().copied().reduce(f64::max)?);
    let left = evidence.behaviour()?.1.left?;
    let in_time = least >= AROUND_TIMEOUT.0 * timeout && most <= AROUND_TIMEOUT.1 * timeout;
    let found = match (in_time, left.ephemeral, left.persistent) {
        (true, false, true) => DecisionDraft::new(
            Answer::Confirmed,
            "a dead holder's lock is free about one session timeout later; a persistent node outlives its session",
        ),
        (_, true, _) => {
            DecisionDraft::new(Answer::Refuted, "an ephemeral node was there after its session had ended")
        }
        (_, _, false) => DecisionDraft::new(Answer::Refuted, "a persistent node went with its session"),
        (false, false, true) => {
            DecisionDraft::new(Answer::NotDecided, "the lock was not freed at about the session timeout")
        }
    };
    Some(
        found
            .with("session timeout", timeout, Of::Us)
            .with("shortest time from a crash to the next acquisition", least, Of::Us)
            .with("longest", most, Of::Us)
            .with("persistent node there after its session", f64::from(u8::from(left.persistent)), Of::YesNo),
    )
}

/// What became of all acquires of some trials.
struct Fate {
    acquired: u64,
    gave_up: u64,
    stuck: u64,
    violations: u64,
}

impl Fate {
    fn of(trials: &Trials<'_>) -> Option<Self> {
        let gave_up = |trial: &Trial| {
            [Outcome::ConnectionLost, Outcome::SessionExpired, Outcome::Failed]
                .into_iter()
                .map(|outcome| trial.whole.outcomes.get(outcome))
                .sum()
        };
        Some(Self {
            acquired: trials.sum(|trial| trial.whole.acquired())?,
            gave_up: trials.sum(gave_up)?,
            stuck: trials.sum(|trial| trial.stuck.len() as u64)?,
            violations: trials.sum(|trial| trial.violation_count)?,
        })
    }

    fn share_lost(&self) -> f64 {
        let lost = self.gave_up + self.stuck;
        lost as f64 / (self.acquired + lost).max(1) as f64
    }

    fn shown(&self, found: DecisionDraft, what: &str) -> DecisionDraft {
        found
            .with(format!("{what}: acquired"), self.acquired as f64, Of::Amount)
            .with(format!("{what}: gave up"), self.gave_up as f64, Of::Amount)
            .with(format!("{what}: stuck"), self.stuck as f64, Of::Amount)
            .with(format!("{what}: violations"), self.violations as f64, Of::Amount)
    }
}

fn reliability(evidence: &Evidence) -> Option<DecisionDraft> {
    const STRATEGIES: [&str; 3] = ["polling", "parent-watch", "predecessor-watch"];
    let fates = |class: &str| -> Option<Vec<Fate>> {
        let of = |strategy: &str| {
            let runs = [DISCONNECTED, CRASHED].map(|run| evidence.all(run).of(strategy).with("class", class));
            Fate::of(&Trials(runs.into_iter().flat_map(|trials| trials.0).collect()))
        };
        STRATEGIES.into_iter().map(of).collect()
    };
    let (classes, recipes) = (fates("article")?, fates("textbook")?);
    let [polling, parent, predecessor] = [0, 1, 2].map(|at: usize| classes[at].share_lost());
    let found = if polling >= 2.0 * parent && parent > predecessor {
        DecisionDraft::new(
            Answer::Confirmed,
            "polling's class loses far more acquires than parent watch's, and that more than predecessor watch's",
        )
    } else {
        DecisionDraft::new(
            Answer::Refuted,
            "the order is another: each of the classes gives up when its connection breaks, although its session lives on, so they \
             lose about as many acquires; the recipes behind them lose next to none",
        )
    };
    let found = STRATEGIES.into_iter().zip(&classes).fold(found, |found, (strategy, fate)| {
        fate.shown(
            found.with(format!("{strategy}, article's class: lost"), fate.share_lost(), Of::Share),
            strategy,
        )
    });
    Some(STRATEGIES.into_iter().zip(&recipes).fold(found, |found, (strategy, fate)| {
        found.with(format!("{strategy}, the recipe: lost"), fate.share_lost(), Of::Share)
    }))
}

fn reply_lost(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let (with, without) = (trials.of("curator-mutex"), trials.of("predecessor-watch"));
    let stuck = |trials: &Trials<'_>| trials.sum(|trial| trial.stuck.len() as u64);
    let lost = trials.all(|trial| trial.faults_proved() > 0)?;
    let (protected, bare) = (stuck(&with)?, stuck(&without)?);
    let found = match (lost, protected, bare) {
        (false, ..) => DecisionDraft::new(Answer::NotDecided, "not every trial was seen to lose a reply"),
        (true, 0, 1..) => DecisionDraft::new(
            Answer::Confirmed,
            "without a GUID everybody is stuck behind a node that its owner does not know; with it the owner finds it",
        ),
        (true, 1.., _) => DecisionDraft::new(Answer::Refuted, "contenders were stuck with the GUID as well"),
        (true, 0, 0) => DecisionDraft::new(Answer::Refuted, "nobody was stuck without a GUID either"),
    };
    Some(found.with("stuck without a GUID", bare as f64, Of::Amount).with(
        "stuck with a GUID",
        protected as f64,
        Of::Amount,
    ))
}

fn outlives(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let zombies = trials.sum(|trial| trial.excused.zombies)?;
    let longest = trials.0.iter().map(|trial| trial.excused.longest_unsafe_us).max()?;
    let found = if zombies > 0 {
        DecisionDraft::new(
            Answer::Refuted,
            "a holder that stood still was inside with its local lock while its session was gone and another had entered",
        )
    } else {
        DecisionDraft::new(Answer::NotDecided, "no holder was inside beside another in this run")
    };
    Some(found.with("holders that outlived their session beside another", zombies as f64, Of::Amount).with(
        "for at most",
        longest as f64,
        Of::Us,
    ))
}

fn safe(evidence: &Evidence) -> Option<DecisionDraft> {
    let is_recipe = |trial: &&Trial| !matches!(trial.spec.strategy.params.get("class"), Some(crate::words::catalog::ParamValue::Word(class)) if class == "article");
    let trials = [ZOMBIE, DISCONNECTED, CRASHED].map(|run| evidence.all(run));
    let trials = Trials(trials.into_iter().flat_map(|trials| trials.0).filter(is_recipe).collect());
    let violations = trials.sum(|trial| trial.violation_count)?;
    let zombies = trials.sum(|trial| trial.excused.zombies)?;
    let stale = trials.sum(|trial| trial.fencing.stale)?;
    let stopped = trials.sum(|trial| trial.fencing.stale_rejected)?;
    let found = match (violations, zombies) {
        (1.., _) => DecisionDraft::new(Answer::Refuted, "two were inside although both had their sessions"),
        (0, 0) => {
            DecisionDraft::new(Answer::Confirmed, "under these faults nobody was inside beside another")
        }
        (0, _) if stopped == stale => DecisionDraft::new(
            Answer::HoldsWhen,
            "nobody who has a session enters beside another; a holder that outlives its session is kept out of the resource \
             only by the fencing token, which turned every stale write away",
        ),
        (0, _) => DecisionDraft::new(
            Answer::HoldsWhen,
            "nobody who has a session enters beside another, and not every stale write was stopped",
        ),
    };
    Some(
        found
            .with("violations", violations as f64, Of::Amount)
            .with("holders that outlived their session beside another", zombies as f64, Of::Amount)
            .with("stale writes", stale as f64, Of::Amount)
            .with("stale writes turned away by the fencing token", stopped as f64, Of::Amount),
    )
}
