//! Three-valued verdicts: held, violated, unknown. Absence of evidence is never green.

/// What a check says about a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The promise was kept, and there was enough evidence to say so.
    Held,
    /// The promise was broken; the reasons name the evidence.
    Violated(Vec<String>),
    /// Too little evidence, a partial run or an indefinite outcome; the reasons say which.
    Unknown(Vec<String>),
}

impl Verdict {
    /// The one word of the verdict: `held`, `violated` or `unknown`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Violated(_) => "violated",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Why the verdict is not `held`; empty when it is.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::Held => &[],
            Self::Violated(reasons) | Self::Unknown(reasons) => reasons,
        }
    }

    /// Combines two verdicts: one violation violates all, else one unknown leaves all unknown.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        use Verdict::{Held, Unknown, Violated};
        match (self, other) {
            (Violated(a), Violated(b)) => Violated([a, b].concat()),
            (Unknown(a), Unknown(b)) => Unknown([a, b].concat()),
            (Violated(a), _) | (_, Violated(a)) => Violated(a),
            (Unknown(a), _) | (_, Unknown(a)) => Unknown(a),
            (Held, Held) => Held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Held, Unknown, Violated};

    #[test]
    fn violated_outweighs_unknown_which_outweighs_held() {
        let violated = || Violated(vec!["two holders".into()]);
        let unknown = || Unknown(vec!["partial".into()]);
        assert_eq!(Held.and(Held), Held);
        assert_eq!(Held.and(unknown()), unknown());
        assert_eq!(unknown().and(violated()), violated());
        assert_eq!(unknown().and(unknown()).reasons().len(), 2);
    }
}
