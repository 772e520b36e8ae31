//! Setup for the checks of one lock: driver processes, contenders, and a session that reads the nodes.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::{NAME, Trouble, not_tried, why, wrong};
use zklockbench_core::catalog::{LockCard, Mode};
use zklockbench_core::clock::{self, micros, millis};
use zklockbench_core::units::parse_duration;
use zklockbench_locks::driver::protocol::{Abilities, Parameter, Ready, TokenKind};
use zklockbench_locks::driver::{DriverCommand, Granted, Link, Parameters, Processes, Wanted};
use zklockbench_locks::{AcquireError, Acquired};
use zklockbench_zk::gate::Gate;
use zklockbench_zk::{Failure, ForeignSession, NodeKind, Observed, Session, Target, runtime, session_of};

#[derive(Debug, Clone)]
pub struct CheckSite {
    pub target: Target,
    /// Empty node under which the locks are created.
    pub place: String,
    /// Number of contenders in the exclusion check.
    pub contenders: usize,
}

/// Session timeout in checks that do not wait for sessions to expire.
pub(super) const SESSION: Duration = Duration::from_secs(10);
/// Time limit for a request that does not wait for another contender.
pub(super) const SOON: Duration = Duration::from_secs(10);
/// Time limit for a lock to become free, or for its nodes to disappear, while their session is alive. An abandoned
/// session may expire after two thirds of its timeout, because its last heartbeat may be a third of the timeout old.
pub(super) const FREED_WITHIN: Duration = Duration::from_secs(6);
const _: () = assert!(3 * FREED_WITHIN.as_secs() < 2 * SESSION.as_secs());

/// An ephemeral node below a lock's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub path: String,
    pub owner: i64,
    pub czxid: i64,
}

pub(super) struct Stage<'a> {
    pub site: &'a CheckSite,
    pub abilities: &'a Abilities,
    pub is_zookeeper: bool,
    /// Maximum number of contenders in each process.
    pub contenders_each: usize,
    wanted: Wanted,
    look: Session,
    made: Cell<usize>,
}

impl<'a> Stage<'a> {
    pub async fn new(
        site: &'a CheckSite,
        command: &DriverCommand,
        ready: &'a Ready,
        lock: &str,
    ) -> Result<Self, Failure> {
        let abilities = &ready.locks[lock];
        let wanted = Wanted {
            command: command.clone(),
            lock: lock.to_owned(),
            abilities: abilities.clone(),
            parameters: parameters(abilities),
            leases: abilities.leases.as_ref().map(|_| 1),
            processes: 1,
        };
        let look = site.target.open(2 * SESSION, SOON, Observed::by_nobody()).await?;
        let is_zookeeper = ready.system == LockCard::ZOOKEEPER;
        let contenders_each = ready.contenders.max(1);
        Ok(Self { site, abilities, is_zookeeper, contenders_each, wanted, look, made: Cell::new(0) })
    }

    /// Returns a driver process, which starts with its first contender.
    pub fn process(&self) -> Processes {
        self.processes(1)
    }

    pub fn processes(&self, count: usize) -> Processes {
        Processes::new(Wanted { processes: count, ..self.wanted.clone() })
    }

    /// Creates a directory for a lock.
    pub async fn directory(&self) -> Result<String, Trouble> {
        let path = format!("{}/{}-{}", self.site.place, self.wanted.lock, self.made.get());
        self.made.set(self.made.get() + 1);
        match self.look.create(&path, &[], NodeKind::Persistent).await {
            Ok(created) => Ok(created.path),
            Err(failure) => Err(Trouble::Ensemble(format!("{path}: {failure}"))),
        }
    }

