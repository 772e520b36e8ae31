//! Recognises recipes by the names of their nodes.
//!
//! Sources: Apache Curator 5 (`InterProcessMutex`, `InterProcessReadWriteLock`, `InterProcessSemaphoreV2`,
//! `LeaderLatch`), kazoo (`recipe/lock.py`), go-zookeeper (`lock.go`), ZooKeeper's own recipes, Ruby's zk,
//! .NET's DistributedLock, Hadoop (`ActiveStandbyElector`), ClickHouse (`EphemeralLockInZooKeeper`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reconstruct::split;
use zklockbench_core::worded;

worded! {
    /// The recipe of a lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Recipe by words {
        /// Curator's `InterProcessMutex`, Spring's lock registry, or one member of a `MultiLock`.
        CuratorMutex = "Curator mutex",
        /// Curator's `InterProcessReadWriteLock`.
        CuratorReadWrite = "Curator read-write",
        /// Curator's `InterProcessSemaphoreV2` or `InterProcessSemaphoreMutex`.
        CuratorSemaphore = "Curator semaphore",
        /// Curator's `LeaderLatch`.
        CuratorLatch = "Curator leader latch",
        /// kazoo's `Lock` or `Election`.
        Kazoo = "kazoo lock",
        /// kazoo's `ReadLock` and `WriteLock`.
        KazooReadWrite = "kazoo read-write",
        /// kazoo's `Semaphore`.
        KazooSemaphore = "kazoo semaphore",
        /// go-zookeeper's `Lock`.
        Go = "Go lock",
        /// `WriteLock` from ZooKeeper's own recipes, in Java or C.
        WriteLock = "ZooKeeper WriteLock",
        /// `LeaderElectionSupport` from ZooKeeper's own recipes, or an election of Solr or ClickHouse.
        LeaderElection = "ZooKeeper election",
        /// The exclusive and shared lockers of Ruby's zk.
        RubyZk = "Ruby zk locker",
        /// A queue of readers and writers, with `read-` and `write-` or `-R-` and `-W-` in the names.
        ReadersWriters = "readers-writers queue",
        /// Hadoop's `ActiveStandbyElector`.
        Hadoop = "Hadoop HA election",
        /// ClickHouse's abandonable locks, which do not form a queue.
        ClickHouse = "ClickHouse block locks",
        /// A queue of sequential nodes with unfamiliar names.
        Sequential = "sequential queue",
        /// One ephemeral node that clients compete for.
        SingleNode = "single node",
        /// Several recipes in one directory.
        Mixed = "mixed",
    }
}

/// Role of a node in its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The node holds the lock when it is first in the queue.
    Write,
    /// The node holds the lock when no writer is ahead of it.
    Read,
    /// The node holds a lease, unless its session still has a node in the inner queue.
    Lease,
}

impl Recipe {
    pub fn is_election(self) -> bool {
        matches!(self, Self::CuratorLatch | Self::LeaderElection | Self::Hadoop)
    }

    /// Returns whether the lock is one node, without a queue.
    pub fn is_single(self) -> bool {
        matches!(self, Self::SingleNode | Self::Hadoop)
    }

    /// Returns whether clients alternate between a list of the nodes and a watch until a list shows that they hold
    /// the lock.
    pub fn lists_before_holding(self) -> bool {
        matches!(
            self,
            Self::CuratorMutex | Self::CuratorReadWrite | Self::Kazoo | Self::KazooReadWrite | Self::Go
        )
    }

    /// Returns the built-in strategy that sends the same or nearly the same requests.
    pub fn strategy(self) -> &'static str {
        match self {
            Self::CuratorReadWrite => "curator-read-write",
            Self::CuratorSemaphore | Self::KazooSemaphore => "curator-semaphore",
            Self::Kazoo => "kazoo",
            Self::KazooReadWrite => "kazoo-read-write",
            Self::Go => "go-zookeeper",
            Self::WriteLock => "apache-write-lock",
            Self::RubyZk | Self::ReadersWriters => "shared-predecessor-watch",
            Self::SingleNode | Self::Hadoop => "ephemeral-node",
            Self::CuratorMutex | Self::CuratorLatch => "curator-mutex",
            Self::LeaderElection | Self::ClickHouse | Self::Sequential | Self::Mixed => "predecessor-watch",
        }
    }
}

/// Recipes seen in one directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recipes(u32);

impl Recipes {
    pub fn add(&mut self, recipe: Recipe) {
        self.0 |= 1 << recipe as u32;
    }

    fn has(self, recipe: Recipe) -> bool {
        self.0 & 1 << recipe as u32 != 0
    }

    /// Returns the recipe that explains all names, or [`Recipe::Mixed`] if there is none.
    pub fn one(self) -> Recipe {
        let all: Vec<Recipe> = Recipe::ALL.into_iter().filter(|recipe| self.has(*recipe)).collect();
        match all.as_slice() {
            [one] => *one,
            [Recipe::Kazoo, Recipe::KazooReadWrite] => Recipe::KazooReadWrite,
            // The inner queue of a semaphore is a mutex.
            [Recipe::CuratorMutex, Recipe::CuratorSemaphore] => Recipe::CuratorSemaphore,
            [Recipe::Kazoo, Recipe::KazooSemaphore] => Recipe::KazooSemaphore,
            _ => Recipe::Mixed,
        }
    }
}

