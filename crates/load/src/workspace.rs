//! The suite's nodes on an ensemble, below `/zklockbench/<run id>`, and leftovers of killed runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError, SessionState, Stat};

use super::counters::{NearEnd, near_end};
use super::first_contact::first_session;
use super::lock_states::{LOCK, WITNESS};
use zklockbench_core::error::Error;
use zklockbench_core::locked::locked;
use zklockbench_scenario::Slice;
use zklockbench_zk::throttle::Throttle;
use zklockbench_zk::{CaughtUp, Failure, Target, reach, session_of, why_not_counting};

/// Top-level node shared by all runs, because servers keep metrics for each top-level node forever.
pub const TOP: &str = "/zklockbench";

/// Top-level node of the workers' meetings, separate from [`TOP`] because servers count requests by top-level node.
pub(super) const WORKERS_TOP: &str = "/zklockbench-workers";

/// Number of concurrent requests when many nodes are created or removed. Servers write concurrent requests in
/// batches.
pub(super) const AT_ONCE: usize = 64;
const SESSION: Duration = Duration::from_secs(20);
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);

/// Data of a run's root node once an ephemeral node below it shows that the run is alive.
pub(super) const SHOWS_LIFE: &[u8] = b"alive as long as it has ephemeral nodes";
/// Data of a run's root node until the run is marked alive; distinguishes the node from other clients' nodes.
const MADE: &[u8] = b"made by zklockbench";
const ALIVE: &str = "alive";
/// Directory for measuring the ensemble's floor.
pub const FLOOR: &str = "floor";
/// Directory for checking whether locks can join by count.
const COUNTING: &str = "counting";
/// Session timeout, during which a run still counts as alive after its process has ended.
const LIFE_SESSION: Duration = Duration::from_secs(10);

/// Shows other clients that a run is alive, until dropped.
#[derive(Debug)]
pub struct SignOfLife {
    task: JoinHandle<()>,
    session: LifeSession,
}

impl Drop for SignOfLife {
    fn drop(&mut self) {
        self.task.abort();
        locked(&self.session).take();
    }
}

/// Session of the sign of life, if it is open.
type LifeSession = Arc<Mutex<Option<Client>>>;

#[derive(Debug, Clone)]
pub struct Workspace {
    target: Target,
    root: String,
    /// Result of the check for joining by count, once it has run.
    counts: Arc<OnceCell<Option<String>>>,
    /// Rate limiter for requests, if any.
    throttle: Option<Arc<Throttle>>,
    life: LifeSession,
}

impl Workspace {
    pub async fn create(target: Target, run_id: &str) -> Result<Self, Error> {
        let workspace = Self::made_by_another(target, run_id);
        let client = open(&workspace.target).await?;
        ensure(&client, &workspace.target, TOP, &[]).await?;
        match workspace.make(&client, &workspace.root, MADE).await {
            Ok(()) => Ok(workspace),
            Err(ClientError::NodeExists) => Err(Error::environment(format!(
                "{} exists on {}: another run may be using it. Choose another --run-id, or delete the node if \
                 no run is in progress",
                workspace.root, workspace.target.connect
            ))),
            Err(error) => Err(refused(&workspace.target, "create", &workspace.root, error)),
        }
    }

    /// Creates an ephemeral node in a separate session to show other clients that the run is alive. The node
    /// distinguishes a run that is between two trials from the leftovers of a killed run.
    pub async fn show_life(&self) -> Result<SignOfLife, Error> {
        let client = self.alive().await?;
        let marked = client.set_data(&self.root, SHOWS_LIFE, None).await;
        marked.map_err(|error| refused(&self.target, "write", &self.root, error))?;
        let task = tokio::spawn(self.clone().stay_alive(client));
        Ok(SignOfLife { task, session: Arc::clone(&self.life) })
    }

    /// Restores the sign of life whenever its session has expired.
    async fn stay_alive(self, mut client: Client) {
        const BETWEEN: Duration = Duration::from_secs(1);
        loop {
            *locked(&self.life) = Some(client.clone());
            let mut states = client.state_watcher();
            while !states.changed().await.is_terminated() {}
            client = loop {
                match self.alive().await {
                    Ok(client) => break client,
                    Err(_) => tokio::time::sleep(BETWEEN).await,
                }
            };
        }
    }