    pub async fn open<'b>(
        &'b self,
        process: &Processes,
        number: usize,
        session: Duration,
        on: &'b str,
    ) -> Result<Contender<'b>, Trouble> {
        let gate = Arc::new(Gate::default());
        let link = process.open(number, &self.site.target, session, SOON, &gate).await;
        Ok(Contender { stage: self, number, on, link: link.map_err(|failure| failed("open", &failure))? })
    }

    /// Returns the ephemeral nodes of a lock, including all changes committed before this call.
    pub async fn nodes(&self, on: &str) -> Result<Vec<Node>, Trouble> {
        let ensemble = |failure: Failure| Trouble::Ensemble(failure.to_string());
        let now = self.look.caught_up().await.map_err(ensemble)?;
        let (mut found, mut paths) = (Vec::new(), vec![on.to_owned()]);
        while let Some(path) = paths.pop() {
            let names = match now.children(&path).await.map_err(Failure::from) {
                Ok(names) => names,
                Err(Failure::NoNode) => continue,
                Err(failure) => return Err(ensemble(failure)),
            };
            for name in &names {
                let path = format!("{path}/{name}");
                let stat = now.stat(&path).await.map_err(|error| ensemble(error.into()))?;
                let Some(stat) = stat else { continue };
                match session_of(stat.ephemeral_owner) {
                    Some(owner) => found.push(Node { path, owner, czxid: stat.czxid }),
                    None => paths.push(path),
                }
            }
        }
        Ok(found)
    }

    /// Waits until no matching node is left; returns a node that still exists after `within`.
    pub async fn node_left(
        &self,
        on: &str,
        within: Duration,
        is_one: impl Fn(&Node) -> bool,
    ) -> Result<Option<Node>, Trouble> {
        let until = clock::now() + micros(within);
        loop {
            let left = self.nodes(on).await?.into_iter().find(&is_one);
            if left.is_none() || clock::now() >= until {
                return Ok(left);
            }
            runtime::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Returns the defaults of a lock's parameters, but with a single lease.
fn parameters(abilities: &Abilities) -> Parameters {
    let value = |parameter: &Parameter| match parameter.default.as_str().map(parse_duration) {
        Some(Ok(time)) if parameter.one_of.is_empty() => millis(time).into(),
        _ => parameter.default.clone(),
    };
    let all = abilities.parameters.iter();
    let mut values: Parameters = all.map(|(name, parameter)| (name.clone(), value(parameter))).collect();
    if let Some(leases) = &abilities.leases {
        values.insert(leases.clone(), 1.into());
    }
    values
}

/// A contender in a driver process.
pub(super) struct Contender<'a> {
    pub number: usize,
    pub link: Arc<Link>,
    stage: &'a Stage<'a>,
    on: &'a str,
}

impl Contender<'_> {
    /// Waits for the lock, but only until `cancelled` completes.
    pub async fn acquire(
        &self,
        timeout: Option<Duration>,
        cancelled: impl Future<Output = ()>,
    ) -> Acquired<Granted> {
        self.link.acquire(self.on, Mode::Write, timeout, cancelled).await
    }

    /// Acquires a lock that is free or about to be released.
    pub async fn takes(&self, within: Duration) -> Result<Granted, Trouble> {
        let acquired = runtime::timeout(within, self.acquire(None, std::future::pending())).await;
        let Some(acquired) = acquired else {
            return wrong(format!("contender {} did not acquire the lock within {within:?}", self.number));
        };
        acquired.map_err(|not_granted| self.refused(not_granted))
    }

    /// Returns the error for an acquire that should have been granted.
    pub fn refused(&self, not_granted: AcquireError) -> Trouble {
        match not_granted {
            AcquireError::Failed(failure) => failed("acquire", &failure),
            AcquireError::TimedOut => Trouble::Wrong("`acquire` was answered with `timeout`".into()),
            AcquireError::Cancelled | AcquireError::Deadlock => {
                Trouble::Wrong("`acquire` was answered with `cancelled`".into())
            }
        }
    }

    pub async fn releases(&self) -> Result<(), Trouble> {
        match runtime::timeout(SOON, self.link.release(self.on)).await {
            Some(released) => released.map_err(|failure| failed("release", &failure)),
            None => wrong(format!("`release` was not answered within {SOON:?}")),
        }
    }

    pub async fn closes(&self) -> Result<(), Trouble> {
        match runtime::timeout(SOON, self.link.close()).await {
            Some(true) => Ok(()),
            Some(false) => wrong("`close` failed"),
            None => wrong(format!("`close` was not answered within {SOON:?}")),
        }
    }

    /// Checks that the contender's session owns a node in the lock, and that the session owns the reported node.
    pub async fn holds(&self, granted: &Granted) -> Result<(), Trouble> {
        let Some(session) = self.link.id() else { return Ok(()) };
        let nodes = self.stage.nodes(self.on).await?;
        if !nodes.iter().any(|node| node.owner == session) {
            return wrong(format!(
                "contender {} was granted the lock, but its session {session:#x} owns none of the lock's {} nodes",
                self.number,
                nodes.len()
            ));
        }
        let reported = granted.done.node_of(self.on).zip(granted.done.token.as_ref());
        let Some((path, token)) = reported.filter(|_| self.stage.abilities.token == TokenKind::Czxid) else {
            return Ok(());
        };
        match nodes.iter().find(|node| node.path == path) {
            None => wrong(format!("the reported node {path} does not exist")),
            Some(node) if node.owner != session => wrong(format!(
                "the reported node {path} belongs to session {:#x}, not to {session:#x}",
                node.owner
            )),
            Some(node) if token.number() != Some(node.czxid) => {
                wrong(format!("the token is {token}, but the czxid of {path} is {}", node.czxid))
            }
            Some(_) => Ok(()),
        }
    }

    /// Checks that the contender's session no longer owns any node in the lock.
    pub async fn leaves(&self, after: &str) -> Result<(), Trouble> {
        let is_own = |node: &Node| Some(node.owner) == self.link.id();
        match self.stage.node_left(self.on, FREED_WITHIN, is_own).await? {
            None => Ok(()),
            Some(node) => {
                wrong(format!("{after}, its session still has {} after {FREED_WITHIN:?}", node.path))
            }
        }
    }
}

