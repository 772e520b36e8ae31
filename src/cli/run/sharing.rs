//! Limits on the load of a shared ensemble and on the number of connections.

use std::process::Command;

use futures_util::future::join_all;

use super::open_ensemble::OpenEnsemble;
use crate::cli::output;
use crate::cli::shared_args::{AT_MOST_VARIABLE, LATENCY_VARIABLE, SATURATION_VARIABLE, SharingArgs};
use crate::cli::worker::WorkerPlace;
use zklockbench_core::error::Error;
use zklockbench_core::units::{contenders, counted, format_duration, number};
use zklockbench_ensemble::other_clients;
use zklockbench_load::{configured_servers, sessions_of_workers};
use zklockbench_record::{LIMITED, OTHERS};
use zklockbench_scenario::{Slice, TrialPlan, TrialSpec};
use zklockbench_zk::{admin, reach};

const AT_MOST: f64 = 200.0;
const SLOWER: f64 = 3.0;

/// Limits on a run's load.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sharing {
    /// Number of other clients' connections, or why it is unknown; `None` for a local ensemble.
    pub others: Option<Result<u64, String>>,
    /// Maximum rate, in requests per second.
    pub at_most: Option<f64>,
    /// Slowdown at which the run ends, as a multiple of the latency before the run.
    pub stop_if_slower: Option<f64>,
}

impl Sharing {
    /// Counts the other clients of an external ensemble. Must be called before this process opens its own sessions.
    /// Returns no limits for workers other than worker 0.
    pub async fn of(opened: &OpenEnsemble, args: &SharingArgs, worker: Option<&WorkerPlace>) -> Self {
        if worker.is_some_and(|worker| !worker.slice.leads()) {
            return Self::default();
        }
        if !opened.is_external() {
            return Self::decide(args, None);
        }
        let target = &opened.target;
        let workers = async || match worker {
            Some(worker) => sessions_of_workers(target, &worker.run_id).await as u64,
            None => 0,
        };
        let mut others = without_workers(workers, async || other_clients(&opened.addresses).await).await;
        if others == Ok(0) {
            let named = opened.addresses.len();
            let all = configured_servers(target).await.unwrap_or(named);
            if all > named {
                others = Err(format!("{} lists {named} of {all} servers", target.connect));
            }
        }
        Self::decide(args, Some(others))
    }

    fn decide(args: &SharingArgs, others: Option<Result<u64, String>>) -> Self {
        let is_shared = !matches!(others, None | Some(Ok(0)));
        let is_limited = is_shared && !args.allow_saturation;
        Self {
            others,
            at_most: args.at_most.or(is_limited.then_some(AT_MOST)),
            stop_if_slower: args.stop_if_latency.or(is_limited.then_some(SLOWER)),
        }
    }

    /// Rejects open loads that would exceed the maximum rate, because throttled arrivals would count as late.
    fn check(&self, plan: &TrialPlan) -> Result<(), Error> {
        let Some(at_most) = self.at_most else { return Ok(()) };
        let open = plan.trials.iter().filter(|trial| trial.load.open().is_some());
        let most = open.map(|trial| trial.estimated_requests_per_s()).fold(0.0, f64::max);
        refuse_if!(
            most > at_most,
            "the arrivals need about {most:.0} requests/s, but the limit is {} requests/s{}: lower `rate` or raise \
             --at-most",
            number(at_most),
            self.reason()
        );
        Ok(())
    }

    fn reason(&self) -> String {
        match &self.others {
            Some(Ok(count)) if *count > 0 => {
                format!(" ({} of other clients)", counted(*count, "connection", "connections"))
            }
            Some(Err(why)) => format!(" (other clients unknown: {why})"),
            _ => String::new(),
        }
    }

    /// Returns the limits of the load on one line; `None` if the load is unlimited.
    pub fn note(&self) -> Option<String> {
        let stop =
            self.stop_if_slower.map(|factor| format!("; the run ends if latency rises {}x", number(factor)));
        let reason = self.reason();
        let Some(at_most) = self.at_most else { return Some(format!("load unlimited{reason}{}", stop?)) };
        Some(format!(
            "load limited to {} requests/s{reason}{} (--at-most raises the limit, --allow-saturation removes it)",
            number(at_most),
            stop.unwrap_or_default()
        ))
    }

