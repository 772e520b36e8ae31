//! Waits for the effects of faults on an ensemble, and prints how long they took.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use zklockbench_ensemble::{Leader, Local, Processes, eventually};

/// Failover takes most of a second on an idle machine, many on a busy one.
pub const WITHIN: Duration = Duration::from_secs(60);

/// Waits until a check succeeds, and prints how long that took.
pub async fn until<T, F>(what: &str, look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let since = Instant::now();
    let seen = eventually(WITHIN, look).await.unwrap_or_else(|why| panic!("{what}: {why}"));
    eprintln!("{what}: {:?}", since.elapsed());
    seen
}

/// Waits until every server serves and is synchronised.
pub async fn whole(local: &Local) {
    until("whole again", || local.whole()).await;
}

/// Waits for a leader on another server, elected later than this one.
pub async fn another_leads(local: &Local, than: Leader) -> Leader {
    until("another leads", || async {
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

/// Variable for the process that must own an ensemble; other runs of ignored tests don't set it.
const OWNER: &str = "ZKLOCKBENCH_TEST_OWNER";

/// Returns whether this process must own an ensemble.
pub fn is_owner() -> bool {
    std::env::var_os(OWNER).is_some()
}

/// Another process of this test binary, which owns an ensemble and runs one of the ignored tests.
pub struct Owner {
    process: Child,
    /// Words of the last line that it printed.
    pub told: Vec<String>,
}

impl Owner {
    /// Runs the ignored test with this path until it prints a line that begins with `owned:`.
    pub fn start(test: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--ignored", "--nocapture"]).env(OWNER, "1");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines.map_while(Result::ok).find_map(|line| {
            line.split_once("owned: ").map(|(_, told)| told.split_whitespace().map(str::to_owned).collect())
        });
        Self { process, told: told.expect("the owner ended early") }
    }

    /// Kills the process, so that none of its own code runs.
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
