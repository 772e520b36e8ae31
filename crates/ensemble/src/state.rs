//! Checks that prove that a fault took effect or ended. Also determines server states, ensemble health and the
//! leader.

use std::future::Future;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use zklockbench_core::units::counted;
use zklockbench_zk::admin::{self, Mntr, Srvr};

/// Human-readable observation, or the reason why the fact is false or could not be checked.
pub type Fact = Result<String, String>;

/// `Ok`, or the reason why an action failed.
pub type Done = Result<(), String>;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Repeats a check until it succeeds. Fails with the last reason when the time is up.
pub async fn eventually<T, F>(within: Duration, mut look: impl FnMut() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + within;
    loop {
        match look().await {
            Ok(seen) => return Ok(seen),
            Err(why) if Instant::now() >= deadline => return Err(format!("not within {within:?}: {why}")),
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

const LOOK_WHETHER_WHOLE_EVERY: Duration = Duration::from_millis(50);

/// State of one server in its ensemble, as the server reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `host:port`.
    pub address: String,
    /// `leader`, `follower`, `observer` or `standalone`, or the reason why the state is unknown.
    pub state: Result<String, String>,
    pub version: Option<String>,
    /// Number of synchronised followers, which only a leader reports.
    pub synced_followers: Option<i64>,
    /// Epoch of the last transaction; set only for a server that does not allow `mntr`.
    epoch: Option<u64>,
    /// Whether the server allows neither `mntr` nor `srvr`.
    is_refused: bool,
}

impl Role {
    /// Queries a server with `mntr`, or with `srvr` if the server does not allow `mntr`.
    pub async fn ask(address: &str) -> Self {
        let answer = admin::mntr(address).await;
        if !answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            return Self::of(address, answer);
        }
        match admin::srvr(address, PATIENCE).await {
            Ok(Some(srvr)) => {
                let epoch = Some(srvr.epoch());
                let Srvr { mode, version, .. } = srvr;
                Self { state: Ok(mode), version, epoch, ..Self::unknown(address, String::new()) }
            }
            // There is no quorum, e.g. during an election.
            Ok(None) => {
                Self::unknown(address, "up, but not serving (no quorum yet, or leaderServes=no)".into())
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Self { is_refused: true, ..Self::of(address, answer) }
            }
            Err(error) => Self::unknown(address, error.to_string()),
        }
    }

    fn unknown(address: &str, why: String) -> Self {
        let address = address.to_owned();
        Self {
            address,
            state: Err(why),
            version: None,
            synced_followers: None,
            epoch: None,
            is_refused: false,
        }
    }

    fn of(address: &str, answer: std::io::Result<Mntr>) -> Self {
        match answer {
            Ok(mntr) => Self {
                state: Ok(mntr.state().unwrap_or("unknown").to_owned()),
                version: mntr.version().map(str::to_owned),
                synced_followers: mntr.synced_followers(),
                ..Self::unknown(address, String::new())
            },
            Err(error) => Self::unknown(address, error.to_string()),
        }
    }

    /// Returns whether the server reports its role but hides its counters, because it does not allow `mntr`.
    pub fn hides_counters(&self) -> bool {
        self.epoch.is_some()
    }

    /// Returns whether the server did not answer or does not serve.
    pub fn is_down(&self) -> bool {
        self.state.is_err() && !self.is_refused
    }

    pub fn is(&self, state: &str) -> bool {
        self.state.as_deref() == Ok(state)
    }

    /// Returns the state, or `not known (why)`.
    pub fn describe(&self) -> String {
        self.state.clone().unwrap_or_else(|why| format!("not known ({why})"))
    }
}

/// Returns the server with this number; servers are numbered from 1.
pub fn numbered<T>(servers: &[T], number: usize) -> Result<&T, String> {
    number
        .checked_sub(1)
        .and_then(|index| servers.get(index))
        .ok_or_else(|| format!("there is no server {number}: servers are numbered 1 to {}", servers.len()))
}

pub async fn roles(addresses: &[String]) -> Vec<Role> {
    join_all(addresses.iter().map(|address| Role::ask(address))).await
}

pub fn described(roles: &[Role]) -> String {
    let states = roles.iter().map(|role| format!("{}: {}", role.address, role.describe()));
    states.collect::<Vec<_>>().join("; ")
}

/// Returns the numbers of the voting servers: all except those that report being observers.
pub fn voters(roles: &[Role]) -> Vec<usize> {
    (1..).zip(roles).filter(|(_, role)| !role.is("observer")).map(|(number, _)| number).collect()
}

/// Returns whether an error proves that no server is at the address: the connection was refused or the name
/// does not exist. A DNS server that does not answer proves nothing.
pub fn is_gone(error: &std::io::Error) -> bool {
    let said = error.to_string();
    let is_passing = ["Temporary failure", "Try again"].iter().any(|passing| said.contains(passing));
    let is_unknown = said.starts_with("failed to lookup address") && !is_passing;
    error.kind() == ErrorKind::ConnectionRefused || is_unknown
}

pub fn is_whole(roles: &[Role]) -> bool {
    if let [alone] = roles {
        // With `standaloneEnabled=false`, a single server leads itself. Without `mntr`, its followers are unknown.
        let follows_none = alone.synced_followers == Some(0) || alone.hides_counters();
        return alone.is("standalone") || (alone.is("leader") && follows_none);
    }
    let [followers, observers] =
        ["follower", "observer"].map(|state| roles.iter().filter(|role| role.is(state)).count());
    let mut leaders = roles.iter().filter(|role| role.is("leader"));
    let (leader, second) = (leaders.next(), leaders.next());
    let Some(leader) = leader else { return false };
    let are_in_step = match (leader.synced_followers, leader.epoch) {
        (Some(in_step), _) => usize::try_from(in_step) == Ok(followers),
        // A follower serves only once it is synchronised with a leader. A later epoch means another leader.
        (None, Some(epoch)) => roles.iter().all(|role| role.epoch.is_none_or(|own| own <= epoch)),
        (None, None) => false,
    };
    second.is_none() && followers + observers + 1 == roles.len() && are_in_step
}

/// Returns the reason why these running servers can never form an ensemble; `None` if they can.
fn never_whole(roles: &[Role]) -> Option<String> {
    if let Some(refused) = roles.iter().find(|role| role.is_refused) {
        return Some(format!("{}: {}", refused.address, refused.describe()));
    }
    are_alone(roles, roles.len())
}

/// Returns the reason why the servers that answer are not one ensemble; `None` if they may be.
pub fn not_one_ensemble(roles: &[Role]) -> Option<String> {
    let answering = roles.iter().filter(|role| role.state.is_ok()).count();
    let leaders = roles.iter().filter(|role| role.is("leader")).count();
    let several = || {
        format!("the servers are not one ensemble, because {leaders} of {answering} report being the leader")
    };
    are_alone(roles, answering).or_else(|| (leaders > 1).then(several))
}

/// Explains why these servers are not an ensemble, if some of them run alone. `of` is the total number of servers.
fn are_alone(roles: &[Role], of: usize) -> Option<String> {
    let alone = roles.iter().filter(|role| role.is("standalone")).count();
    (alone > 0 && of > 1).then(|| {
        format!(
            "the servers are not an ensemble, because {alone} of {of} run alone: list all of them in each \
             server's configuration (server.N; in containers, ZOO_SERVERS)"
        )
    })
}

/// Waits until the ensemble is healthy. After each check, calls `broken` with the servers' states, which may end the
/// wait.
pub async fn become_whole(
    addresses: &[String],
    deadline: Instant,
    mut broken: impl FnMut(&[Role]) -> Option<String>,
) -> Result<(), String> {
    loop {
        let now = roles(addresses).await;
        if is_whole(&now) {
            return Ok(());
        }
        if let Some(why) = broken(&now).or_else(|| never_whole(&now)) {
            return Err(why);
        }
        if Instant::now() >= deadline {
            return Err(format!("not ready in time ({})", described(&now)));
        }
        tokio::time::sleep(LOOK_WHETHER_WHOLE_EVERY).await;
    }
}

/// Timeout for an answer from a server that may be down or paused.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Time without an answer after which a server counts as silent. A running server answers in 1 or 2 ms.
const SILENCE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// Server number, from 1.
    pub number: usize,
    /// `host:port` for clients.
    pub address: String,
}

