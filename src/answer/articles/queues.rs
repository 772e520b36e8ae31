//! Claims about queues and races: who waits how long, who is woken, who may enter.

use super::claim::{Answer, Article, Claim, DecisionDraft, Of};
use super::evidence::{Evidence, Trials, to_waiters};
use crate::results::record::figures::{FAIRNESS, WATCHES_LEFT};
use crate::results::record::{Counted, Trial};
use crate::words::measure::Counts;
use crate::words::measure::RequestKind::{Create, Delete};

const WAITS: &str = "articles-waits";
const BATCH: &str = "articles-batch";
const HERD: &str = "articles-herd-1000";
const LEAVES: &str = "articles-waiter-leaves";
const LIMITED: &str = "articles-wait-limited";
const TOO_LIMITED: &str = "articles-wait-too-limited";
const REENTRANT: &str = "articles-reentrant";

/// By what factor the longest wait of a race must exceed a queue's to be called another kind of wait.
const LONGER: f64 = 2.0;
/// From which share of acquisitions overtaken on an order is called no order.
const UNORDERED: f64 = 0.05;
/// Below which share, and above which of Jain's index, a lock is called fair.
const FAIR: (f64, f64) = (0.01, 0.95);
/// With fewer contenders there is hardly a queue that anybody could be overtaken in.
const A_QUEUE: usize = 10;
/// How many the watch-lock article speaks of.
const WAITERS_CLAIMED: usize = 1_000;

pub const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        articles: &[Article::A1],
        text: "With one ephemeral node and n clients the wait of some grows, \"even without bound\"",
        decided_by: "The longest wait and Jain's index over the number of contenders, `ephemeral-node` against \
                     `predecessor-watch`",
        needs: &[WAITS],
        decide: race_waits,
    },
    Claim {
        number: 2,
        articles: &[Article::A1, Article::A4],
        text: "Deleting a queue node wakes exactly one client; no herd",
        decided_by: "Fan-out of a release, in a batch and under a closed load",
        needs: &[BATCH, WAITS],
        decide: wakes_one,
    },
    Claim {
        number: 3,
        articles: &[Article::A1],
        text: "No polling and no timeouts while waiting",
        decided_by: "Requests of a batch against those that joining, one wake-up and the release take",
        needs: &[BATCH],
        decide: silent_waits,
    },
    Claim {
        number: 16,
        articles: &[Article::A2],
        text: "With 1,000 waiters a release wakes all 1,000 (parent watch)",
        decided_by: "Notifications that releases send to waiters in a batch of `parent-watch`",
        needs: &[BATCH],
        decide: |evidence| {
            let both =
                [evidence.counted(BATCH).of("parent-watch"), evidence.counted(HERD).of("parent-watch")];
            wakes_all(&Trials(both.into_iter().flat_map(|trials| trials.0).collect()))
        },
    },
    Claim {
        number: 18,
        articles: &[Article::A2],
        text: "Whoever is notified may enter: its predecessor is gone, so it is the lowest",
        decided_by: "`predecessor-watch-wait-limited` when a waiter leaves the middle of the queue",
        needs: &[LEAVES],
        decide: enters_early,
    },
    Claim {
        number: 19,
        articles: &[Article::A2],
        text: "The class works: 5 threads, 1 s hold, 30 s session timeout",
        decided_by: "That setting, and one in which the holds add up to more than the session timeout",
        needs: &[LIMITED, TOO_LIMITED],
        decide: class_works,
    },
    Claim {
        number: 20,
        articles: &[Article::A2],
        text: "A reentrant lock needs as many releases as acquires",
        decided_by: "The node stays until the last release: one create and one delete for each turn of three acquires, and \
                     nobody enters meanwhile",
        needs: &[REENTRANT],
        decide: |evidence| {
            let trials = evidence.counted(REENTRANT).of("curator-mutex");
            let acquired = trials.sum(|trial| trial.whole.acquired())?;
            let created = trials.sum(|trial| trial.whole.requests.get(Create))?;
            let deleted = trials.sum(|trial| trial.whole.requests.get(Delete))?;
            let held = trials.all(|trial| trial.violation_count == 0)?;
            let found = DecisionDraft::if_so(
                created == acquired && deleted == acquired && held,
                "the node is deleted once a turn, by the last release, and nobody entered before that",
                "the node did not stay until the last release",
            );
            Some(
                found
                    .with("turns of three acquires", acquired as f64, Of::Amount)
                    .with("creates", created as f64, Of::Amount)
                    .with("deletes", deleted as f64, Of::Amount),
            )
        },
    },
    Claim {
        number: 22,
        articles: &[Article::A2],
        text: "exists leaves a watch behind that nothing fires; getData does not",
        decided_by: "Watches on the servers after a loaded run, per 1,000 acquisitions, both ways",
        needs: &[WAITS],
        decide: watches_left,
    },
    Claim {
        number: 29,
        articles: &[Article::A4],
        text: "A sequence makes the lock fair; retrying every 100 ms does not",
        decided_by: "Acquisitions that a later arrival was served before, and Jain's index, of queue locks against a create \
                     that is retried every 100 ms",
        needs: &[WAITS],
        decide: fairness,
    },
    Claim {
        number: 32,
        articles: &[Article::A4],
        text: "Reentering costs no request",
        decided_by: "Requests of turns that take the lock three times, without contention",
        needs: &[REENTRANT],
        decide: |evidence| {
            let trials = evidence.counted(REENTRANT).at(1);
            let requests = trials.mean(super::evidence::requests)?;
            let found = DecisionDraft::if_so(
                trials.all(|trial| trial.whole.requests.total() == 3 * trial.whole.acquired())?,
                "a turn of three acquires takes the three requests of one",
                "a turn of three acquires takes more requests than one acquire",
            );
            Some(found.with("requests of a turn of three acquires", requests, Of::Amount))
        },
    },
    Claim {
        number: 36,
        articles: &[Article::A5],
        text: "Of all who create, exactly one succeeds",
        decided_by: "Creates that are refused and creates that succeed, in a batch of `ephemeral-node`",
        needs: &[BATCH],
        decide: one_succeeds,
    },
    Claim {
        number: 37,
        articles: &[Article::A5],
        text: "The removal tells every client that watches, and all try again",
        decided_by: "Fan-out and creates in a batch of `ephemeral-child`",
        needs: &[BATCH],
        decide: all_try_again,
    },
];