/// Length of a sequence number.
pub const DIGITS: usize = 10;

/// Returns the part of the name before its sequence number; `None` without a number.
pub fn before_number(name: &[u8]) -> Option<&[u8]> {
    let (before, digits) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    let is_number = digits.iter().all(u8::is_ascii_digit) && !before.last().is_some_and(u8::is_ascii_digit);
    // After an overflow of the counter, the sequence number has a minus sign.
    let before = if before.ends_with(b"--") || before.ends_with(b"__-") {
        &before[..before.len() - 1]
    } else {
        before
    };
    is_number.then_some(before)
}

/// Returns whether the node belongs to a work queue: it marks an entry of kazoo's `LockingQueue` as taken and has the
/// entry's number, or it is a response of Solr's overseer or a request of HBase's master to its workers.
pub fn is_of_work_queue(directory: &[u8], name: &[u8]) -> bool {
    directory.ends_with(b"/taken") && name.starts_with(b"entry-")
        || name.starts_with(b"qnr-")
        || name.starts_with(b"RESCAN")
}

/// Returns whether a create appended a number to the name. If the number is unknown, the name decides.
pub fn is_sequential(name: &[u8], sequence: Option<i32>) -> bool {
    match sequence {
        Some(number @ 0..) => name.last_chunk::<DIGITS>().is_some_and(|digits| {
            let value =
                digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit.wrapping_sub(b'0')));
            digits.iter().all(u8::is_ascii_digit) && value == i64::from(number)
        }),
        Some(number) => name.ends_with(format!("{number:010}").as_bytes()),
        None => before_number(name).is_some(),
    }
}

/// Returns the recipe and role of an ephemeral node; `None` if its name is unknown.
pub fn recognise(directory: &[u8], name: &[u8]) -> Option<(Recipe, Role)> {
    if name == b"ActiveStandbyElectorLock" {
        return Some((Recipe::Hadoop, Role::Write));
    }
    let before = before_number(name)?;
    protected(before).or_else(|| kazoo(before)).or_else(|| others(directory, before))
}

/// Recognises protected names of Curator and go-zookeeper: `_c_`, a GUID with or without dashes, and a
/// prefix.
fn protected(before: &[u8]) -> Option<(Recipe, Role)> {
    let marked = before.strip_prefix(b"_c_")?;
    if let Some((guid, rest)) = marked.split_at_checked(GUID)
        && is_guid(guid)
    {
        return match rest.strip_prefix(b"-")? {
            b"lock-" => Some((Recipe::CuratorMutex, Role::Write)),
            b"__READ__" => Some((Recipe::CuratorReadWrite, Role::Read)),
            b"__WRIT__" => Some((Recipe::CuratorReadWrite, Role::Write)),
            b"latch-" => Some((Recipe::CuratorLatch, Role::Write)),
            b"lease-" => Some((Recipe::CuratorSemaphore, Role::Lease)),
            _ => None,
        };
    }
    let (hex, rest) = marked.split_at_checked(HEX)?;
    (is_hex(hex) && rest == b"-lock-").then_some((Recipe::Go, Role::Write))
}

fn kazoo(before: &[u8]) -> Option<(Recipe, Role)> {
    let (hex, rest) = before.split_at_checked(HEX)?;
    match rest {
        _ if !is_hex(hex) => None,
        b"__lock__" => Some((Recipe::Kazoo, Role::Write)),
        b"__rlock__" => Some((Recipe::KazooReadWrite, Role::Read)),
        _ => None,
    }
}

fn others(directory: &[u8], before: &[u8]) -> Option<(Recipe, Role)> {
    let is_ruby = || directory.windows(11).any(|part| part == b"/_zklocking");
    let is_of_partition = || split(directory).0.ends_with(b"/block_numbers");
    // A client may put its own name before the recipe's.
    let is_called =
        |name: &[u8]| before.strip_suffix(name).is_some_and(|own| own.is_empty() || own.ends_with(b"-"));
    match before {
        b"leader_election-" => Some((Recipe::LeaderElection, Role::Write)),
        b"ex" if is_ruby() => Some((Recipe::RubyZk, Role::Write)),
        b"sh" if is_ruby() => Some((Recipe::RubyZk, Role::Read)),
        b"abandonable_lock-" => Some((Recipe::ClickHouse, Role::Lease)),
        b"block-" if is_of_partition() => Some((Recipe::ClickHouse, Role::Lease)),
        _ if is_called(b"n_") => Some((Recipe::LeaderElection, Role::Write)),
        _ if is_called(b"R-") || is_called(b"read-") => Some((Recipe::ReadersWriters, Role::Read)),
        _ if is_called(b"W-") || is_called(b"write-") => Some((Recipe::ReadersWriters, Role::Write)),
        _ => {
            let session = before.strip_prefix(b"x-")?.strip_suffix(b"-")?;
            let decimal = session.strip_prefix(b"-").unwrap_or(session);
            let is_session = !decimal.is_empty() && decimal.iter().all(u8::is_ascii_digit)
                || session.len() == 16 && is_hex(session);
            is_session.then_some((Recipe::WriteLock, Role::Write))
        }
    }
}