/// Checks that a server's port is open and that the server does not answer. A busy machine can look the same.
pub async fn answers_nothing(number: usize, address: &str) -> Fact {
    match admin::ruok(address, SILENCE).await {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Ok(format!("{address} is open and did not answer within {SILENCE:?}"))
        }
        Err(error) => Err(format!("server {number} failed instead of staying silent: {error}")),
        Ok(()) => Err(format!("server {number} answers")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    pub server: usize,
    /// Epoch, which grows with each election. A later epoch proves that an election took place.
    pub epoch: u64,
    pub synced_followers: usize,
}

impl Leader {
    /// Determines whether a server leads, with a timeout of `patience` per answer. Returns `None` for a leader
    /// of `epoch` or earlier without sending `mntr`, which would cost the leader a millisecond of processor time.
    /// If the leader does not allow `mntr`, counts the followers among `all` servers.
    pub async fn elected_after(
        epoch: Option<u64>,
        server: usize,
        address: &str,
        all: &[String],
        patience: Duration,
    ) -> Option<Self> {
        let srvr = admin::srvr(address, patience).await.ok()??;
        if epoch.is_some_and(|known| srvr.epoch() <= known) {
            return None;
        }
        let synced_followers = match srvr.mode.as_str() {
            "standalone" => 0,
            "leader" => match tokio::time::timeout(patience, admin::mntr(address)).await.ok()? {
                Ok(mntr) => usize::try_from(mntr.synced_followers()?).ok()?,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    followers_of(srvr.epoch(), all, patience).await
                }
                Err(_) => return None,
            },
            _ => return None,
        };
        Some(Self { server, epoch: srvr.epoch(), synced_followers })
    }

    /// Returns whether the leader and its synchronised followers are a majority of `servers`.
    pub fn is_backed(&self, servers: usize) -> bool {
        self.synced_followers + 1 >= quorum(servers)
    }
}

