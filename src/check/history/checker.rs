//! The checker itself: takes event after event and hands each to those it concerns.

use std::collections::HashMap;

use super::clocks::Clocks;
use super::contender::Contenders;
use super::lock::Lock;
use crate::record::history::{Event, Header, Place, What};

/// How a history ended, and how it is to be judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ending {
    /// The number of its last line, when that broke off in its middle.
    pub cut_off_at: Option<u64>,
    /// Whether zombies violate, too.
    pub strict: bool,
}

/// Judges a history while it is read. What it keeps grows with contenders and locks, not with events.
#[derive(Debug)]
pub struct Checker {
    pub(super) complete: Option<bool>,
    pub(super) locks: Vec<Lock>,
    pub(super) clocks: Clocks,
    pub(super) contenders: Contenders,
    pub(super) events: u64,
    numbers: HashMap<String, usize>,
}

impl Checker {
    /// For the history that begins with that header.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        Self {
            complete: header.complete,
            locks: header.locks.iter().map(|(name, kind)| Lock::new(name.clone(), *kind)).collect(),
            clocks: Clocks::default(),
            contenders: Contenders::default(),
            events: 0,
            numbers: header.locks.keys().cloned().zip(0..).collect(),
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// What makes no sense about it after what went before; the history can't be judged then.
    pub fn feed(&mut self, place: Place, event: &Event<'_>) -> Result<(), String> {
        let (process, at) = self.clocks.read(event, place)?;
        self.events += 1;
        let Some(number) = event.contender else { return self.learn_all(process, event, at) };
        let who = self.contenders.of(process, number);
        self.learn(who, event, at);
        let done = match &event.what {
            What::Session => Ok(()),
            What::Acquire(acquire) => self.acquire(who, acquire, at),
            What::Release(release) => self.release(who, release, at),
            What::Write(write) => self.write(who, write, at),
        };
        let lock = || event.what.lock().unwrap_or_default();
        done.map_err(|what| format!("contender {number} of `{}`, lock `{}`: {what}", event.process, lock()))
    }

    /// The number of a lock.
    pub(super) fn lock(&self, name: &str) -> Result<usize, String> {
        self.numbers.get(name).copied().ok_or_else(|| "the header does not name this lock".to_owned())
    }
}