fn longest_wait(trial: &Trial) -> Option<f64> {
    trial.tallies.iter().map(|tally| tally.longest_wait_us as f64).reduce(f64::max)
}

fn race_waits(evidence: &Evidence) -> Option<DecisionDraft> {
    let all = evidence.timed(WAITS);
    let race = all.of("ephemeral-node").with("wait", "watch");
    let queue = all.of("predecessor-watch").with("watch", "data");
    let sizes: Vec<usize> = race.sizes().into_iter().filter(|n| queue.sizes().contains(n)).collect();
    let (smallest, largest) = (*sizes.first()?, *sizes.last().filter(|_| sizes.len() > 1)?);
    let ratio = |n| Some(race.at(n).mean(longest_wait)? / queue.at(n).mean(longest_wait)?.max(1.0));
    let (first, last) = (ratio(smallest)?, ratio(largest)?);
    let mut found = if last >= LONGER
        && race.at(largest).mean(longest_wait)? > race.at(smallest).mean(longest_wait)?
    {
        DecisionDraft::new(
            Answer::Confirmed,
            format!(
                "with {largest} contenders somebody waited {last:.1} times as long as anybody in a queue of as many; that it \
                 has no bound, no run can show"
            ),
        )
    } else if last <= 1.0 {
        DecisionDraft::new(Answer::Refuted, "the longest wait of the race is no longer than a queue's")
    } else {
        DecisionDraft::new(Answer::NotDecided, "the longest waits differ by less than a factor of two")
    };
    for n in sizes {
        found = found
            .with(format!("{n} contenders: longest wait, race"), race.at(n).mean(longest_wait)?, Of::Us)
            .with(format!("{n} contenders: longest wait, queue"), queue.at(n).mean(longest_wait)?, Of::Us);
        let jain = |trials: &Trials<'_>| trials.at(n).mean(|trial| FAIRNESS.of(trial));
        if let (Some(race), Some(queue)) = (jain(&race), jain(&queue)) {
            found = found.with(format!("{n} contenders: Jain's index, race"), race, Of::Amount).with(
                format!("{n} contenders: Jain's index, queue"),
                queue,
                Of::Amount,
            );
        }
    }
    Some(found.with("ratio at the smallest size", first, Of::Amount))
}

