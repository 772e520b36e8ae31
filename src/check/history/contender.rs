//! What is known of each contender: its session, and where it stands with each lock.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::clocks::Moment;
use super::fencing::Newest;
use super::turn::At;
use crate::record::history::{LinePosition, SessionState, Step};

#[derive(Debug, Clone, Copy)]
pub struct CalledAcquire {
    pub at: Moment,
    /// For how long the same request had been kept out by then.
    pub kept_out_us: u64,
}

#[derive(Debug, Default)]
pub struct Stand {
    pub at: At,
    pub depth: u32,
    /// Its hold, as long as that can still be judged.
    pub hold: Option<u64>,
    /// Whether it was told during that hold that its session had ended.
    pub lost: bool,
    pub token: Option<i64>,
    pub asked: Option<CalledAcquire>,
    /// How the release ended that was not done.
    pub not_let: Option<Step>,
    /// The newest token that the resource had accepted when a write was called.
    pub writing: Option<Option<Newest>>,
}

#[derive(Debug)]
pub struct HistoryContender {
    pub process: usize,
    pub number: u64,
    pub state: SessionState,
    pub told: Option<LinePosition>,
    /// Its session, as a hash: names of sessions are many and only compared.
    pub session: Option<u64>,
    pub stands: Vec<(usize, Stand)>,
}

impl HistoryContender {
    pub fn stand(&mut self, lock: usize) -> &mut Stand {
        let found = self.stands.iter().position(|(of, _)| *of == lock).unwrap_or_else(|| {
            self.stands.push((lock, Stand::default()));
            self.stands.len() - 1
        });
        &mut self.stands[found].1
    }
}

#[derive(Debug, Default)]
pub struct Contenders {
    numbers: HashMap<(usize, u64), usize>,
    /// All of them, in the order of their first event.
    pub all: Vec<HistoryContender>,
}

impl Contenders {
    /// The place of a contender among all.
    pub fn of(&mut self, process: usize, number: u64) -> usize {
        *self.numbers.entry((process, number)).or_insert_with(|| {
            let (state, stands) = (SessionState::Connected, Vec::new());
            self.all.push(HistoryContender { process, number, state, told: None, session: None, stands });
            self.all.len() - 1
        })
    }

    /// Those of a process, as far as they may have that session.
    pub fn sharing(&self, process: usize, session: Option<u64>) -> Vec<usize> {
        let may = |contender: &HistoryContender| {
            contender.process == process
                && (session.is_none() || contender.session.is_none() || session == contender.session)
        };
        (0..self.all.len()).filter(|which| may(&self.all[*which])).collect()
    }
}

/// A session's name as a number that can be kept.
pub fn session_number(session: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    hasher.finish()
}
