//! `-v`: logs the steps of a run to standard error.

use crate::support::program::{Bench, stderr};

const SCENARIO: &str = "name = \"verbose\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nrepetitions = 1\n\
                        hold = \"1ms\"\nwarm_up = \"0s\"\nduration = \"4s\"\nensemble = { servers = 1 }\n\
                        fault = [{ kind = \"expire\", target = \"holder\", at = \"500ms\" }]\n";

#[test]
fn verbose_run_logs_steps_in_order_but_no_acquisitions() {
    let bench = Bench::new();
    let said = stderr(&bench.run_with(&[], SCENARIO, &["-vv"]));
    let logged: Vec<(f64, &str)> = said.lines().filter_map(step).collect();
    let mut left = logged.iter();
    for expected in [
        "server 1: starting cd ",
        "the ensemble serves at ",
        "new session established: ",
        "trial 0 started: predecessor-watch, 3 contenders, repetition 1",
        " has session 0x",
        "trial 0: measure",
        "fault `expire holder`: injecting",
        "fault `expire holder`: in effect on contender",
        "enter state Closed",
        "trial 0 ended, ",
        "server 1: killing process ",
    ] {
        let found = left.any(|(_, text)| text.contains(expected));
        assert!(found, "`{expected}` is missing or logged too early: {said}");
    }
    assert!(said.contains("org.apache.zookeeper.server.quorum.QuorumPeerMain"), "{said}");
    // A thread reads the time before it writes, so another thread's line may come first, on a busy host much later.
    assert!(logged.is_sorted_by(|(one, _), (next, _)| next + 2.0 >= *one), "{said}");
    let acquired = bench.stored().trials[0].measured.acquired();
    assert!(
        (logged.len() as u64) < acquired.max(60),
        "{} lines, {acquired} acquisitions: {said}",
        logged.len()
    );
}

/// Returns the time and the text of a logged step.
pub fn step(line: &str) -> Option<(f64, &str)> {
    let (time, text) = line.trim_start().split_once("s ")?;
    Some((time.parse().ok()?, text))
}