fn queues<'a>(trials: &Trials<'a>) -> Vec<&'a Trial> {
    let data = trials.of("predecessor-watch").with("watch", "data");
    data.0.into_iter().chain(trials.of("curator-mutex").0).collect()
}

fn wakes_one(evidence: &Evidence) -> Option<DecisionDraft> {
    let batch = queues(&evidence.counted(BATCH));
    let closed = queues(&evidence.counted(WAITS));
    let largest = batch.iter().map(|trial| trial.spec.contenders).max()?;
    let exact = batch.iter().all(|trial| to_waiters(trial) == trial.spec.contenders as u64 - 1);
    // Over whole trials: at the edges of a measured phase a notification may be counted without its release.
    let fan_out = closed.iter().filter_map(|trial| {
        let Counts { notifications, releases, .. } = &trial.whole;
        (*releases > 0).then(|| notifications.by_release() as f64 / *releases as f64)
    });
    let fan_out = fan_out.reduce(f64::max)?;
    let found = DecisionDraft::if_so(
        exact && fan_out <= 1.0,
        "each release with a waiter behind it wakes that one and nobody else",
        "some releases wake more than one, or none",
    );
    let sent: u64 =
        batch.iter().filter(|trial| trial.spec.contenders == largest).map(|trial| to_waiters(trial)).max()?;
    Some(
        found
            .with(format!("batch of {largest}: notifications by {largest} releases"), sent as f64, Of::Amount)
            .with("closed load: largest fan-out of a release", fan_out, Of::Amount),
    )
}

fn silent_waits(evidence: &Evidence) -> Option<DecisionDraft> {
    let trials = queues(&evidence.counted(BATCH));
    let totals: Vec<(u64, u64)> = trials
        .iter()
        .map(|trial| {
            let line = trial.accounting.iter().find(|line| line.what == Counted::Requests)?;
            Some((line.client?, line.expected?))
        })
        .collect::<Option<_>>()?;
    let sum = |pick: fn(&(u64, u64)) -> u64| totals.iter().map(pick).sum::<u64>() as f64;
    let found = (!totals.is_empty()).then(|| {
        DecisionDraft::if_so(
            totals.iter().all(|(sent, expected)| sent == expected),
            "a waiter sends nothing between joining and its wake-up, however long it waits (heartbeats apart)",
            "waiters sent requests beyond those of joining, waking up and releasing",
        )
    })?;
    Some(found.with("requests sent", sum(|total| total.0), Of::Amount).with(
        "requests of joining, one wake-up and the release",
        sum(|total| total.1),
        Of::Amount,
    ))
}

fn wakes_all(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let largest = *trials.sizes().last()?;
    let expected = |n: u64| n * (n - 1) / 2;
    let exact = trials.all(|trial| to_waiters(trial) == expected(trial.spec.contenders as u64))?;
    let sent = trials.at(largest).sum(to_waiters)?;
    let found = match (exact, largest >= WAITERS_CLAIMED) {
        (true, true) => DecisionDraft::new(Answer::Confirmed, "each release wakes all who still wait"),
        (true, false) => DecisionDraft::new(
            Answer::HoldsWhen,
            format!(
                "at every size measured each release woke all who still waited; the largest was {largest}"
            ),
        ),
        (false, _) => DecisionDraft::new(Answer::Refuted, "the releases did not wake all who still waited"),
    };
    Some(found.with(format!("{largest} waiters: notifications by releases"), sent as f64, Of::Amount).with(
        "N(N-1)/2",
        expected(largest as u64) as f64,
        Of::Amount,
    ))
}

