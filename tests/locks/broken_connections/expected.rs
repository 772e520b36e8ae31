//! What each lock's card says of broken connections and of nodes that go: one line a lock.

use Gone::{Fails, GoesOn, HasNone, Unnoticed};
use Survives::{All, Creates, NotDone, Nothing};

use crate::support::proxy::Fate;

/// Which lost requests of an acquire do not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// Every one is tried again.
    All,
    /// Creates: what they have made is found again.
    Creates,
    /// Every one but a create that was carried out: what it has made is found, but not recognised.
    NotDone,
    /// None: the failure is told, the caller ends the session, and the node goes with it.
    Nothing,
}

/// What a waiter does when something of its lock has been deleted by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Its acquire ends with a failure that leaves nothing open.
    Fails,
    /// It makes anew what is missing, and goes on.
    GoesOn,
    /// It is let in without its node.
    Unnoticed,
    /// It has no node while it waits.
    HasNone,
}

#[derive(Debug)]
pub struct Expected {
    pub name: &'static str,
    /// Of an acquire.
    pub acquire: Survives,
    pub release: bool,
    /// Whether missing directories are made: before anybody waits, and while somebody does.
    pub directory: [Gone; 2],
    /// When the own node goes.
    pub own_node: Gone,
    pub joins_by_count: bool,
}

const fn line(
    name: &'static str,
    acquire: Survives,
    release: bool,
    directory: [Gone; 2],
    own_node: Gone,
) -> Expected {
    Expected { name, acquire, release, directory, own_node, joins_by_count: false }
}

const fn by_count(line: Expected) -> Expected {
    Expected { joins_by_count: true, ..line }
}

/// In the order of the registry.
pub const EXPECTED: &[Expected] = &[
    line("ephemeral-node", Creates, false, [Fails, Fails], HasNone),
    line("ephemeral-child", Creates, false, [Fails, Fails], HasNone),
    line("polling", Nothing, false, [Fails, Fails], Fails),
    line("parent-watch", Nothing, false, [Fails, Fails], Fails),
    line("predecessor-watch", Nothing, false, [Fails, Fails], Fails),
    line("predecessor-watch-wait-limited", Nothing, false, [GoesOn, Unnoticed], Unnoticed),
    line("go-zookeeper", Creates, false, [GoesOn, Fails], Unnoticed),
    line("apache-write-lock", All, false, [GoesOn, GoesOn], GoesOn),
    line("curator-mutex", All, true, [GoesOn, GoesOn], GoesOn),
    line("curator-semaphore-mutex", All, true, [GoesOn, Fails], GoesOn),
    line("curator-semaphore", All, true, [GoesOn, Fails], GoesOn),
    line("curator-read-write", All, true, [GoesOn, GoesOn], GoesOn),
    line("curator-multi", All, true, [GoesOn, GoesOn], GoesOn),
    line("shared-parent-watch", Nothing, false, [Fails, Fails], Fails),
    line("shared-predecessor-watch", Nothing, false, [Fails, Fails], Fails),
    line("local-then-remote", All, true, [GoesOn, GoesOn], GoesOn),
    line("cohort", All, true, [GoesOn, GoesOn], GoesOn),
    line("kazoo", All, true, [GoesOn, Fails], GoesOn),
    line("kazoo-read-write", All, true, [GoesOn, Fails], GoesOn),
    line("crate-lock", NotDone, false, [Fails, Fails], Fails),
    line("ahead", All, true, [GoesOn, Unnoticed], Unnoticed),
    line("baton", Nothing, false, [Fails, Fails], Fails),
    line("count", Nothing, false, [GoesOn, Unnoticed], Unnoticed),
    line("count-semaphore", All, true, [GoesOn, Fails], Fails),
    line("ticket", Nothing, false, [Fails, Fails], Unnoticed),
    line("atomic-multi", All, true, [GoesOn, Fails], Fails),
    line("no-lock", Nothing, true, [GoesOn, GoesOn], HasNone),
];

/// Locks that can be asked to join by count. Without names by which to find it again, a node whose reply was lost goes with
/// its session.
const BY_COUNT: &[Expected] = &[
    by_count(line("predecessor-watch", Nothing, false, [GoesOn, Unnoticed], Unnoticed)),
    by_count(line("curator-mutex", All, true, [GoesOn, GoesOn], GoesOn)),
    by_count(line("curator-read-write", All, true, [GoesOn, GoesOn], GoesOn)),
    by_count(line("ahead", All, true, [GoesOn, Unnoticed], Unnoticed)),
];

/// Every lock, in every way to join.
pub fn all() -> impl Iterator<Item = &'static Expected> {
    EXPECTED.iter().chain(BY_COUNT)
}

/// All but the one that never asks for anything.
pub fn queueing() -> impl Iterator<Item = &'static Expected> {
    all().filter(|of| of.name != "no-lock")
}

impl Expected {
    pub fn label(&self) -> String {
        format!("{}{}", self.name, if self.joins_by_count { " by count" } else { "" })
    }

    /// Whether an acquire goes on after the loss of a request of that kind.
    pub fn survives(&self, kind: &str, fate: Fate) -> bool {
        match self.acquire {
            All => true,
            Creates => kind == "create",
            NotDone => kind != "create" || fate == Fate::RequestLost,
            Nothing => false,
        }
    }

    /// How many requests of a kind are sure to come. One that polls looks as often as it takes, and one that races
    /// may lose; with nobody to race against it makes its directory first.
    pub fn is_sure_of(&self, kind: &str, is_contended: bool) -> usize {
        match (self.name, kind) {
            ("polling", _) => 2,
            ("ephemeral-node" | "ephemeral-child", "create") if is_contended => 2,
            ("ephemeral-node" | "ephemeral-child", _) if is_contended => 1,
            _ => usize::MAX,
        }
    }
}
