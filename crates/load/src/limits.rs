//! Protects a shared ensemble from a run's load: a rate limit on requests, and an alarm that ends the run.
//!
//! Twice a second, probes measure a read and a write on each server, starting before the load. The servers' own
//! metrics are unsuitable, because `srvr` and `mntr` report averages since the server's start.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Client, CreateMode, Stat};

use super::workspace::{self, WORKERS_TOP, refused};
use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_core::units::{listed, number};
use zklockbench_zk::throttle::Throttle;
use zklockbench_zk::{CaughtUp, Target, session_of};

/// Limits on a run's load; none by default.
#[derive(Debug, Clone, Default)]
pub struct LoadLimits {
    pub throttle: Option<Arc<Throttle>>,
    alarm: Option<watch::Receiver<Option<String>>>,
}

/// Running probes; [`Probing::end`] stops them.
#[derive(Debug)]
pub struct Probing {
    stop: CancellationToken,
    task: JoinHandle<()>,
    /// Servers that granted no session when the probes started.
    unwatched: Vec<String>,
}

impl Probing {
    /// Returns a note about servers whose latency is not watched, if there are any.
    pub fn note(&self) -> Option<String> {
        let servers = listed(&self.unwatched);
        (!self.unwatched.is_empty()).then(|| {
            format!(
                "the latency of {servers} is not watched until a session can be opened there; no session was \
                 granted within {WITHIN:?}"
            )
        })
    }

    /// Ends the probes and removes their nodes.
    pub async fn end(self) {
        self.stop.cancel();
        // The probes' own deadlines limit this wait.
        let _ = self.task.await;
    }
}

impl LoadLimits {
    pub fn at_most(per_s: Option<f64>) -> Self {
        Self { throttle: per_s.map(Throttle::at_most), alarm: None }
    }

    /// Starts probing the servers before there is any load.
    pub async fn watching(
        mut self,
        target: &Target,
        servers: &[String],
        stop_if_slower: Option<f64>,
    ) -> Result<(Self, Option<Probing>), Error> {
        if stop_if_slower.is_none() && self.throttle.is_none() {
            return Ok((self, None));
        }
        let mut probes = Probes::on(target, servers).await?;
        let unwatched = probes.silent();
        let usual = probes.usual().await;
        let thresholds = Thresholds { usual, stop_if_slower, throttle: self.throttle.clone() };
        let (sender, receiver) = watch::channel(None);
        self.alarm = Some(receiver);
        let stop = CancellationToken::new();
        let until = stop.clone();
        let task = tokio::spawn(async move {
            until.run_until_cancelled(probes.watch(thresholds, sender)).await;
            probes.close().await;
        });
        Ok((self, Some(Probing { stop, task, unwatched })))
    }

    /// Waits until the load must end, and returns the reason.
    pub async fn alarm(&self) -> String {
        if let Some(mut alarm) = self.alarm.clone()
            && let Ok(raised) = alarm.wait_for(Option::is_some).await
            && let Some(why) = raised.clone()
        {
            return why;
        }
        std::future::pending().await
    }
}

const EVERY: Duration = Duration::from_millis(500);
/// Number of rounds before the load that determine the usual latency.
const BEFORE: usize = 10;
const BETWEEN_BEFORE: Duration = Duration::from_millis(50);
/// Number of rounds in a median, so that one slow answer does not end the run.
const ROUNDS: usize = 6;
/// Minimum rise in latency, because a hiccup alone can multiply a latency of one millisecond.
const RISE_AT_LEAST: Duration = Duration::from_millis(10);
/// Time limit for an answer; slower answers count as this long.
const WITHIN: Duration = Duration::from_secs(5);
/// Number of rounds over which the request rate is averaged, and the multiple of the limit that the average may
/// reach.
const RATE_ROUNDS: usize = 20;
const EXCESS: f64 = 1.5;

struct Thresholds {
    usual: Duration,
    stop_if_slower: Option<f64>,
    throttle: Option<Arc<Throttle>>,
}

/// Probes of all servers. Their nodes are outside the locks' top-level node, so that servers count their requests
/// separately.
struct Probes {
    servers: Vec<Probe>,
}

struct Probe {
    target: Target,
    /// Path of the probe's node, which disappears with the session.
    path: String,
    client: Option<Client>,
}

