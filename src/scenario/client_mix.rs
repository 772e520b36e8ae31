//! Which client of a trial is of which kind, and what all kinds come to together.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::distribution::{Distribution, MeasuredTimes};
use super::model::{ClientKind, TrialSpec};

impl TrialSpec {
    pub fn kinds(&self) -> Vec<ClientKind> {
        if !self.clients.is_empty() {
            return self.clients.clone();
        }
        let Self { hold, think, read_ratio, .. } = self;
        vec![ClientKind { share: 1.0, hold: hold.clone(), think: think.clone(), read_ratio: *read_ratio }]
    }

    /// The kind of that contender, counted from 0, where contenders are the clients: the first ones are of the first kind.
    pub fn kind_of(&self, contender: usize) -> ClientKind {
        let of_each = self.contenders_by_kind();
        let ends = of_each.iter().scan(0, |end, count| (*end += count, Some(*end)).1);
        let before = ends.take_while(|end| *end <= contender).count();
        let mut kinds = self.kinds();
        kinds.swap_remove(before.min(kinds.len() - 1))
    }

    /// How many contenders are of each kind, in a load whose clients they are.
    pub fn contenders_by_kind(&self) -> Vec<usize> {
        let kinds = self.kinds();
        let ends = shares(&kinds).into_iter().map(|share| (share * self.contenders as f64).round() as usize);
        let mut before = 0;
        ends.map(|end| end - std::mem::replace(&mut before, end)).collect()
    }

    pub fn mean_hold(&self) -> Duration {
        self.mean(|kind| &kind.hold)
    }

    pub fn mean_think(&self) -> Duration {
        self.mean(|kind| &kind.think)
    }

    fn mean(&self, of: impl Fn(&ClientKind) -> &Distribution) -> Duration {
        let kinds = self.kinds();
        let all: f64 = kinds.iter().map(|kind| kind.share).sum();
        let one = |kind: &ClientKind| of(kind).mean().mul_f64(kind.share / all);
        kinds.iter().map(one).sum()
    }

    pub fn hold_rarely_exceeded(&self) -> Duration {
        self.kinds().iter().map(|kind| kind.hold.rarely_exceeded()).max().unwrap_or_default()
    }

    pub fn think_rarely_exceeded(&self) -> Duration {
        self.kinds().iter().map(|kind| kind.think.rarely_exceeded()).max().unwrap_or_default()
    }

    /// Whether anybody asks to read. Asked at each acquisition, so it allocates nothing.
    pub fn has_readers(&self) -> bool {
        match &*self.clients {
            [] => self.read_ratio > 0.0,
            kinds => kinds.iter().any(|kind| kind.read_ratio > 0.0),
        }
    }

    /// The holds of all kinds together, as one distribution; of several kinds as many drawn values as a scenario can list.
    pub fn all_holds(&self) -> Distribution {
        self.together(|kind| &kind.hold)
    }

    /// The same of their think times.
    pub fn all_thinks(&self) -> Distribution {
        self.together(|kind| &kind.think)
    }

    fn together(&self, of: impl Fn(&ClientKind) -> &Distribution) -> Distribution {
        let kinds = self.kinds();
        if let [kind] = &*kinds {
            return of(kind).clone();
        }
        // Ten times as many as are kept, so that the means of neighbours are what is kept.
        const DRAWN: usize = 10 * MeasuredTimes::MOST;
        let (shares, mut rng) = (shares(&kinds), ChaCha8Rng::seed_from_u64(1));
        let draw = |at: usize| {
            let kind = which(&shares, (at as f64 + 0.5) / DRAWN as f64);
            of(&kinds[kind]).sample(&mut rng)
        };
        Distribution::Measured(MeasuredTimes::condensed((0..DRAWN).map(draw).collect()))
    }
}

/// Draws kinds of arrivals, each as often as its share says.
pub(super) struct KindDraw {
    pub(super) kinds: Vec<ClientKind>,
    shares: Vec<f64>,
    rng: ChaCha8Rng,
}

impl KindDraw {
    pub(super) fn new(kinds: Vec<ClientKind>, rng: ChaCha8Rng) -> Self {
        Self { shares: shares(&kinds), kinds, rng }
    }

    pub(super) fn next(&mut self) -> &ClientKind {
        &self.kinds[which(&self.shares, self.rng.random())]
    }
}

/// For each kind the share of all that are of this kind or of one before it.
fn shares(kinds: &[ClientKind]) -> Vec<f64> {
    let all: f64 = kinds.iter().map(|kind| kind.share).sum();
    let mut sum = 0.0;
    kinds.iter().map(|kind| (sum += kind.share, sum / all).1).collect()
}

fn which(shares: &[f64], at: f64) -> usize {
    shares.partition_point(|share| *share <= at).min(shares.len() - 1)
}