/// Lengths of a GUID with and without dashes.
pub const GUID: usize = 36;
pub const HEX: usize = 32;

pub fn is_guid(text: &[u8]) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, &u8)| if dash(at) { *byte == b'-' } else { byte.is_ascii_hexdigit() };
    text.len() == GUID && text.iter().enumerate().all(fits)
}

fn is_hex(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_hexdigit)
}

/// Returns whether this may be a GUID without dashes, such as the name of a lease of kazoo's semaphore. Other nodes may
/// have names of the same form.
pub fn is_bare_hex(name: &[u8]) -> bool {
    name.len() == HEX && is_hex(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_client_are_recognised() {
        let (guid, hex) = ("0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5bd9cb469fa16570867728950e");
        for (name, recipe, role) in [
            (format!("_c_{guid}-lock-0000000007"), Recipe::CuratorMutex, Role::Write),
            (format!("_c_{guid}-lock--2147483648"), Recipe::CuratorMutex, Role::Write),
            (format!("_c_{guid}-__READ__0000000007"), Recipe::CuratorReadWrite, Role::Read),
            (format!("_c_{guid}-__WRIT__0000000007"), Recipe::CuratorReadWrite, Role::Write),
            (format!("_c_{guid}-latch-0000000007"), Recipe::CuratorLatch, Role::Write),
            (format!("_c_{guid}-lease-0000000007"), Recipe::CuratorSemaphore, Role::Lease),
            (format!("_c_{hex}-lock-0000000007"), Recipe::Go, Role::Write),
            (format!("{hex}__lock__0000000007"), Recipe::Kazoo, Role::Write),
            (format!("{hex}__lock__-2147483648"), Recipe::Kazoo, Role::Write),
            (format!("{hex}__rlock__0000000007"), Recipe::KazooReadWrite, Role::Read),
            ("x-72057594037927936-0000000007".to_owned(), Recipe::WriteLock, Role::Write),
            ("x-0100000000000000-0000000007".to_owned(), Recipe::WriteLock, Role::Write),
            ("n_0000000007".to_owned(), Recipe::LeaderElection, Role::Write),
            ("ex0000000007".to_owned(), Recipe::RubyZk, Role::Write),
            ("sh0000000007".to_owned(), Recipe::RubyZk, Role::Read),
            ("read-0000000007".to_owned(), Recipe::ReadersWriters, Role::Read),
            ("host7-W-0000000007".to_owned(), Recipe::ReadersWriters, Role::Write),
            (format!("{guid}-read-0000000007"), Recipe::ReadersWriters, Role::Read),
            (format!("{guid}-write-0000000007"), Recipe::ReadersWriters, Role::Write),
            ("72057594037927936-core_node1-n_0000000007".to_owned(), Recipe::LeaderElection, Role::Write),
            ("leader_election-0000000007".to_owned(), Recipe::LeaderElection, Role::Write),
            ("ActiveStandbyElectorLock".to_owned(), Recipe::Hadoop, Role::Write),
        ] {
            assert_eq!(recognise(b"/_zklocking/a", name.as_bytes()), Some((recipe, role)), "{name}");
        }
        let block = recognise(b"/clickhouse/t/block_numbers/all", b"block-0000000007");
        assert_eq!(block, Some((Recipe::ClickHouse, Role::Lease)));
    }

    #[test]
    fn unfamiliar_names_belong_to_no_recipe() {
        let guid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        for name in [
            "lock".to_owned(),
            "qn-0000000007".to_owned(),
            "ex0000000007".to_owned(),
            format!("_c_{guid}-member-0000000007"),
            format!("_c_{guid}-lock-"),
            "x-host-0000000007".to_owned(),
            "block-0000000007".to_owned(),
            "12345678901".to_owned(),
        ] {
            assert_eq!(recognise(b"/queue", name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn nodes_are_sequential_if_their_names_end_with_the_number_of_their_create() {
        for (name, sequence, expected) in [
            ("client-70000000012", Some(12), true),
            ("5f3759df0000000012", Some(12), true),
            ("lock-2147483647", Some(i32::MAX), true),
            ("lock--2147483648", Some(i32::MIN), true),
            ("lock--000000007", Some(-7), true),
            ("customer-4915112345", Some(12), false),
            ("lock-0000000013", Some(12), false),
            ("12", Some(12), false),
            ("customer-4915112345", None, true),
            ("client-70000000012", None, false),
        ] {
            assert_eq!(is_sequential(name.as_bytes(), sequence), expected, "{name} {sequence:?}");
        }
    }
}