    /// Opens a session with an ephemeral node below the run's root.
    async fn alive(&self) -> Result<Client, Error> {
        let (client, path) = (open_for(&self.target, LIFE_SESSION).await?, format!("{}/{ALIVE}", self.root));
        let made = client.create(&path, &[], &CreateMode::Ephemeral.with_acls(own_acls(&self.target))).await;
        made.map_err(|error| refused(&self.target, "create", &path, error))?;
        Ok(client)
    }

    /// Returns a session for checks before or after a load: the session of the sign of life, or else a new
    /// session. The deadline is short, because servers may be gone or at their connection limit.
    pub(super) async fn session_for_checks(&self, within: Duration) -> Result<Client, String> {
        let alive = locked(&self.life).clone();
        if let Some(alive) = alive.filter(|client| client.state() == SessionState::SyncConnected) {
            return Ok(alive);
        }
        match tokio::time::timeout(within, self.target.client(SESSION)).await {
            Ok(Ok(client)) => return Ok(client),
            Ok(Err(failure @ Failure::NotAuthenticated(_))) => return Err(failure.to_string()),
            Ok(Err(_)) | Err(_) => {}
        }
        let limit = reach::connections_used_up(&self.target).await;
        let limit = limit.map_or_else(String::new, |limit| format!(". {limit}"));
        Err(format!("no session to {} within {within:?}{limit}", self.target.connect))
    }

    /// Returns the workspace with a rate limit for creating and removing nodes.
    pub fn limited_by(self, throttle: Option<Arc<Throttle>>) -> Self {
        Self { throttle, ..self }
    }

    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the workspace of a run that another worker creates.
    pub fn made_by_another(target: Target, run_id: &str) -> Self {
        let (counts, life) = (Arc::default(), Arc::default());
        Self { root: format!("{TOP}/{run_id}"), target, counts, throttle: None, life }
    }

    pub fn trial_root(&self, trial: usize) -> String {
        format!("{}/t{trial:03}", self.root)
    }

    /// Creates a trial's directories. Returns the trial's root.
    pub async fn prepare(&self, trial: usize, locks: usize, slice: Slice) -> Result<String, Error> {
        let client = open(&self.target).await?;
        let root = self.trial_root(trial);
        let paths =
            std::iter::once(root.clone()).chain((0..locks).map(|lock| format!("{root}/{LOCK}{lock}")));
        let witnesses = (0..locks).filter(|_| slice.is_part()).map(|lock| format!("{root}/{WITNESS}{lock}"));
        let mut paths = paths.chain(witnesses);
        // The first path is the parent of all others.
        if let Some(root) = paths.next() {
            self.make_at(&client, root).await?;
        }
        stream::iter(paths.map(Ok))
            .try_for_each_concurrent(AT_ONCE, |path| self.make_at(&client, path))
            .await?;
        Ok(root)
    }

    /// Creates a node outside the trials. Returns its path. [`Workspace::clear`] removes the node.
    pub async fn place(&self, name: &str) -> Result<String, Error> {
        let client = open(&self.target).await?;
        let path = format!("{}/{name}", self.root);
        self.make_at(&client, path.clone()).await?;
        Ok(path)
    }

    /// Returns the counters that are near their end in the chroot and the run's directories.
    pub async fn counters_near_end(&self) -> Vec<NearEnd> {
        let Ok(client) = open(&self.target).await else { return Vec::new() };
        let Ok(now) = CaughtUp::with(&client).await else { return Vec::new() };
        [near_end(now, "/").await, near_end(now, &self.root).await].concat()
    }

    /// Checks, once per run, that the ensemble's replies contain what a lock that joins by count needs.
    pub async fn check_counting(&self, strategy: &str) -> Result<(), Error> {
        let why = self.counts.get_or_try_init(async || self.try_counting().await).await?;
        why.as_ref().map_or(Ok(()), |why| {
            Err(Error::environment(format!(
                "cannot use {strategy} on {}: {why}. The lock joins a queue with a multi that creates a node and sets \
                 the directory's data, and the reply must contain the directory's stat at that transaction. Remove the \
                 strategy, or set join = \"create\"",
                self.target.connect
            )))
        })
    }