impl Probe {
    async fn open(&self) -> Result<Client, Error> {
        let client = workspace::open(&self.target).await?;
        workspace::ensure(&client, &self.target, WORKERS_TOP, &[]).await?;
        let ephemeral = CreateMode::Ephemeral.with_acls(workspace::own_acls(&self.target));
        let made = client.create(&self.path, &[], &ephemeral).await;
        made.map_err(|error| refused(&self.target, "create", &self.path, error))?;
        Ok(client)
    }

    /// Tries to open a session if there is none.
    async fn reopen(&mut self, within: Duration) {
        if self.client.is_none() {
            self.client = tokio::time::timeout(within, self.open()).await.ok().and_then(Result::ok);
        }
    }

    /// Times a read and a write. Returns `None` if there is no session, or after an error.
    async fn time(&mut self) -> Option<Duration> {
        let client = self.client.as_ref()?;
        let begun = clock::now();
        let answered = tokio::time::timeout(WITHIN, async {
            client.get_data(&self.path).await?;
            client.set_data(&self.path, &[], None).await
        });
        let answered = answered.await;
        let took = Duration::from_micros(clock::now().saturating_sub(begun));
        if matches!(answered, Ok(Err(_))) {
            self.client = None;
            return None;
        }
        Some(took)
    }
}

impl Probes {
    /// Opens a session on each server. One session suffices, because an ensemble can serve with some servers down.
    async fn on(target: &Target, servers: &[String]) -> Result<Self, Error> {
        let run: u64 = rand::random();
        let mut probes: Vec<Probe> = (servers.iter().enumerate())
            .map(|(number, address)| Probe {
                target: target.on(address),
                path: format!("{WORKERS_TOP}/probe-{run:016x}-{number}"),
                client: None,
            })
            .collect();
        join_all(probes.iter_mut().map(|probe| probe.reopen(WITHIN))).await;
        if probes.iter().all(|probe| probe.client.is_none())
            && let Some(first) = probes.first_mut()
        {
            // This attempt is slower, but its error states the cause. The first attempt may have left its node.
            first.path += "-again";
            first.client = Some(first.open().await?);
        }
        Ok(Self { servers: probes })
    }

    /// Returns the servers without a session.
    fn silent(&self) -> Vec<String> {
        let silent = self.servers.iter().filter(|probe| probe.client.is_none());
        silent.map(|probe| probe.target.connect.clone()).collect()
    }

    /// Returns the median latency of several rounds.
    async fn usual(&mut self) -> Duration {
        let mut rounds = Vec::new();
        for _ in 0..BEFORE {
            rounds.extend(self.round().await);
            tokio::time::sleep(BETWEEN_BEFORE).await;
        }
        median(&rounds).unwrap_or(WITHIN)
    }

    /// Returns the latency of the slowest server that answered.
    async fn round(&mut self) -> Option<Duration> {
        join_all(self.servers.iter_mut().map(Probe::time)).await.into_iter().flatten().max()
    }

    async fn close(self) {
        for probe in self.servers {
            let Some(client) = probe.client else { continue };
            let removed = async {
                let _ = client.delete(&probe.path, None).await;
                // Other runs may still use the node.
                let _ = client.delete(WORKERS_TOP, None).await;
            };
            let _ = tokio::time::timeout(WITHIN, removed).await;
        }
    }