fn enters_early(evidence: &Evidence) -> Option<DecisionDraft> {
    let all = evidence.all(LEAVES);
    let early = |name: &str| all.of(name).sum(|trial| trial.violation_count);
    let (class, recipe) = (early("predecessor-watch-wait-limited")?, early("predecessor-watch")?);
    let left = all.of("predecessor-watch-wait-limited").sum(|trial| trial.faults_proved() as u64)?;
    let found = match (class, left) {
        (1.., _) => DecisionDraft::new(
            Answer::Refuted,
            "when a waiter leaves the middle of the queue, its successor is notified and enters beside the holder",
        ),
        (0, 0) => DecisionDraft::new(Answer::NotDecided, "no waiter was seen to leave"),
        (0, _) => DecisionDraft::new(
            Answer::NotDecided,
            "waiters left, but nobody was seen to enter beside a holder",
        ),
    };
    Some(
        found
            .with("waiters that left", left as f64, Of::Amount)
            .with("entries beside a holder, the article's class", class as f64, Of::Amount)
            .with("the same with predecessor-watch, which lists again", recipe as f64, Of::Amount),
    )
}

fn class_works(evidence: &Evidence) -> Option<DecisionDraft> {
    use crate::words::measure::Outcome::TimedOut;
    let (limited, too) = (evidence.all(LIMITED), evidence.all(TOO_LIMITED));
    let acquired = limited.sum(|trial| trial.whole.acquired())?;
    let wanted = limited.sum(|trial| trial.spec.contenders as u64)?;
    let gave_up = too.sum(|trial| trial.whole.outcomes.get(TimedOut))?;
    let works = acquired == wanted && limited.sum(|trial| trial.violation_count)? == 0;
    let found = match (works, gave_up) {
        (false, _) => DecisionDraft::new(Answer::Refuted, "in its own setting not everybody got the lock"),
        (true, 0) => DecisionDraft::new(
            Answer::Confirmed,
            "everybody got the lock, also where the holds add up to more",
        ),
        (true, _) => DecisionDraft::new(
            Answer::HoldsWhen,
            "it works while no wait is longer than the session timeout; where the holds add up to more, waiters give up and \
             leave their nodes",
        ),
    };
    Some(
        found
            .with("its setting: got the lock", acquired as f64, Of::Amount)
            .with("its setting: wanted it", wanted as f64, Of::Amount)
            .with("longer holds: gave up", gave_up as f64, Of::Amount),
    )
}

fn watches_left(evidence: &Evidence) -> Option<DecisionDraft> {
    let all = evidence.counted(WAITS).of("predecessor-watch");
    let per_thousand = |watch: &str| {
        let trials = all.with("watch", watch);
        let left: f64 = trials.0.iter().map(|trial| WATCHES_LEFT.of(trial)).sum::<Option<f64>>()?;
        let acquired = trials.sum(|trial| trial.whole.acquired())?;
        (acquired > 0).then(|| 1_000.0 * left / acquired as f64)
    };
    let (exists, data) = (per_thousand("exists")?, per_thousand("data")?);
    let found = if data > 0.0 {
        DecisionDraft::new(Answer::Refuted, "getData left watches behind as well")
    } else if exists > 0.0 {
        DecisionDraft::new(
            Answer::Confirmed,
            "whenever the node went between list and exists, a watch stayed",
        )
    } else {
        DecisionDraft::new(Answer::NotDecided, "the race between list and exists was never lost in this run")
    };
    Some(found.with("watches left per 1,000 acquisitions, exists", exists, Of::Amount).with(
        "the same, getData",
        data,
        Of::Amount,
    ))
}

