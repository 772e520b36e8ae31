//! What was judged of a trial or of a run: a verdict on each promise, and the one that they come to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::verdict::Verdict;

/// A verdict in its parts. Each says by itself why it is what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// What exclusion, progress, order and, of a run, its figures come to. The counts have no say in it: where they
    /// disagree, figures are doubtful, not the lock.
    pub verdict: Verdict,
    /// Why that is not `held`, in one sentence without a full stop; `None` when it is.
    pub why: Option<String>,
    /// Whether nobody was inside who should not have been, as contenders saw it.
    pub exclusion: Verdict,
    /// Whether everybody who waited was served once nothing was broken any more; `None` where nothing was.
    pub progress: Option<Verdict>,
    /// Whether nobody entered too early, as the ensemble saw it; `None` where it could not be asked.
    pub order: Option<Verdict>,
    /// Whether client, cost model and servers count the same; `None` where only one of them counted.
    pub accounting: Option<Verdict>,
    /// Of a run: whether its figures were measured by a generator that held up. `None` of a trial, which says so itself,
    /// and in runs of versions that counted it among the doubts about exclusion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Verdict>,
}

/// Verdicts on each part, before they are put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    pub exclusion: Verdict,
    pub progress: Option<Verdict>,
    pub order: Option<Verdict>,
    pub accounting: Option<Verdict>,
    pub figures: Option<Verdict>,
}

impl From<Parts> for Judged {
    fn from(Parts { exclusion, progress, order, accounting, figures }: Parts) -> Self {
        let others = [&progress, &order, &figures].into_iter().flatten().cloned();
        let verdict = others.fold(exclusion.clone(), Verdict::and);
        Self { why: verdict.why(), verdict, exclusion, progress, order, accounting, figures }
    }
}

impl Judged {
    /// Whether the one promise that was broken is that everybody is served: nobody was seen inside who should not have been.
    pub fn is_only_stuck(&self) -> bool {
        let is_broken = |verdict: &Verdict| matches!(verdict, Verdict::Violated(_));
        self.progress.as_ref().is_some_and(is_broken)
            && !is_broken(&self.exclusion)
            && !self.order.as_ref().is_some_and(is_broken)
    }

    pub fn none_yet() -> Self {
        let exclusion = Verdict::Unknown(vec!["not judged yet".into()]);
        Parts { exclusion, progress: None, order: None, accounting: None, figures: None }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stuck_is_what_left_contenders_waiting_and_let_nobody_in_beside_another() {
        let violated = || Verdict::Violated(vec!["so it was".into()]);
        let judged = |exclusion, progress, order| {
            Judged::from(Parts { exclusion, progress, order, accounting: None, figures: None })
        };
        let unknown = || Verdict::Unknown(vec!["too little evidence".into()]);
        assert!(judged(Verdict::Held, Some(violated()), Some(Verdict::Held)).is_only_stuck());
        assert!(judged(unknown(), Some(violated()), None).is_only_stuck());
        assert!(!judged(violated(), Some(violated()), None).is_only_stuck());
        assert!(!judged(Verdict::Held, Some(violated()), Some(violated())).is_only_stuck());
        assert!(!judged(Verdict::Held, Some(Verdict::Held), None).is_only_stuck());
        assert!(!judged(violated(), None, None).is_only_stuck());
    }
}