    async fn watch(&mut self, thresholds: Thresholds, alarm: watch::Sender<Option<String>>) {
        let (mut times, mut sent) = (VecDeque::new(), VecDeque::new());
        loop {
            tokio::time::sleep(EVERY).await;
            // Reopening delays the other servers' probes, so limit it to the time between two rounds.
            join_all(self.servers.iter_mut().map(|probe| probe.reopen(EVERY))).await;
            times.extend(self.round().await);
            sent.push_back((
                clock::now(),
                thresholds.throttle.as_ref().map_or(0, |throttle| throttle.sent()),
            ));
            times.drain(..times.len().saturating_sub(ROUNDS));
            sent.drain(..sent.len().saturating_sub(RATE_ROUNDS));
            let slower = if times.len() < ROUNDS { None } else { thresholds.slower(times.make_contiguous()) };
            if let Some(why) = slower.or_else(|| thresholds.exceeded(sent.make_contiguous())) {
                alarm.send_replace(Some(why));
                // The alarm stays raised.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Thresholds {
    fn slower(&self, times: &[Duration]) -> Option<String> {
        let (factor, now) = (self.stop_if_slower?, median(times)?);
        let limit = self.usual.mul_f64(factor).max(self.usual + RISE_AT_LEAST);
        let ms = |time: Duration| number(time.as_secs_f64() * 1e3);
        (now > limit).then(|| {
            format!(
                "the servers' latency rose to more than {} times its usual level, from {} to {} ms (--stop-if-latency)",
                number(factor),
                ms(self.usual),
                ms(now)
            )
        })
    }

    fn exceeded(&self, sent: &[(u64, u64)]) -> Option<String> {
        let at_most = self.throttle.as_ref()?.per_s();
        let ((began, before), (ended, after)) = (sent.first()?, sent.last()?);
        let rate = (after - before) as f64 * 1e6 / ended.saturating_sub(*began).max(1) as f64;
        (sent.len() >= RATE_ROUNDS && rate > EXCESS * at_most).then(|| {
            format!(
                "the load sends {rate:.0} requests/s, more than the limit of {}/s, and requests of waiting contenders \
                 cannot be delayed: use fewer contenders, or raise --at-most",
                number(at_most)
            )
        })
    }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Time limit for reading the configuration; a server without a quorum does not answer.
const CONFIGURATION_WITHIN: Duration = Duration::from_secs(2);

/// Returns the number of servers in the ensemble's own configuration; `None` if it cannot be read.
pub async fn configured_servers(target: &Target) -> Option<usize> {
    let whole = Target { connect: target.parts().0.to_owned(), access: target.access.clone() };
    let reading = async { workspace::open(&whole).await.ok()?.get_data("/zookeeper/config").await.ok() };
    let (config, _) = tokio::time::timeout(CONFIGURATION_WITHIN, reading).await.ok()??;
    let servers = String::from_utf8_lossy(&config).lines().filter(|line| line.starts_with("server.")).count();
    Some(servers).filter(|servers| *servers > 0)
}

const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// Returns the number of sessions of a run's workers; 0 if they cannot be read.
pub async fn sessions_of_workers(target: &Target, run_id: &str) -> usize {
    let Ok(client) = workspace::open(target).await else { return 0 };
    let Ok(now) = CaughtUp::with(&client).await else { return 0 };
    let mut owners = BTreeSet::new();
    for top in [workspace::TOP, WORKERS_TOP] {
        let note = |_: &str, stat: &Stat, _| {
            owners.extend(session_of(stat.ephemeral_owner));
        };
        // Sessions that cannot be read count as other clients' sessions, so the load may be limited unnecessarily.
        let _ = workspace::walk(now, vec![format!("{top}/{run_id}")], None, note).await;
    }
    // An open session would be counted as another client's.
    zklockbench_zk::close(client, CLOSED_WITHIN).await;
    owners.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn thresholds(usual: Duration) -> Thresholds {
        Thresholds { usual, stop_if_slower: Some(3.0), throttle: Some(Throttle::at_most(200.0)) }
    }

    #[test]
    fn latency_alarm_is_raised_by_the_median_of_several_probes() {
        let of = |usual: Duration, times: [u32; 6]| thresholds(usual).slower(&times.map(|ms| ms * MS));
        assert_eq!(of(4 * MS, [4, 5, 4, 12, 9, 8]), None);
        assert_eq!(of(4 * MS, [4, 5, 4, 5, 4, 900]), None, "one slow answer does not end a run");
        let why = of(4 * MS, [19, 19, 19, 19, 4, 4]).unwrap();
        assert!(why.contains("3 times") && why.contains("from 4 to 19 ms"), "{why}");
        assert_eq!(of(MS / 2, [10; 6]), None, "a rise of less than 10 ms does not count");
        assert!(of(MS / 2, [11; 6]).is_some());
    }

    #[test]
    fn rate_alarm_is_raised_when_requests_exceed_the_limit_for_ten_seconds() {
        let sent = |per_round: u64, rounds: u64| {
            let all: Vec<_> = (0..rounds).map(|round| (round * 500_000, round * per_round)).collect();
            thresholds(MS).exceeded(&all)
        };
        assert_eq!(sent(149, 20), None);
        assert_eq!(sent(900, 19), None);
        assert!(sent(900, 20).unwrap().contains("1800 requests/s"), "{:?}", sent(900, 20));
    }

    #[tokio::test]
    async fn no_alarm_is_raised_without_probes() {
        let limits = LoadLimits::at_most(None);
        assert!(tokio::time::timeout(10 * MS, limits.alarm()).await.is_err());
    }
}
