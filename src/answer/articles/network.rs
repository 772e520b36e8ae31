//! Claims of the three-strategy comparison: time, network cost, complexity.

use super::claim::{Answer, Article, Claim, DecisionDraft, Of};
use super::evidence::{Evidence, Trials, bytes, notifications, requests};
use crate::results::record::Trial;
use crate::scenario::Distribution;
use crate::words::catalog::ParamValue;
use crate::words::measure::RequestKind;

const EXACT: &str = "articles-exact";
const COST: &str = "articles-network-cost";
const BATCH: &str = "articles-batch";

/// From which factor on "≫" is taken to hold.
const FAR_MORE: f64 = 2.0;
/// The article's printed result: everybody within so long, in microseconds.
const WITHIN_US: u64 = 100_000_000;

const STRATEGIES: [&str; 3] = ["polling", "parent-watch", "predecessor-watch"];

pub const CLAIMS: &[Claim] = &[
    Claim {
        number: 24,
        articles: &[Article::A3],
        text: "20 threads each get the lock once within 100 s, in no order (polling's printed result)",
        decided_by: "The article's load and classes: how long it takes, and whether anybody is served before an earlier arrival",
        needs: &[EXACT],
        decide: |evidence| once_each(&evidence.counted(EXACT)),
    },
    Claim {
        number: 25,
        articles: &[Article::A3],
        text: "Network cost: polling ≫ parent watch ≫ predecessor watch",
        decided_by: "Requests, bytes and notifications per acquisition at the article's load and classes, and over contenders \
                     and hold; ≫ is taken as at least twice",
        needs: &[EXACT, COST],
        decide: order_of_cost,
    },
    Claim {
        number: 26,
        articles: &[Article::A3],
        text: "Parent watch does away with most of polling's waste",
        decided_by: "Requests per acquisition beyond those of predecessor watch, at the article's load and classes",
        needs: &[EXACT],
        decide: |evidence| waste(&evidence.counted(EXACT)),
    },
    Claim {
        number: 27,
        articles: &[Article::A3],
        text: "Complexity: polling < parent watch < predecessor watch",
        decided_by: "Kinds of requests and of events that each implementation here uses in a batch. Lines of the article's \
                     own classes are not known",
        needs: &[BATCH],
        decide: |evidence| complexity(&evidence.counted(BATCH)),
    },
];

fn once_each(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let polling = trials.of("polling");
    let got = polling.sum(|trial| trial.whole.acquired())?;
    let wanted = polling.sum(|trial| trial.spec.contenders as u64)?;
    let overtaken = polling.sum(|trial| trial.measured.overtaken)?;
    let in_time = got == wanted && polling.all(|trial| trial.measured_us <= WITHIN_US)?;
    let mut found = match (in_time, overtaken) {
        (false, _) => DecisionDraft::new(Answer::Refuted, "not everybody got the lock within 100 s"),
        (true, 0) => DecisionDraft::new(
            Answer::HoldsWhen,
            "all get it in time, but in the order in which they joined the queue, not in none; threads that start together \
             join in any order",
        ),
        (true, _) => DecisionDraft::new(Answer::Confirmed, "all get it in time, and not in the order in which they began: threads that start together join the queue as their creates arrive"),
    }
    .with("got the lock", got as f64, Of::Amount)
    .with("overtaken", overtaken as f64, Of::Amount);
    for strategy in STRATEGIES {
        if let Some(us) = trials.of(strategy).mean(|trial| Some(trial.measured_us as f64)) {
            found = found.with(format!("{strategy}: total time"), us, Of::Us);
        }
    }
    Some(found)
}

#[derive(Clone, Copy)]
struct Cost {
    requests: [f64; 3],
    bytes: [f64; 3],
    notifications: [f64; 3],
}