fn overtaken(trial: &Trial) -> Option<f64> {
    let acquired = trial.measured.acquired();
    (acquired > 0).then(|| trial.measured.overtaken as f64 / acquired as f64)
}

fn fairness(evidence: &Evidence) -> Option<DecisionDraft> {
    let all = evidence.counted(WAITS);
    let retry = all.of("ephemeral-node").with("wait", "retry");
    let largest = *retry.sizes().last().filter(|contenders| **contenders >= A_QUEUE)?;
    let retry = retry.at(largest);
    let queues = Trials(queues(&all.at(largest)));
    let jain = |trials: &Trials<'_>| trials.mean(|trial| FAIRNESS.of(trial));
    let (queue_overtaken, retry_overtaken) = (queues.mean(overtaken)?, retry.mean(overtaken)?);
    let (queue_jain, retry_jain) = (jain(&queues)?, jain(&retry));
    let queue_is_fair = queue_overtaken <= FAIR.0 && queue_jain >= FAIR.1;
    let mut found = match (queue_is_fair, retry_overtaken >= UNORDERED) {
        (true, true) => DecisionDraft::new(
            Answer::Confirmed,
            "in the queues nobody is overtaken; of the retries, later ones get in first",
        ),
        (true, false) => DecisionDraft::new(Answer::Refuted, "both serve in the order of arrival"),
        (false, _) => DecisionDraft::new(Answer::Refuted, "the queues are not fair either"),
    };
    found = found
        .with(format!("{largest} contenders: overtaken, queues"), queue_overtaken, Of::Share)
        .with(format!("{largest} contenders: overtaken, retry every 100 ms"), retry_overtaken, Of::Share)
        .with(format!("{largest} contenders: Jain's index, queues"), queue_jain, Of::Amount);
    if let Some(jain) = retry_jain {
        found = found.with(format!("{largest} contenders: Jain's index, retry"), jain, Of::Amount);
    }
    Some(found)
}

fn one_succeeds(evidence: &Evidence) -> Option<DecisionDraft> {
    let trials = evidence.counted(BATCH).of("ephemeral-node");
    let largest = *trials.sizes().last()?;
    let at = trials.at(largest);
    let (sent, won) = (
        at.sum(|trial| trial.whole.requests.get(Create))?,
        at.sum(|trial| trial.whole.succeeded.get(Create))?,
    );
    let found = DecisionDraft::if_so(
        trials.all(|trial| {
            trial.whole.succeeded.get(Create) == trial.whole.acquired() && trial.violation_count == 0
        })?,
        "of the creates after each release one succeeds, and all others are refused",
        "creates succeeded that did not get the lock, or got it beside another",
    );
    Some(found.with(format!("{largest} contenders: creates"), sent as f64, Of::Amount).with(
        format!("{largest} contenders: creates that succeeded"),
        won as f64,
        Of::Amount,
    ))
}

fn all_try_again(evidence: &Evidence) -> Option<DecisionDraft> {
    let trials = evidence.counted(BATCH).of("ephemeral-child");
    let largest = *trials.sizes().last()?;
    let n = |trial: &Trial| trial.spec.contenders as u64;
    let all_told = trials.all(|trial| to_waiters(trial) == n(trial) * (n(trial) - 1) / 2)?;
    let all_tried = trials.all(|trial| trial.whole.requests.get(Create) >= n(trial) * (n(trial) + 1) / 2)?;
    let at = trials.at(largest);
    let found = DecisionDraft::if_so(
        all_told && all_tried,
        "every waiter is told of each release and creates again",
        "not every waiter was told of each release, or not all created again",
    );
    Some(
        found
            .with(
                format!("{largest} contenders: notifications by releases"),
                at.sum(to_waiters)? as f64,
                Of::Amount,
            )
            .with(
                format!("{largest} contenders: creates"),
                at.sum(|trial| trial.whole.requests.get(Create))? as f64,
                Of::Amount,
            ),
    )
}