    async fn try_counting(&self) -> Result<Option<String>, Error> {
        let place = self.place(COUNTING).await?;
        let client = open(&self.target).await?;
        let tried = why_not_counting(&client, &place, own_acls(&self.target)).await;
        self.clear(&place).await?;
        tried.map_err(|error| refused(&self.target, "join by count", &place, error))
    }

    pub async fn clear(&self, trial_root: &str) -> Result<(), Error> {
        let client = open(&self.target).await?;
        remove_tree(&client, trial_root, self.throttle.as_deref())
            .await
            .map_err(|error| refused(&self.target, "delete", trial_root, error))
    }

    pub async fn close(&self) -> Result<(), Error> {
        remove_run(&self.target, &self.root, self.throttle.as_deref()).await
    }

    async fn make_at(&self, client: &Client, path: String) -> Result<(), Error> {
        admit(self.throttle.as_deref()).await;
        let made = self.make(client, &path, &[]).await;
        made.map_err(|error| refused(&self.target, "create", &path, error))
    }

    async fn make(&self, client: &Client, path: &str, data: &[u8]) -> Result<(), ClientError> {
        client.create(path, data, &CreateMode::Persistent.with_acls(own_acls(&self.target))).await.map(drop)
    }
}

/// Returns the ACL of nodes that only the run itself uses: with an identity, only that identity has access.
pub(super) fn own_acls(target: &Target) -> Acls<'static> {
    if target.access.has_identity() { Acls::creator_all() } else { Acls::anyone_all() }
}

const CREATE_CHROOT: &str = "create it (`run --create-chroot` does)";

fn missing_chroot(target: &Target, remedy: &str) -> Error {
    let (servers, chroot) = target.parts();
    Error::environment(format!("the chroot {chroot} does not exist on {servers}: {remedy}, or omit it"))
}

/// Creates the chroot of a connect string and missing nodes above it. Existing nodes are unchanged; created
/// nodes remain after the run and are open to all clients.
pub async fn make_chroot(target: &Target) -> Result<(), Error> {
    let (servers, chroot) = target.parts();
    let above = Target { connect: servers.to_owned(), access: target.access.clone() };
    let client = open(&above).await?;
    let ends = chroot.match_indices('/').map(|(end, _)| end).skip(1).chain([chroot.len()]);
    for path in ends.map(|end| &chroot[..end]).filter(|path| !path.is_empty()) {
        match client.create(path, &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
            Ok(_) | Err(ClientError::NodeExists) => {}
            // A user without the right to create nodes there may still have full access to the chroot.
            Err(ClientError::NoAuth) if is_there(&client, path).await.is_ok_and(|found| found) => {}
            Err(error) => return Err(refused(&above, "create", path, error)),
        }
    }
    Ok(())
}

/// Creates a node that any client may use, unless it already exists. Returns whether it was created.
pub(super) async fn ensure(client: &Client, target: &Target, path: &str, data: &[u8]) -> Result<bool, Error> {
    match client.create(path, data, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
        Ok(_) => Ok(true),
        Err(ClientError::NodeExists) => Ok(false),
        Err(error) => Err(refused(target, "create", path, error)),
    }
}

/// Returns whether a node exists once the server has caught up.
pub(super) async fn is_there(client: &Client, path: &str) -> Result<bool, ClientError> {
    Ok(CaughtUp::with(client).await?.stat(path).await?.is_some())
}