/// Returns the number of servers that report being followers, except those with a later epoch.
async fn followers_of(epoch: u64, all: &[String], patience: Duration) -> usize {
    let answers = join_all(all.iter().map(|address| admin::srvr(address, patience))).await;
    let told = answers.into_iter().filter_map(|answer| answer.ok().flatten());
    told.filter(|srvr| srvr.mode == "follower" && srvr.epoch() <= epoch).count()
}

/// Selects the actual leader among servers that claim to lead.
pub fn choose(told: &[Leader], servers: usize) -> Result<Leader, String> {
    let backed = told.iter().filter(|leader| leader.is_backed(servers));
    backed.max_by_key(|leader| leader.epoch).copied().ok_or_else(|| match told {
        [] => "no server reports being the leader".to_owned(),
        [told, ..] => format!(
            "server {} reports being the leader, but only {} synchronised with it",
            told.server,
            counted(told.synced_followers, "follower is", "followers are")
        ),
    })
}

fn quorum(servers: usize) -> usize {
    servers / 2 + 1
}

/// Returns the numbers of a majority of these servers, chosen by the seed.
pub fn majority(mut numbers: Vec<usize>, seed: u64) -> Vec<usize> {
    let size = quorum(numbers.len());
    let (drawn, _) = numbers.partial_shuffle(&mut ChaCha8Rng::seed_from_u64(seed), size);
    drawn.sort_unstable();
    drawn.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn eventually_repeats_a_failing_check_and_returns_the_last_error() {
        let mut looks = 0;
        let third = eventually(Duration::from_secs(60), || {
            looks += 1;
            let seen = if looks < 3 { Err("not yet".to_owned()) } else { Ok(looks) };
            async { seen }
        });
        assert_eq!(third.await, Ok(3));
        let never: Fact =
            eventually(Duration::from_millis(50), || async { Err("still down".to_owned()) }).await;
        assert_eq!(never, Err("not within 50ms: still down".into()));
    }

    #[tokio::test]
    async fn server_without_mntr_is_queried_with_srvr() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = async {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                let answer = match &word {
                    b"srvr" => {
                        "Zookeeper version: 3.9.4-7246, built on 2025-08-19\nZxid: 0x5\nMode: follower\n"
                    }
                    _ => "mntr is not executed because it is not in the whitelist.\n",
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let roles = tokio::select! {
            roles = roles(std::slice::from_ref(&address)) => roles,
            () = serving => Vec::new(),
        };
        let follower =
            Role { address, version: Some("3.9.4".into()), epoch: Some(0), ..role("follower", None) };
        assert_eq!(roles, [follower]);
    }

    fn role(state: &str, synced_followers: Option<i64>) -> Role {
        Role {
            address: String::new(),
            state: Ok(state.into()),
            version: None,
            synced_followers,
            epoch: None,
            is_refused: false,
        }
    }

    /// Parses servers such as `leader 2` (with two synchronised followers), `leader @5` (of epoch 5, without
    /// `mntr`) and `silent`.
    fn servers(text: &str) -> Vec<Role> {
        let server = |server: &str| {
            let (state, rest) = server.split_once(' ').unwrap_or((server, ""));
            let silent = || Err("refused".to_owned());
            let epoch = rest.strip_prefix('@').map(|epoch| epoch.parse().unwrap());
            let role = Role { epoch, ..role(state, rest.parse().ok()) };
            if state == "silent" { Role { state: silent(), ..role } } else { role }
        };
        text.split(", ").map(server).collect()
    }

    #[test]
    fn ensemble_is_healthy_with_one_leader_and_synchronised_followers() {
        for (text, is_healthy) in [
            ("follower, leader 2, follower", true),
            ("follower, follower, follower", false),
            ("follower, leader 2, leader 2", false),
            ("follower, leader 1, follower", false),
            ("follower, leader 2, silent", false),
            ("leader 1, follower, observer", true),
            ("leader 2, follower, observer", false),
            ("follower, follower, observer", false),
            // Without `mntr`, there must be one leader of the latest epoch.
            ("follower @5, leader @5, follower @5", true),
            // No transaction was written since the election.
            ("follower @4, leader @5, observer @4", true),
            // Some servers allow `mntr`.
            ("follower, leader @5, follower @5", true),
            ("follower @5, leader 2, follower @5", true),
            ("follower @5, leader 1, follower @5", false),
            ("follower @5, leader @5, leader @4", false),
            ("follower @5, leader @5, follower @6", false),
            ("follower @5, leader @5, silent", false),
            ("follower @5, leader @5, standalone @5", false),
            ("follower @5, follower @5, follower @5", false),
            ("standalone", true),
            ("leader 0", true),
            ("leader @1", true),
            ("follower @1", false),
            // The followers are missing from the list.
            ("leader 2", false),
            ("follower", false),
        ] {
            assert_eq!(is_whole(&servers(text)), is_healthy, "{text}");
        }
    }

    #[test]
    fn start_fails_immediately_when_servers_cannot_form_an_ensemble() {
        let refused =
            Role { is_refused: true, state: Err("`mntr` is not allowed there".into()), ..role("", None) };
        assert!(never_whole(&[role("leader", Some(1)), refused]).unwrap().contains("not allowed"));
        let alone = servers("standalone, standalone, follower");
        assert!(never_whole(&alone).unwrap().contains("2 of 3 run alone"));
        assert_eq!(never_whole(&servers("standalone")), None);
        assert_eq!(never_whole(&servers("follower, follower")), None);
    }

    #[test]
    fn servers_with_two_leaders_or_a_standalone_server_are_not_one_ensemble() {
        let why = not_one_ensemble(&servers("leader 1, follower, leader 1")).unwrap();
        assert!(why.contains("2 of 3 report being the leader"), "{why}");
        let why = not_one_ensemble(&servers("leader 1, standalone")).unwrap();
        assert!(why.contains("1 of 2 run alone"), "{why}");
        for may_be in ["leader 1, follower", "follower", "standalone, silent"] {
            assert_eq!(not_one_ensemble(&servers(may_be)), None, "{may_be}");
        }
    }

    #[tokio::test]
    async fn unresolvable_server_counts_as_gone_unless_the_dns_failure_is_temporary() {
        let unknown = tokio::net::TcpStream::connect("no..where:1").await.unwrap_err();
        assert!(is_gone(&unknown), "{unknown}");
        let temporary = "failed to lookup address information: Temporary failure in name resolution";
        assert!(!is_gone(&std::io::Error::other(temporary)));
        assert!(!is_gone(&ErrorKind::TimedOut.into()));
        assert!(is_gone(&ErrorKind::ConnectionRefused.into()));
    }

    fn leader(server: usize, epoch: u64, synced_followers: usize) -> Leader {
        Leader { server, epoch, synced_followers }
    }

    #[test]
    fn leader_with_the_later_epoch_is_chosen() {
        let (old, new) = (leader(1, 4, 2), leader(2, 5, 1));
        assert_eq!(choose(&[old, new], 3), Ok(new));
        assert_eq!(choose(&[new, old], 3), Ok(new));
    }

    #[test]
    fn leader_without_a_synchronised_majority_is_not_chosen() {
        let (old, new) = (leader(1, 4, 2), leader(2, 5, 1));
        assert_eq!(choose(&[old, new], 5), Ok(old));
        assert!(choose(&[new], 5).unwrap_err().contains("only 1 follower is synchronised"));
        assert!(choose(&[], 3).is_err());
        assert_eq!(choose(&[leader(1, 0, 0)], 1), Ok(leader(1, 0, 0)));
    }

    #[test]
    fn majority_depends_on_the_seed_and_can_include_any_server() {
        for (servers, size) in [(1, 1), (3, 2), (5, 3)] {
            let majority = |seed| majority((1..=servers).collect(), seed);
            let drawn: Vec<Vec<usize>> = (0..50).map(majority).collect();
            assert!(drawn.iter().all(|drawn| drawn.len() == size));
            assert!((1..=servers).all(|server| drawn.iter().any(|drawn| drawn.contains(&server))));
            assert_eq!(majority(7), drawn[7]);
        }
    }
}
