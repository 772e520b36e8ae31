//! What a verdict rests on: violations, the three-way count, the servers' own counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::{Accounting, Holder, ServerCounters, Violation};

/// One of the two holders of a violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHolder {
    /// The contender's number within the trial.
    pub contender: usize,
    /// The sequence number of its queue node; `None` for a lock without one.
    pub sequence: Option<i64>,
    /// The czxid of its node (the fencing token), if it has one.
    pub czxid: Option<i64>,
    /// When it entered, since the measured phase began (negative: before it).
    pub entered_us: i64,
}

impl From<&Holder> for StoredHolder {
    fn from(holder: &Holder) -> Self {
        Self {
            contender: holder.contender,
            sequence: holder.sequence,
            czxid: holder.czxid,
            entered_us: holder.entered_us,
        }
    }
}

/// Entry into a critical section while another contender was still in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredViolation {
    /// Which of the trial's lock paths.
    pub lock: usize,
    /// The contender that was already inside.
    pub inside: StoredHolder,
    /// The contender that entered.
    pub entered: StoredHolder,
    /// When it was noticed, since the program started.
    pub noticed_us: u64,
}

impl From<&Violation> for StoredViolation {
    fn from(violation: &Violation) -> Self {
        Self {
            lock: violation.lock,
            inside: (&violation.inside).into(),
            entered: (&violation.entered).into(),
            noticed_us: violation.at,
        }
    }
}

/// One line of the three-way check: client, cost model, servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAccounting {
    /// What is counted.
    pub what: String,
    /// As the client counted it.
    pub client: Option<u64>,
    /// As the cost model predicts it, where one applies.
    pub expected: Option<u64>,
    /// As the servers counted it, where they could be asked.
    pub servers: Option<u64>,
    /// Whether the numbers that are there agree; `None` when there is only one.
    pub agrees: Option<bool>,
}

impl From<&Accounting> for StoredAccounting {
    fn from(line: &Accounting) -> Self {
        Self {
            what: line.what.to_owned(),
            client: line.client,
            expected: line.expected,
            servers: line.servers,
            agrees: line.agrees(),
        }
    }
}

/// One server's counters (`mntr`) around a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredServerCounters {
    /// `host:port`.
    pub address: String,
    /// `leader`, `follower`, `standalone`.
    pub role: String,
    /// The selected keys before the first request.
    pub before: BTreeMap<String, i64>,
    /// The same after the last.
    pub after: BTreeMap<String, i64>,
}

impl From<&ServerCounters> for StoredServerCounters {
    fn from(server: &ServerCounters) -> Self {
        Self {
            address: server.address.clone(),
            role: server.role.clone(),
            before: server.before.clone(),
            after: server.after.clone(),
        }
    }
}
