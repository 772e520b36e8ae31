//! Describes how the requests of an order interleaved, because a finding without a fault has no other cause.

use crate::candidates::is_write;
use crate::names::contender_name;
use crate::schedule::TraceStep;
use zklockbench_record::StepKind;

/// Describes the last interleaving before a failure of `subject`, as the start of a sentence: a write between two
/// successive requests of one contender, preferably of `subject`. Without such a write, names the last two requests of
/// different contenders. Empty if only one contender sent requests.
pub fn interleaving(trace: &[TraceStep], contenders: usize, subject: usize) -> String {
    let is_request = |step: &&TraceStep| step.kind == StepKind::Request && step.contender < contenders;
    let requests: Vec<&TraceStep> = trace.iter().filter(is_request).collect();
    let others = (0..contenders).filter(|other| *other != subject);
    let crossed = std::iter::once(subject).chain(others).find_map(|one| crossing(&requests, one));
    let alternation = || {
        let pair = requests.windows(2).rev().find(|pair| pair[0].contender != pair[1].contender)?;
        Some(format!("{} was carried out before {}", named(pair[0]), named(pair[1])))
    };
    crossed.or_else(alternation).map_or_else(String::new, |what| format!("{what}; then "))
}

/// Describes the last write of another contender between two successive requests of a contender.
fn crossing(requests: &[&TraceStep], contender: usize) -> Option<String> {
    let own: Vec<usize> = (0..requests.len()).filter(|at| requests[*at].contender == contender).collect();
    own.windows(2).rev().find_map(|pair| {
        let (before, after) = (requests[pair[0]], requests[pair[1]]);
        let write = requests[pair[0] + 1..pair[1]].iter().rev().find(|step| is_write(&step.what))?;
        Some(format!("{} was carried out between {} and `{}`", named(write), named(before), after.what))
    })
}

fn named(step: &TraceStep) -> String {
    format!("{}'s `{}`", contender_name(step.contender), step.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes a trace of these requests before a failure of the second of two contenders.
    fn told(requests: &[(usize, &str)]) -> String {
        let step = |(contender, what): &(usize, &str)| TraceStep {
            contender: *contender,
            kind: StepKind::Request,
            what: (*what).to_owned(),
        };
        interleaving(&requests.iter().map(step).collect::<Vec<_>>(), 2, 1)
    }

    #[test]
    fn write_between_two_requests_is_the_cause_of_a_failure_without_a_fault() {
        let (list, create) = ("getChildren lock", "create own node");
        assert_eq!(
            told(&[(0, list), (1, list), (0, create), (1, create)]),
            "c1's `create own node` was carried out between c2's `getChildren lock` and `create own node`; then "
        );
        assert_eq!(
            told(&[(0, list), (1, create), (0, create), (1, list)]),
            "c1's `create own node` was carried out between c2's `create own node` and `getChildren lock`; then "
        );
        assert_eq!(
            told(&[(0, list), (1, create), (1, list), (0, create)]),
            "c2's `create own node` was carried out between c1's `getChildren lock` and `create own node`; then "
        );
    }

    #[test]
    fn without_such_a_write_the_last_two_requests_of_different_contenders_are_named() {
        let found = told(&[(0, "create own node"), (0, "getChildren lock"), (1, "create own node")]);
        assert_eq!(found, "c1's `getChildren lock` was carried out before c2's `create own node`; then ");
        assert_eq!(told(&[(2, "create own node"), (1, "create own node")]), "");
    }
}
