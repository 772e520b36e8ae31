//! Classifies an acquisition that overlaps other holds. The acquisition is a violation if the leases of live holders
//! alone exceed the lock's limit.

use super::history::Breach;
use zklockbench_core::clock::Stamp;

/// State of a hold's session at the time of the acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Soundness {
    Sound,
    /// Suspended or ended before the acquisition.
    Lost,
    /// The state will never be known.
    Unknown,
    /// The state may still become known.
    Open,
}

/// Whether a hold was granted before the hold of the entering contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Granted {
    Before,
    After,
    Unknown,
}

impl Granted {
    /// Compares the tokens, which are the nodes' czxids. A contender that called acquire during the
    /// other hold was granted the lock later, whatever its token.
    pub fn of(inside: (Option<i64>, Stamp), entering: (Option<i64>, Option<Stamp>)) -> Self {
        let ((inside, entered), (entering, asked)) = (inside, entering);
        if asked.is_some_and(|asked| asked >= entered) {
            return Self::Before;
        }
        match (inside, entering) {
            (Some(inside), Some(entering)) if inside > entering => Self::After,
            (Some(_), Some(_)) => Self::Before,
            _ => Self::Unknown,
        }
    }
}

/// Leases of a conflicting holder, the state of its session, and the order of the grants.
pub(super) type GrantedLease = (u64, Soundness, Granted);

