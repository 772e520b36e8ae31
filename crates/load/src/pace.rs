//! Timing of a contender: its start within the ramp, its think times, and its intended starts.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio_util::sync::CancellationToken;

use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_scenario::{ClientKind, TrialSpec};
use zklockbench_zk::runtime;

#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Intended start, from which waits are measured.
    pub intended: Stamp,
    pub arrival: Option<Served>,
    pub mode: Mode,
    /// Hold time, if known in advance; otherwise, it is drawn at the start of the hold.
    pub hold: Option<Duration>,
}

/// The arrival of an open load that a cycle serves.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// Position in the order of arrival.
    pub number: usize,
    /// Time at which a contender was free for the arrival.
    pub taken: Stamp,
}

/// Timing of one contender, drawn from the trial's seed so that the trial can be repeated.
pub struct Pace {
    rng: ChaCha8Rng,
    kind: ClientKind,
    /// Separate generator, so that the read ratio does not change hold or think times.
    reads: ChaCha8Rng,
    next: Stamp,
}

/// Flag that separates the random streams for reads from the contenders' other streams.
const READS: u64 = 1 << 63;

impl Pace {
    pub fn new(spec: &TrialSpec, contender: usize) -> Self {
        // Use one stream per contender, so that adding a contender does not change the draws of the others.
        let stream = |number| {
            let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
            rng.set_stream(number);
            rng
        };
        Self {
            rng: stream(contender as u64),
            kind: spec.kind_of(contender),
            reads: stream(READS | contender as u64),
            next: 0,
        }
    }

    /// Sets the first intended start: contender i of N starts after i/N of the ramp.
    pub fn begin(&mut self, start: Stamp, spec: &TrialSpec, contender: usize) {
        let share = contender as f64 / spec.contenders.max(1) as f64;
        self.next = start + clock::micros(spec.ramp_up.mul_f64(share));
    }

    /// Sleeps until the next intended start and returns it. The wait is measured from this time, even if the
    /// generator is late. Returns `None` if the load ends first.
    pub async fn intended_start(&mut self, drain: &CancellationToken) -> Option<Stamp> {
        if self.next > clock::now() {
            drain.run_until_cancelled(runtime::sleep_until(Some(self.next))).await?;
        }
        (!drain.is_cancelled()).then_some(self.next)
    }

    /// Ends a cycle at `at`. The next cycle starts after the think time.
    pub fn done(&mut self, at: Stamp) {
        self.next = at + clock::micros(self.kind.think.sample(&mut self.rng));
    }

    /// Schedules the next start after a pause instead of the think time, e.g. after an error.
    pub fn pause(&mut self, at: Stamp, pause: Duration) {
        self.next = at + clock::micros(pause);
    }

    pub fn turn(&mut self, intended: Stamp) -> Turn {
        Turn { intended, arrival: None, mode: self.mode(), hold: None }
    }

    fn mode(&mut self) -> Mode {
        // The draw is below 1: a ratio of 1 makes every acquire a read, and a ratio of 0 makes every acquire a write.
        if self.reads.random::<f64>() < self.kind.read_ratio { Mode::Read } else { Mode::Write }
    }

    pub fn hold(&mut self) -> Duration {
        self.kind.hold.sample(&mut self.rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_scenario::{TrialPlan, parse};

    fn spec(read_ratio: f64) -> TrialSpec {
        let text = format!(
            "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\nacquisitions = 1\n\
             hold = {{ exponential = {{ mean = \"5ms\" }} }}\nread_ratio = {read_ratio:?}\n"
        );
        let parsed = parse("x.toml", &text, &crate::catalog()).unwrap();
        TrialPlan::of(&parsed.scenario).trials.remove(0)
    }

    fn reads(read_ratio: f64, draws: usize) -> usize {
        let mut pace = Pace::new(&spec(read_ratio), 0);
        (0..draws).filter(|_| pace.mode() == Mode::Read).count()
    }

    #[test]
    fn share_of_reads_follows_the_ratio() {
        assert_eq!((reads(0.0, 1000), reads(1.0, 1000)), (0, 1000));
        let reads = reads(0.8, 10_000);
        assert!((7_800..8_200).contains(&reads), "{reads}");
    }

    #[test]
    fn reads_do_not_change_hold_times() {
        let (mut without, mut with) = (Pace::new(&spec(0.0), 1), Pace::new(&spec(0.5), 1));
        for _ in 0..20 {
            let _ = with.mode();
            assert_eq!(without.hold(), with.hold());
        }
    }
}
