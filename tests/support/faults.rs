//! Waits for the effects of faults on an ensemble, and prints their delays.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use zklockbench_core::catalog::fault::{Capability, Ends, FaultCard};
use zklockbench_ensemble::{Leader, Local, Processes, eventually, fault};

/// Time limit for a failover, which takes nearly a second on an idle host and many seconds on a busy host.
pub const WITHIN: Duration = Duration::from_secs(60);

pub fn needs_links(capability: Capability) -> bool {
    matches!(capability, Capability::Isolation | Capability::Links)
}

/// Kinds of faults whose required capability matches `needs`.
pub fn kinds(needs: impl Fn(Capability) -> bool) -> Vec<FaultCard> {
    fault::cards().into_iter().filter(|card| needs(card.needs)).collect()
}

/// Scenario lines with this fault, which starts early and would outlast any test.
pub fn lasting(card: &FaultCard) -> String {
    let duration = if card.ends == Ends::Healed { "duration = \"60s\"\n" } else { "" };
    format!(
        "strategies = [\"curator-mutex\"]\ncontenders = 4\nhold = \"50ms\"\nduration = \"120s\"\nwarm_up = \"0s\"\n\
         session_timeout = \"4s\"\nacquire_timeout = \"90s\"\n[[fault]]\nkind = \"{}\"\nat = \"200ms\"\n{duration}",
        card.name
    )
}

/// Waits until a check succeeds, and prints the delay.
pub async fn until<T, F>(what: &str, look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let since = Instant::now();
    let seen = eventually(WITHIN, look).await.unwrap_or_else(|why| panic!("{what}: {why}"));
    eprintln!("{what}: {:?}", since.elapsed());
    seen
}

/// Waits until every server is in sync and serves clients.
pub async fn whole(local: &Local) {
    until("healthy again", || local.whole()).await;
}

/// Waits until another server has been elected leader.
pub async fn another_leads(local: &Local, than: Leader) -> Leader {
    until("another leader", || async {
        let now = local.leader_and_epoch().await?;
        if now.server != than.server && now.epoch > than.epoch {
            return Ok(now);
        }
        Err(format!("{now:?} after {than:?}"))
    })
    .await
}

pub async fn a_follower(local: &Local) -> usize {
    local.followers().await.unwrap()[0]
}

pub fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Environment variable that is set only in [`Owner`] processes, not in other runs of ignored tests.
const OWNER: &str = "ZKLOCKBENCH_TEST_OWNER";

/// Returns whether this is the process of an [`Owner`].
pub fn is_owner() -> bool {
    std::env::var_os(OWNER).is_some()
}

/// Another process of this test binary. It runs an ignored test that starts an ensemble.
pub struct Owner {
    process: Child,
    /// Words after `owned:` in the output.
    pub told: Vec<String>,
}

impl Owner {
    /// Starts the ignored test with this path, and waits for a line with `owned:`.
    pub fn start(test: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--ignored", "--nocapture"]).env(OWNER, "1");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines.map_while(Result::ok).find_map(|line| {
            line.split_once("owned: ").map(|(_, told)| told.split_whitespace().map(str::to_owned).collect())
        });
        Self { process, told: told.expect("the owner process exited early") }
    }

    /// Kills the process with SIGKILL, which prevents any cleanup.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