/// A holder and a second contender, each in its own process.
pub(super) struct Pair<'a> {
    pub holder: Contender<'a>,
    pub waiter: Contender<'a>,
    /// Driver processes, kept alive until the check ends.
    _processes: [Processes; 2],
}

impl<'a> Pair<'a> {
    pub async fn new(stage: &'a Stage<'_>, on: &'a str) -> Result<Self, Trouble> {
        let processes = [stage.process(), stage.process()];
        let holder = stage.open(&processes[0], 0, SESSION, on).await?;
        let waiter = stage.open(&processes[1], 1, SESSION, on).await?;
        holder.takes(SOON).await?;
        Ok(Self { holder, waiter, _processes: processes })
    }

    /// Checks that the lock still works after an abandoned wait.
    pub async fn goes_on(&self) -> Result<(), Trouble> {
        self.holder.releases().await?;
        self.waiter.leaves("although its wait had ended").await?;
        self.waiter.takes(SOON).await?;
        self.waiter.releases().await?;
        self.waiter.leaves("although the lock was released").await?;
        self.holder.closes().await?;
        self.waiter.closes().await
    }
}

/// Skips the rest of a check because of a second holder, which the check `exclusion` reports.
pub(super) fn let_in<T>() -> Result<T, Trouble> {
    not_tried("a second contender was granted the lock: see `exclusion`")
}

pub(super) fn failed(doing: &str, failure: &Failure) -> Trouble {
    match failure {
        Failure::DriverEnded(text) => {
            let text = text.replace(&format!("driver `{NAME}` "), "it ").replace("\n    ", " ");
            Trouble::Wrong(format!("`{doing}`: {text}"))
        }
        other => Trouble::Wrong(format!("`{doing}` failed: {other}")),
    }
}

/// Returns the first failure of a driver process, if any.
pub(super) fn failure_of(process: &Processes) -> Option<Trouble> {
    process.failed().first().map(|error| Trouble::Wrong(why(error)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_sent_in_milliseconds_and_words_unchanged() {
        let abilities = json!({ "timeout": "none", "cancel": "none", "leases": "n", "parameters": {
            "n": { "default": 7 }, "pause": { "default": "1s" },
            "level": { "default": "1s", "one_of": ["1s", "off"] } } });
        let found = parameters(&serde_json::from_value(abilities).unwrap());
        assert_eq!(json!(found), json!({ "n": 1, "pause": 1000, "level": "1s" }));
    }
}