pub(super) fn refused(target: &Target, what: &str, path: &str, error: ClientError) -> Error {
    let access = &target.access;
    // Only the chroot can be missing above a top-level path.
    if error == ClientError::NoNode
        && what == "create"
        && path.rfind('/') == Some(0)
        && !target.parts().1.is_empty()
    {
        return missing_chroot(target, CREATE_CHROOT);
    }
    let help = match &error {
        ClientError::NoAuth if !access.has_identity() => {
            ": use --auth, --auth-file or --sasl to pass the identity that owns it"
        }
        ClientError::NoAuth if access.sasl.is_some() => {
            ": the node belongs to an identity other than the one set with --sasl"
        }
        ClientError::NoAuth => ": the node belongs to an identity other than the one set with --auth",
        ClientError::InvalidAcl if access.sasl.is_some() => {
            ": the servers' zoo.cfg needs the line authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        }
        ClientError::NoNode if what == "create" => {
            ": another client deleted the node above it, or the servers are not one ensemble"
        }
        ClientError::Unimplemented => ": locks need ZooKeeper 3.5 or later",
        ClientError::QuotaExceeded => ": raise the quota of the node above it, or use another chroot",
        ClientError::ConnectionLoss => {
            ": the server's log may give the reason, such as a request longer than its jute.maxbuffer"
        }
        _ => "",
    };
    let failure = Failure::from(error);
    Error::environment(format!("cannot {what} {path} on {}: {failure}{help}", target.connect))
}

/// Removes a run's root and all nodes below it. Also removes the top-level node if it is then empty.
async fn remove_run(target: &Target, root: &str, throttle: Option<&Throttle>) -> Result<(), Error> {
    let client = open(target).await?;
    remove_tree(&client, root, throttle).await.map_err(|error| refused(target, "delete", root, error))?;
    remove_root(&client, root).await.map_err(|error| refused(target, "delete", root, error))
}

/// Like [`remove_run`], but with an existing session and without a rate limit.
pub(super) async fn remove_root(client: &Client, root: &str) -> Result<(), ClientError> {
    remove_tree(client, root, None).await?;
    let top = root.rsplit_once('/').map_or(root, |(top, _)| top);
    match client.delete(top, None).await {
        Ok(()) | Err(ClientError::NotEmpty | ClientError::NoNode) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a session for work that is not measured.
pub(super) async fn open(target: &Target) -> Result<Client, Error> {
    open_for(target, SESSION).await
}

pub(super) async fn open_for(target: &Target, session: Duration) -> Result<Client, Error> {
    opened(target, target.client(session), CONNECT_DEADLINE).await
}

/// Waits for a session. The error states the cause.
pub(super) async fn opened(
    target: &Target,
    opening: impl Future<Output = Result<Client, Failure>>,
    within: Duration,
) -> Result<Client, Error> {
    let failed =
        |why: String| Err(Error::environment(format!("cannot open a session to {}: {why}", target.connect)));
    let opened = tokio::select! {
        opened = tokio::time::timeout(within, opening) => opened,
        why = no_tls(target) => return failed(why),
    };
    let why = match opened {
        Ok(Ok(client)) => return Ok(client),
        Ok(Err(failure @ Failure::NotAuthenticated(_))) => return failed(failure.to_string()),
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("no session within {within:?}"),
    };
    failed(reach::with_reasons(&why, target).await)
}

/// Returns why TLS failed, once it has failed with every server; otherwise never returns. The client library
/// alone would retry until its deadline.
async fn no_tls(target: &Target) -> String {
    const PATIENCE: Duration = Duration::from_secs(2);
    tokio::time::sleep(PATIENCE).await;
    match reach::why_no_tls(target).await {
        Some(why) => why,
        None => std::future::pending().await,
    }
}

/// Waits until a request outside the load may be sent.
pub(super) async fn admit(throttle: Option<&Throttle>) {
    if let Some(throttle) = throttle {
        throttle.admit_outside_the_load(1).await;
    }
}

/// Deletes a node and all nodes below it, if they exist.
async fn remove_tree(client: &Client, root: &str, throttle: Option<&Throttle>) -> Result<(), ClientError> {
    loop {
        let now = CaughtUp::with(client).await?;
        let mut levels = vec![vec![root.to_owned()]];
        while let Some(level) = levels.last().filter(|level| !level.is_empty()) {
            let list = async |path: &String| {
                admit(throttle).await;
                children(now, path).await
            };
            let lists = stream::iter(level).map(list).buffer_unordered(AT_ONCE);
            let below = lists.try_concat().await?;
            levels.push(below);
        }
        let grew = AtomicBool::new(false);
        for level in levels.into_iter().rev() {
            let delete = async |path: String| {
                admit(throttle).await;
                match client.delete(&path, None).await {
                    Ok(()) | Err(ClientError::NoNode) => Ok(()),
                    // A child was added after the list was read, so read it again.
                    Err(ClientError::NotEmpty) => {
                        grew.store(true, Ordering::Relaxed);
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            };
            stream::iter(level.into_iter().map(Ok)).try_for_each_concurrent(AT_ONCE, delete).await?;
        }
        if !grew.into_inner() {
            return Ok(());
        }
    }
}

/// Minimum age of the newest node before a run without a sign of life counts as dead.
const QUIET: Duration = Duration::from_secs(600);

/// Reason why a run may still be in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alive {
    Sessions(usize),
    /// The run has created a node recently, and counts as dead after this time.
    Until(SystemTime),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub run_id: String,
    /// Number of nodes, including the run's root.
    pub nodes: usize,
    /// Number of ephemeral nodes; if there are any, a session is alive.
    pub ephemeral: usize,
    /// Creation time of the newest node, by the servers' clock.
    pub newest: SystemTime,
    /// Whether the run has an ephemeral node while it is alive; runs of older versions have none.
    pub shows_life: bool,
    /// Whether the suite created the nodes, judging by the root's data or, for older versions, its children's names.
    pub is_own: bool,
}

impl Leftover {
    fn count(&mut self, stat: &Stat) {
        self.nodes += 1;
        self.ephemeral += usize::from(session_of(stat.ephemeral_owner).is_some());
        let made = Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0));
        self.newest = self.newest.max(SystemTime::UNIX_EPOCH + made);
    }

    /// Adds the nodes of the same run below another top-level node.
    fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.ephemeral += other.ephemeral;
        self.newest = self.newest.max(other.newest);
        self.shows_life &= other.shows_life;
        self.is_own &= other.is_own;
    }

    /// Returns whether the suite created the nodes and its run is over.
    pub fn may_be_removed(&self, now: SystemTime) -> bool {
        self.is_own && self.alive(now).is_none()
    }

    /// Returns the reason why the run may still be in progress; `None` if it is over. A run of an older
    /// version may have no session, and counts as in progress if it created a node in the last 10 minutes.
    pub fn alive(&self, now: SystemTime) -> Option<Alive> {
        if self.ephemeral > 0 {
            return Some(Alive::Sessions(self.ephemeral));
        }
        if self.shows_life {
            return None;
        }
        // If this host's clock is behind the servers', treat the newest node as just created.
        let age = now.duration_since(self.newest).unwrap_or_default();
        (age < QUIET).then(|| Alive::Until(self.newest + QUIET))
    }
}

/// Returns all runs that have nodes on the ensemble.
pub async fn leftovers(target: &Target) -> Result<Vec<Leftover>, Error> {
    let client = first_session(target, SESSION).await?;
    let now = CaughtUp::with(&client).await.map_err(|error| refused(target, "list", TOP, error))?;
    let mut found: Vec<Leftover> = Vec::new();
    for top in [TOP, WORKERS_TOP] {
        let runs = match now.children(top).await {
            Err(ClientError::NoNode) => {
                let chroot = now.stat("/").await.map_err(|error| refused(target, "check", "/", error))?;
                chroot.ok_or_else(|| missing_chroot(target, "check its spelling"))?;
                Vec::new()
            }
            listed => listed.map_err(|error| refused(target, "list", top, error))?,
        };
        for run_id in runs {
            let root = format!("{top}/{run_id}");
            let leftover = survey(now, &root, run_id).await;
            let Some(leftover) = leftover.map_err(|error| refused(target, "list", &root, error))? else {
                continue;
            };
            match found.iter_mut().find(|run| run.run_id == leftover.run_id) {
                Some(same) => same.add(&leftover),
                None => found.push(leftover),
            }
        }
    }
    Ok(found)
}

pub async fn remove(target: &Target, run_id: &str) -> Result<(), Error> {
    for top in [TOP, WORKERS_TOP] {
        remove_run(target, &format!("{top}/{run_id}"), None).await?;
    }
    Ok(())
}

async fn survey(now: CaughtUp<'_>, root: &str, run_id: String) -> Result<Option<Leftover>, ClientError> {
    // Read the data first: a run creates its ephemeral node before it marks its root as alive.
    let data = match now.data(root).await {
        Ok(data) => data,
        Err(ClientError::NoNode) => return Ok(None),
        Err(error) => return Err(error),
    };
    let shows_life = data == SHOWS_LIFE;
    let mut found = Leftover {
        run_id,
        nodes: 0,
        ephemeral: 0,
        newest: SystemTime::UNIX_EPOCH,
        shows_life,
        is_own: false,
    };
    let mut children: Vec<String> = Vec::new();
    walk(now, vec![root.to_owned()], None, |path, stat, level| {
        if level == 1 {
            children.extend(path.rsplit('/').next().map(str::to_owned));
        }
        found.count(stat);
    })
    .await?;
    found.is_own = is_own(&data, &children);
    Ok((found.nodes > 0).then_some(found))
}

/// Returns whether a root with this data and these children was created by the suite. Roots of older versions
/// have no data.
fn is_own(data: &[u8], children: &[String]) -> bool {
    let is_trial = |name: &str| {
        let number = name.strip_prefix('t').unwrap_or_default();
        number.len() >= 3 && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_known = |name: &String| is_trial(name) || [ALIVE, FLOOR, COUNTING].contains(&name.as_str());
    [SHOWS_LIFE, MADE].contains(&data)
        || (data.is_empty() && !children.is_empty() && children.iter().all(is_known))
}

/// Visits nodes and all nodes below them, level by level, if they exist. `each` also receives the level.
pub(super) async fn walk(
    now: CaughtUp<'_>,
    roots: Vec<String>,
    throttle: Option<&Throttle>,
    mut each: impl FnMut(&str, &Stat, usize),
) -> Result<(), ClientError> {
    let visit = async |path: String| {
        admit(throttle).await;
        let stat = now.stat(&path).await?;
        if stat.as_ref().is_none_or(|stat| stat.num_children == 0) {
            return Ok::<_, ClientError>((path, stat, Vec::new()));
        }
        admit(throttle).await;
        let below = children(now, &path).await?;
        Ok((path, stat, below))
    };
    let (mut paths, mut level) = (roots, 0);
    while !paths.is_empty() {
        let mut visited = stream::iter(std::mem::take(&mut paths)).map(visit).buffered(AT_ONCE);
        while let Some((path, stat, below)) = visited.try_next().await? {
            stat.iter().for_each(|stat| each(&path, stat, level));
            paths.extend(below);
        }
        level += 1;
    }
    Ok(())
}

/// Returns the paths of a node's children; empty if the node is gone.
pub(super) async fn children(now: CaughtUp<'_>, path: &str) -> Result<Vec<String>, ClientError> {
    match now.children(path).await {
        Err(ClientError::NoNode) => Ok(Vec::new()),
        listed => Ok(listed?.into_iter().map(|child| format!("{path}/{child}")).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::clock;
    use zklockbench_zk::{Access, Secret};

    /// Stat of a persistent node.
    const STAT: Stat = Stat {
        czxid: 1,
        mzxid: 1,
        pzxid: 1,
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    };

    #[test]
    fn permission_error_contains_the_option_to_set() {
        let message_for = |digest: Option<Secret>| {
            let access = Access { digest, ..Access::default() };
            let target = Target { connect: "zk:1".into(), access };
            refused(&target, "list", "/zklockbench/x", ClientError::NoAuth).to_string()
        };
        let expected = "cannot list /zklockbench/x on zk:1: not authorized: use --auth, --auth-file or --sasl \
                        to pass the identity that owns it";
        assert_eq!(message_for(None), expected);
        let wanted = "an identity other than the one set with --auth";
        assert!(message_for(Some(Secret::from("a:b".to_owned()))).ends_with(wanted));
    }

    #[test]
    fn run_with_a_recent_node_counts_as_alive_for_a_limited_time() {
        let newest = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let left = |ephemeral, shows_life| Leftover {
            run_id: "x".into(),
            nodes: 3,
            ephemeral,
            newest,
            shows_life,
            is_own: true,
        };
        let run = |ephemeral| left(ephemeral, false);
        assert_eq!(left(1, true).alive(newest), Some(Alive::Sessions(1)));
        assert_eq!(left(0, true).alive(newest), None);
        assert_eq!(run(2).alive(newest + 2 * QUIET), Some(Alive::Sessions(2)));
        assert_eq!(run(0).alive(newest + QUIET / 2), Some(Alive::Until(newest + QUIET)));
        assert_eq!(run(0).alive(newest - QUIET), Some(Alive::Until(newest + QUIET)));
        assert_eq!(run(0).alive(newest + QUIET), None);
        assert!(run(0).may_be_removed(newest + QUIET) && !run(0).may_be_removed(newest));
        assert!(!Leftover { is_own: false, ..run(0) }.may_be_removed(newest + QUIET));
    }

    #[test]
    fn container_nodes_do_not_keep_a_run_alive() {
        let alive = |ephemeral_owner| {
            let newest = SystemTime::UNIX_EPOCH;
            let mut left = Leftover {
                run_id: "x".into(),
                nodes: 1,
                ephemeral: 0,
                newest,
                shows_life: true,
                is_own: true,
            };
            left.count(&Stat { ephemeral_owner, ..STAT });
            (left.nodes, left.alive(newest))
        };
        assert_eq!(alive(i64::MIN), (2, None));
        assert_eq!(alive(0x0100_1f2a_3b40_0007), (2, Some(Alive::Sessions(1))));
    }

    #[test]
    fn root_belongs_to_the_suite_only_with_its_data_or_structure() {
        let of = |data: &[u8], children: &[&str]| {
            is_own(data, &children.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert!(of(SHOWS_LIFE, &[]) && of(MADE, &["anything"]));
        assert!(of(b"", &["t000", "t1000", "floor"]));
        assert!(!of(b"", &[]) && !of(b"", &["t000", "config"]) && !of(b"", &["t"]) && !of(b"x", &["t000"]));
    }

    #[test]
    fn missing_chroot_is_distinguished_from_a_deleted_node() {
        let message = |connect: &str, path: &str| {
            let target = Target { connect: connect.into(), access: Access::default() };
            refused(&target, "create", path, ClientError::NoNode).to_string()
        };
        let expected =
            "the chroot /none does not exist on zk:1: create it (`run --create-chroot` does), or omit it";
        assert_eq!(message("zk:1/none", "/zklockbench"), expected);
        let deleted = "another client deleted the node above it, or the servers are not one ensemble";
        assert!(message("zk:1/none", "/zklockbench/x").ends_with(deleted));
        assert!(message("zk:1", "/zklockbench").ends_with(deleted));
    }

    #[test]
    fn error_suggests_the_cause_or_the_remedy() {
        let target = Target { connect: "zk:1".into(), access: Access::default() };
        for (error, advice) in [
            (ClientError::ConnectionLoss, "the reason, such as a request longer than its jute.maxbuffer"),
            (ClientError::Unimplemented, "locks need ZooKeeper 3.5 or later"),
            (ClientError::QuotaExceeded, "raise the quota of the node above it, or use another chroot"),
        ] {
            let message = refused(&target, "create", "/zklockbench", error).to_string();
            assert!(message.ends_with(advice), "{message}");
        }
    }

    #[tokio::test]
    async fn session_for_checks_fails_quickly_if_servers_close_connections() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target =
            Target { connect: listener.local_addr().unwrap().to_string(), access: Access::default() };
        let closing = async {
            while let Ok((connection, _)) = listener.accept().await {
                drop(connection)
            }
        };
        let workspace = Workspace::made_by_another(target, "x");
        let began = clock::now();
        let refused = tokio::select! {
            refused = workspace.session_for_checks(Duration::from_millis(300)) => refused.unwrap_err(),
            () = closing => unreachable!(),
        };
        assert!(clock::now() - began < clock::micros(Duration::from_secs(3)));
        assert!(refused.contains("within 300ms") && refused.contains("(maxClientCnxns): raise"), "{refused}");
    }
}
