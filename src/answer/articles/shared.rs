//! Claims about shared locks.

use super::claim::{Answer, Article, Claim, DecisionDraft, Of};
use super::evidence::{Evidence, Trials};
use crate::results::record::figures::{MEAN_READERS, NOTIFICATIONS_PER_ACQUISITION, THROUGHPUT};

const SHARED: &str = "articles-shared";

/// Up to which share of the other's throughput a lock is called as good, and below which it suffers.
const AS_GOOD: f64 = 0.8;
const SUFFERS: f64 = 0.7;
/// From which share of useful wake-ups on a lock is said to wake only those that it concerns.
const ALL_USEFUL: f64 = 0.99;
const MOST_USEFUL: f64 = 0.5;

pub const CLAIMS: &[Claim] = &[
    Claim {
        number: 38,
        articles: &[Article::A5],
        text: "Readers share, a writer is alone",
        decided_by: "Who is inside together, with half of the acquires reading",
        needs: &[SHARED],
        decide: |evidence| readers_share(&evidence.counted(SHARED)),
    },
    Claim {
        number: 39,
        articles: &[Article::A5],
        text: "The first shared lock is fine for small groups and suffers in large ones",
        decided_by: "Throughput and notifications over contenders, `shared-parent-watch` against `shared-predecessor-watch`",
        needs: &[SHARED],
        decide: group_size,
    },
    Claim {
        number: 40,
        articles: &[Article::A5],
        text: "Improved: each wake-up concerns its receiver",
        decided_by: "The share of the notifications by releases whose receiver then enters, `shared-predecessor-watch`",
        needs: &[SHARED],
        decide: |evidence| wakes_whom_it_concerns(&evidence.counted(SHARED)),
    },
];

fn readers_share(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let violations = trials.sum(|trial| trial.violation_count)?;
    let readers = trials.0.iter().filter_map(|trial| MEAN_READERS.of(trial)).reduce(f64::max)?;
    let most = trials.0.iter().map(|trial| trial.most_inside).max()?;
    let found = match (violations, most) {
        (1.., _) => DecisionDraft::new(Answer::Refuted, "a writer was inside beside others"),
        (0, 0 | 1) => DecisionDraft::new(Answer::NotDecided, "nobody was ever inside together"),
        (0, _) => {
            DecisionDraft::new(Answer::Confirmed, "readers are inside together, and no writer beside anybody")
        }
    };
    Some(
        found
            .with("most inside together", most as f64, Of::Amount)
            .with("readers inside on average, at most", readers, Of::Amount)
            .with("violations", violations as f64, Of::Amount),
    )
}

fn group_size(evidence: &Evidence) -> Option<DecisionDraft> {
    let trials = evidence.timed(SHARED);
    let (first, improved) = (trials.of("shared-parent-watch"), trials.of("shared-predecessor-watch"));
    let sizes: Vec<usize> = first.sizes().into_iter().filter(|n| improved.sizes().contains(n)).collect();
    let (smallest, largest) = (*sizes.first()?, *sizes.last().filter(|_| sizes.len() > 1)?);
    let throughput = |trials: &Trials<'_>, n| trials.at(n).mean(|trial| THROUGHPUT.of(trial));
    let share = |n| Some(throughput(&first, n)? / throughput(&improved, n)?.max(1e-9));
    let (small, large) = (share(smallest)?, share(largest)?);
    let mut found = match (small >= AS_GOOD, large < SUFFERS) {
        (true, true) => DecisionDraft::new(
            Answer::Confirmed,
            "as fast as the improved one in the small group, slower in the large one",
        ),
        (false, _) => DecisionDraft::new(Answer::Refuted, "it is slower in the small group already"),
        (true, false) => DecisionDraft::new(
            Answer::NotDecided,
            "its throughput does not fall behind at the sizes measured, only its notifications grow",
        ),
    };
    for n in sizes {
        for (name, trials) in [("first", &first), ("improved", &improved)] {
            found = found.with(format!("{n} contenders: {name}"), throughput(trials, n)?, Of::PerS);
            if let Some(each) = trials.at(n).mean(|trial| NOTIFICATIONS_PER_ACQUISITION.of(trial)) {
                found = found.with(
                    format!("{n} contenders: {name}, notifications per acquisition"),
                    each,
                    Of::Amount,
                );
            }
        }
    }
    Some(found)
}

fn wakes_whom_it_concerns(trials: &Trials<'_>) -> Option<DecisionDraft> {
    let trials = trials.of("shared-predecessor-watch");
    let useful = trials.sum(|trial| trial.measured.notifications.by_release_useful)?;
    let all = trials.sum(|trial| trial.measured.notifications.by_release())?;
    if all == 0 {
        return None;
    }
    let share = useful as f64 / all as f64;
    let found = if share >= ALL_USEFUL {
        DecisionDraft::new(Answer::Confirmed, "whoever is woken by a release enters")
    } else if share >= MOST_USEFUL {
        DecisionDraft::new(
            Answer::HoldsWhen,
            "it holds except for a reader whose last writer was not the last obstacle: it wakes, lists, and waits for the \
             writer before that one",
        )
    } else {
        DecisionDraft::new(Answer::Refuted, "most wake-ups by a release are for nothing")
    };
    Some(found.with("notifications by releases", all as f64, Of::Amount).with(
        "of them useful",
        share,
        Of::Share,
    ))
}