impl Cost {
    fn of(trials: &[Trials<'_>; 3]) -> Option<Self> {
        let each = |figure: fn(&Trial) -> Option<f64>| -> Option<[f64; 3]> {
            let [polling, parent, predecessor] = trials;
            Some([polling.mean(figure)?, parent.mean(figure)?, predecessor.mean(figure)?])
        };
        Some(Self { requests: each(requests)?, bytes: each(bytes)?, notifications: each(notifications)? })
    }

    /// Whether polling costs far more than parent watch, in requests and bytes alike.
    fn first_half(&self) -> bool {
        [self.requests, self.bytes].iter().all(|[polling, parent, _]| *polling >= FAR_MORE * parent)
    }

    /// Whether parent watch costs far more than predecessor watch.
    fn second_half(&self) -> bool {
        [self.requests, self.bytes].iter().all(|[_, parent, predecessor]| *parent >= FAR_MORE * predecessor)
    }

    fn shown(self, mut found: DecisionDraft, place: &str) -> DecisionDraft {
        for (at, strategy) in STRATEGIES.into_iter().enumerate() {
            found = found
                .with(format!("{place}: {strategy}, requests"), self.requests[at], Of::Amount)
                .with(format!("{place}: {strategy}, traffic"), self.bytes[at], Of::Bytes)
                .with(format!("{place}: {strategy}, notifications"), self.notifications[at], Of::Amount);
        }
        found
    }
}

struct CostAt {
    contenders: usize,
    hold: f64,
    cost: Cost,
}

fn hold_in_intervals(trial: &Trial) -> Option<f64> {
    let holds = trial.spec.all_holds();
    let (Distribution::Fixed(hold), Some(ParamValue::Duration(interval))) =
        (holds, trial.spec.strategy.params.get("poll_interval"))
    else {
        return None;
    };
    (!interval.is_zero()).then(|| hold.as_secs_f64() / interval.as_secs_f64())
}

fn map(trials: &Trials<'_>) -> Option<Vec<CostAt>> {
    let mut cells = Vec::new();
    for polling in trials.of("polling").0 {
        let contenders = polling.spec.contenders;
        let [_, parent, predecessor] = STRATEGIES.map(|strategy| trials.of(strategy).at(contenders));
        let cost = Cost::of(&[Trials(vec![polling]), parent, predecessor])?;
        cells.push(CostAt { contenders, hold: hold_in_intervals(polling)?, cost });
    }
    cells.sort_by(|one, other| {
        (one.contenders, one.hold)
            .partial_cmp(&(other.contenders, other.hold))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    (!cells.is_empty()).then_some(cells)
}

fn order_of_cost(evidence: &Evidence) -> Option<DecisionDraft> {
    let exact = evidence.counted(EXACT);
    let at_article = Cost::of(&STRATEGIES.map(|strategy| exact.of(strategy)))?;
    let cells = map(&evidence.counted(COST))?;
    let holds = |half: fn(&Cost) -> bool| cells.iter().filter(|cell| half(&cell.cost)).count();
    let (first, second) = (holds(Cost::first_half), holds(Cost::second_half));
    let everywhere = cells.len();
    let whole = |cost: &Cost| cost.first_half() && cost.second_half();
    let ratio = at_article.requests[0] / at_article.requests[1].max(1e-9);
    let here = format!(
        "in the article's setting polling sends {ratio:.2} times the requests of parent watch, and that {:.1} times those of \
         predecessor watch; over contenders and hold the first ≫ holds in {first} of {everywhere} cells, the second in \
         {second}",
        at_article.requests[1] / at_article.requests[2].max(1e-9),
    );
    let answer = match (whole(&at_article), first == everywhere && second == everywhere) {
        (true, true) => Answer::Confirmed,
        (false, _) if !at_article.first_half() && !at_article.second_half() && first + second == 0 => {
            Answer::Refuted
        }
        _ => Answer::HoldsWhen,
    };
    let mut found = at_article.shown(DecisionDraft::new(answer, here), "article's setting");
    for CostAt { contenders, hold, cost } in cells {
        let place =
            format!("{contenders} contenders, hold of {} intervals", crate::words::units::number(hold));
        let ratio = |values: [f64; 3], over: usize| values[over] / values[over + 1].max(1e-9);
        found = found
            .with(format!("{place}: polling / parent, requests"), ratio(cost.requests, 0), Of::Amount)
            .with(format!("{place}: polling / parent, bytes"), ratio(cost.bytes, 0), Of::Amount)
            .with(format!("{place}: parent / predecessor, requests"), ratio(cost.requests, 1), Of::Amount)
            .with(format!("{place}: parent / predecessor, bytes"), ratio(cost.bytes, 1), Of::Amount);
    }
    Some(found)
}

fn waste(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let [polling, parent, predecessor] = Cost::of(&STRATEGIES.map(|strategy| trials.of(strategy)))?.requests;
    let (of_polling, of_parent) = (polling - predecessor, parent - predecessor);
    if of_polling <= 0.0 {
        return Some(DecisionDraft::new(Answer::Refuted, "polling wastes nothing here"));
    }
    let saved = 1.0 - of_parent / of_polling;
    let found = DecisionDraft::if_so(
        saved >= 0.5,
        "parent watch saves more than half of the requests that polling sends beyond predecessor watch",
        "parent watch saves less than half of the requests that polling sends beyond predecessor watch: it lists at each \
         change instead of at each interval",
    );
    Some(
        found
            .with("polling: requests beyond predecessor watch", of_polling, Of::Amount)
            .with("parent watch: requests beyond predecessor watch", of_parent, Of::Amount)
            .with("of polling's waste saved", saved, Of::Share),
    )
}

fn complexity(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let kinds = |strategy: &str| -> Option<(usize, usize)> {
        let trials = trials.of(strategy);
        let sent = |kind: RequestKind| trials.0.iter().any(|trial| trial.whole.requests.get(kind) > 0);
        let requests = RequestKind::ALL.into_iter().filter(|kind| sent(*kind)).count();
        let any = |event: fn(&Trial) -> u64| usize::from(trials.0.iter().any(|trial| event(trial) > 0));
        let events = any(|trial| trial.whole.notifications.node_deleted)
            + any(|trial| trial.whole.notifications.children_changed)
            + any(|trial| trial.whole.notifications.data_changed)
            + any(|trial| trial.whole.notifications.node_created);
        (!trials.0.is_empty()).then_some((requests, events))
    };
    let all: Vec<(usize, usize)> = STRATEGIES.into_iter().map(kinds).collect::<Option<_>>()?;
    let sums: Vec<usize> = all.iter().map(|(requests, events)| requests + events).collect();
    let mut found = if sums.is_sorted_by(|one, other| one < other) {
        DecisionDraft::new(
            Answer::Confirmed,
            "each uses more kinds of requests and events than the one before",
        )
    } else if sums.is_sorted() {
        DecisionDraft::new(
            Answer::HoldsWhen,
            "none uses fewer kinds of requests and events than the one before, but two use as many",
        )
    } else {
        DecisionDraft::new(Answer::Refuted, "by kinds of requests and events the order is another")
    };
    for (strategy, (requests, events)) in STRATEGIES.into_iter().zip(all) {
        found = found.with(format!("{strategy}: kinds of requests"), requests as f64, Of::Amount).with(
            format!("{strategy}: kinds of events"),
            events as f64,
            Of::Amount,
        );
    }
    Some(found)
}