    /// Returns the limits as facts for the run's record.
    pub fn facts(&self) -> Vec<(String, String)> {
        let others = self.others.as_ref().map(|others| match others {
            Ok(count) => count.to_string(),
            Err(why) => format!("not known ({why})"),
        });
        let at_most = self.at_most.map(|per_s| format!("{} requests/s", number(per_s)));
        let facts = [(OTHERS, others), (LIMITED, at_most)];
        facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// Passes the limits to one run of a series as environment variables, which older binaries ignore.
    pub fn pass_on(&self, command: &mut Command) {
        match self.at_most {
            Some(per_s) => {
                command.env(AT_MOST_VARIABLE, format!("{per_s}/s")).env_remove(SATURATION_VARIABLE)
            }
            None => command.env(SATURATION_VARIABLE, "1").env_remove(AT_MOST_VARIABLE),
        };
        if let Some(factor) = self.stop_if_slower {
            command.env(LATENCY_VARIABLE, format!("{factor}x"));
        }
    }
}

/// Maximum number of recounts if workers join or leave during the count.
const RECOUNTS: usize = 5;

/// Counts the clients without the run's workers. Workers that join during the last recount may count as other clients,
/// so the load may be limited unnecessarily.
async fn without_workers(
    workers: impl AsyncFn() -> u64,
    clients: impl AsyncFn() -> Result<u64, String>,
) -> Result<u64, String> {
    let (mut before, mut recounts) = (workers().await, 0..RECOUNTS);
    loop {
        let all = clients().await?;
        let after = workers().await;
        if before == after || recounts.next().is_none() {
            return Ok(all.saturating_sub(before.min(after)));
        }
        before = after;
    }
}

type Configuration = Vec<(String, String)>;

/// Warns if the granted session timeout differs from the requested one, and rejects trials with more requests
/// or connections than the servers accept.
pub async fn check(
    opened: &OpenEnsemble,
    sharing: &Sharing,
    plan: &TrialPlan,
    slice: Slice,
) -> Result<(), Error> {
    sharing.check(plan)?;
    if opened.is_ours() {
        return Ok(());
    }
    let asked = plan.scenario.session_timeout;
    let granted = opened.granted_timeout(asked).await?;
    let told = join_all(opened.addresses.iter().map(|address| admin::conf(address))).await;
    let configurations: Vec<Option<Configuration>> = told.into_iter().map(Result::ok).collect();
    if granted != asked && slice.leads() {
        let bounds = configurations.iter().flatten().find_map(|told| bounds(told)).unwrap_or_default();
        output::warn(format!(
            "session timeout: requested {}, granted {}{bounds}",
            format_duration(asked),
            format_duration(granted)
        ));
    }
    let too_many = plan.trials.iter().find_map(|trial| too_many(trial, slice, &configurations));
    too_many.map_or(Ok(()), |why| Err(Error::environment(why)))
}

fn value(of: &[(String, String)], key: &str) -> Option<i64> {
    of.iter().find(|(name, _)| name == key)?.1.parse().ok()
}

/// Returns the bounds of a server's session timeouts as a phrase.
fn bounds(of: &[(String, String)]) -> Option<String> {
    let ms = |key| Some(format_duration(std::time::Duration::from_millis(value(of, key)?.try_into().ok()?)));
    Some(format!(
        "; these servers grant {} to {} (minSessionTimeout, maxSessionTimeout, tickTime)",
        ms("minSessionTimeout")?,
        ms("maxSessionTimeout")?
    ))
}

/// Number of connections besides the contenders': the run's sign of life, or the worker's rendezvous.
const BESIDE: usize = 1;

/// Returns why a trial opens too many connections. `None` if the servers accept all of them, or if any server
/// reports no limit per host.
fn too_many(trial: &TrialSpec, slice: Slice, servers: &[Option<Configuration>]) -> Option<String> {
    let limit = |of: &Option<Configuration>| value(of.as_ref()?, "maxClientCnxns").filter(|limit| *limit > 0);
    let limits: Vec<i64> = servers.iter().map(limit).collect::<Option<_>>()?;
    let room = usize::try_from(limits.iter().sum::<i64>()).unwrap_or(usize::MAX);
    let own = slice.below(trial.contenders).count();
    // Each contender with a driver has two sessions: one of the suite and one of the driver.
    let each = if zklockbench_locks::driven(&trial.strategy.name).is_some() { 2 } else { 1 };
    let connections = own * each + BESIDE;
    (connections > room).then(|| {
        let from = limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "a trial with {} opens {}, including one for the run itself, but the servers accept {room} from one host \
             (maxClientCnxns: {from}): {}",
            contenders(own),
            counted(connections, "connection", "connections"),
            reach::MORE_CONNECTIONS
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_scenario::parse;

    #[test]
    fn load_is_limited_only_if_other_clients_may_be_connected() {
        let of = |args: &SharingArgs, others| {
            let Sharing { at_most, stop_if_slower, .. } = Sharing::decide(args, others);
            (at_most, stop_if_slower)
        };
        let (usual, connected) = (SharingArgs::default(), |count| Some(Ok(count)));
        assert_eq!(of(&usual, None), (None, None));
        assert_eq!(of(&usual, connected(0)), (None, None));
        assert_eq!(of(&usual, connected(1)), (Some(200.0), Some(3.0)));
        assert_eq!(of(&usual, Some(Err("x".into()))), (Some(200.0), Some(3.0)));
        let all = SharingArgs { allow_saturation: true, ..usual.clone() };
        assert_eq!(of(&all, connected(9)), (None, None));
        let own = SharingArgs { at_most: Some(900.0), stop_if_latency: Some(5.0), ..usual };
        assert_eq!(of(&own, connected(9)), (Some(900.0), Some(5.0)));
        assert_eq!(of(&own, connected(0)), (Some(900.0), Some(5.0)));
    }

    #[tokio::test]
    async fn workers_that_join_during_the_count_do_not_hide_another_client() {
        // Given another client, and workers that join between the counts
        let count = async |joined: &[u64]| {
            let next = std::cell::Cell::new(0);
            let reading = || {
                let at = next.replace(next.get() + 1);
                joined.get(at).or(joined.last()).copied().unwrap_or(0)
            };
            without_workers(async || reading(), async || Ok(1 + reading())).await
        };
        for joined in [&[0, 0, 0][..], &[0, 0, 1], &[0, 1, 1], &[2, 2, 3, 3, 4]] {
            assert_eq!(count(joined).await, Ok(1), "{joined:?}");
        }
        let joining: Vec<u64> = (0..100).collect();
        assert_eq!(count(&joining[..]).await, Ok(2), "workers never stop joining");
    }

    #[test]
    fn load_limit_is_reported_with_its_reason() {
        let limited = Sharing::decide(&SharingArgs::default(), Some(Ok(12)));
        assert_eq!(
            limited.note().unwrap(),
            "load limited to 200 requests/s (12 connections of other clients); the run ends if latency rises 3x (--at-most \
             raises the limit, --allow-saturation removes it)"
        );
        assert_eq!(Sharing::decide(&SharingArgs::default(), Some(Ok(0))).note(), None);
    }

    fn servers(limits: &[Option<&str>]) -> Vec<Option<Configuration>> {
        let told = |limit: &str| {
            vec![("tickTime".to_owned(), "2000".to_owned()), ("maxClientCnxns".into(), limit.into())]
        };
        limits.iter().map(|limit| limit.map(told)).collect()
    }

    #[test]
    fn trials_beyond_the_connection_limit_are_rejected_with_advice() {
        let text = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 7\nduration = \"5s\"\n";
        let parsed = parse("x.toml", text, &zklockbench_load::catalog()).unwrap();
        let plan = TrialPlan::of(&parsed.scenario);
        let refused = |limits: &[Option<&str>]| too_many(&plan.trials[0], Slice::WHOLE, &servers(limits));
        let why = refused(&[Some("4"), Some("3")]).unwrap();
        let begins = "a trial with 7 contenders opens 8 connections, including one for the run itself, but the servers \
                      accept 7 from one host (maxClientCnxns: 4, 3): raise";
        assert!(why.starts_with(begins), "{why}");
        for fits in [&[Some("4"), Some("4")][..], &[Some("3"), Some("0")], &[Some("3"), None], &[None]] {
            assert_eq!(refused(fits), None, "{fits:?}");
        }
    }

    #[test]
    fn session_timeout_bounds_come_from_the_server_configuration() {
        let told = vec![
            ("minSessionTimeout".to_owned(), "120000".to_owned()),
            ("maxSessionTimeout".into(), "1200000".into()),
        ];
        let expected = "; these servers grant 2m to 20m (";
        assert!(bounds(&told).unwrap().starts_with(expected), "{:?}", bounds(&told));
        assert_eq!(bounds(&[]), None);
    }
}