/// Returns the class of an acquisition that leaves `allowed` leases for others, or `None` while the class depends on
/// open states.
///
/// A lost session excuses the entering contender only if that contender's grant came first: the contender then lost
/// the lock without noticing, and the others acquired the lock correctly.
pub(super) fn class(
    allowed: u64,
    entering: Soundness,
    inside: impl Iterator<Item = GrantedLease> + Clone,
) -> Option<Breach> {
    let extreme = |open: Soundness, unknown: Soundness| {
        let is_sound = |soundness| match soundness {
            Soundness::Open => open == Soundness::Sound,
            Soundness::Unknown => unknown == Soundness::Sound,
            known => known == Soundness::Sound,
        };
        let leases = |counts: fn(Granted) -> bool| -> u64 {
            let counted = inside.clone().filter(|(_, of, granted)| is_sound(*of) && counts(*granted));
            counted.map(|(leases, ..)| leases).sum()
        };
        if leases(|_| true) <= allowed {
            Breach::Zombie
        } else if is_sound(entering) || leases(|granted| granted == Granted::Before) > allowed {
            Breach::Violation
        } else if leases(|granted| granted != Granted::After) > allowed {
            Breach::Uncertain
        } else {
            Breach::Zombie
        }
    };
    let once_known = |open: Soundness| {
        let (mildest, worst) = (extreme(open, Soundness::Lost), extreme(open, Soundness::Sound));
        if mildest == worst { worst } else { Breach::Uncertain }
    };
    let (mildest, worst) = (once_known(Soundness::Lost), once_known(Soundness::Sound));
    (mildest == worst).then_some(worst)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Breach::{Uncertain, Violation, Zombie};
    use super::Granted::{After, Before};
    use super::Soundness::{Lost, Open, Sound, Unknown};
    use super::*;

    type Lease = (u64, Soundness);

    fn beside(allowed: u64, entering: Soundness, inside: &[GrantedLease]) -> Option<Breach> {
        class(allowed, entering, inside.iter().copied())
    }

    #[test]
    fn acquisition_is_a_violation_only_if_live_holders_exceed_the_limit() {
        let cases: &[(u64, &[Lease], Option<Breach>)] = &[
            (0, &[(1, Sound)], Some(Violation)),
            (0, &[(1, Lost)], Some(Zombie)),
            (0, &[(1, Unknown)], Some(Uncertain)),
            (0, &[(1, Open)], None),
            (0, &[(1, Lost), (1, Sound)], Some(Violation)),
            (0, &[(1, Unknown), (1, Sound)], Some(Violation)),
            (0, &[(1, Lost), (1, Unknown)], Some(Uncertain)),
            (2, &[(2, Sound), (1, Sound)], Some(Violation)),
            (2, &[(2, Sound), (1, Lost)], Some(Zombie)),
            (2, &[(2, Sound), (1, Open)], None),
            (2, &[(2, Sound), (1, Unknown)], Some(Uncertain)),
            (1, &[(2, Lost), (2, Unknown)], Some(Uncertain)),
        ];
        for (allowed, inside, expected) in cases {
            let inside: Vec<_> = inside.iter().map(|(leases, of)| (*leases, *of, Before)).collect();
            for entering in [Sound, Lost, Unknown, Open] {
                let class = beside(*allowed, entering, &inside);
                assert_eq!(class, *expected, "{allowed} allowed, {inside:?}, {entering:?}");
            }
        }
    }

    #[test]
    fn lost_session_excuses_an_entering_contender_only_if_its_grant_came_first() {
        let cases: &[(&[GrantedLease], [Option<Breach>; 4])] = &[
            (&[(1, Sound, Before)], [Some(Violation); 4]),
            (&[(1, Sound, After)], [Some(Violation), Some(Zombie), Some(Uncertain), None]),
            (&[(1, Sound, Granted::Unknown)], [Some(Violation), Some(Uncertain), Some(Uncertain), None]),
            (&[(1, Lost, After)], [Some(Zombie); 4]),
            (&[(1, Sound, After), (1, Sound, Before)], [Some(Violation); 4]),
            (&[(1, Sound, After), (1, Lost, Before)], [Some(Violation), Some(Zombie), Some(Uncertain), None]),
        ];
        for (inside, expected) in cases {
            let classes = [Sound, Lost, Unknown, Open].map(|entering| beside(0, entering, inside));
            assert_eq!(classes, *expected, "{inside:?}");
        }
    }

    #[test]
    fn grants_are_ordered_by_token_unless_requested_during_the_other_hold() {
        let of = |inside, entering, asked| Granted::of((inside, 100), (entering, asked));
        assert_eq!(of(Some(2), Some(1), Some(99)), After);
        assert_eq!(of(Some(2), Some(1), None), After);
        assert_eq!(of(Some(2), Some(1), Some(100)), Before);
        assert_eq!(of(Some(1), Some(2), Some(99)), Before);
        assert_eq!(of(Some(1), Some(1), Some(99)), Before, "holds through one node never overlap");
        assert_eq!(of(None, Some(1), Some(99)), Granted::Unknown);
        assert_eq!(of(None, None, Some(100)), Before);
    }

    fn soundness() -> impl Strategy<Value = Soundness> {
        prop_oneof![Just(Sound), Just(Lost), Just(Unknown), Just(Open)]
    }

    fn granted() -> impl Strategy<Value = Granted> {
        prop_oneof![Just(Before), Just(After), Just(Granted::Unknown)]
    }

    proptest! {
        #[test]
        fn later_evidence_never_contradicts_a_classification(
            allowed in 0..4_u64,
            entering in soundness(),
            inside in prop::collection::vec((1..3_u64, soundness(), granted()), 1..6),
            lost in prop::collection::vec(any::<bool>(), 7),
        ) {
            let Some(class) = beside(allowed, entering, &inside) else { return Ok(()) };
            let known = |of: Soundness, is_lost: bool| match of {
                Open if is_lost => Lost,
                Open => Sound,
                known => known,
            };
            let later: Vec<_> = inside
                .iter()
                .zip(&lost)
                .map(|((leases, of, granted), is_lost)| (*leases, known(*of, *is_lost), *granted))
                .collect();
            prop_assert_eq!(beside(allowed, known(entering, lost[6]), &later), Some(class));
        }

        #[test]
        fn holders_with_lost_sessions_do_not_change_the_class(
            allowed in 0..4_u64,
            entering in soundness(),
            inside in prop::collection::vec((1..3_u64, soundness(), granted()), 1..6),
        ) {
            let live: Vec<_> = inside.iter().copied().filter(|(_, of, _)| *of != Lost).collect();
            prop_assert_eq!(beside(allowed, entering, &inside), beside(allowed, entering, &live));
        }
    }
}
