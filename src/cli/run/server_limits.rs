//! Limits of servers that the suite has not configured: the session timeouts that they grant, and the connections that
//! they accept from one host.

use futures_util::future::join_all;

use super::open_ensemble::OpenEnsemble;
use super::sharing::Sharing;
use crate::cli::output;
use zklockbench_core::error::Error;
use zklockbench_core::units::{contenders, counted, format_duration};
use zklockbench_load::granted_timeout;
use zklockbench_scenario::{Slice, TrialPlan, TrialSpec};
use zklockbench_zk::{admin, reach};

type Configuration = Vec<(String, String)>;

/// Warns if the granted session timeout differs from the requested one, and refuses trials with more requests or
/// connections than the servers accept.
pub async fn check(
    opened: &OpenEnsemble,
    sharing: &Sharing,
    plan: &TrialPlan,
    slice: Slice,
) -> Result<(), Error> {
    sharing.check(plan, slice)?;
    if opened.is_ours() {
        return Ok(());
    }
    let asked = plan.scenario.session_timeout;
    let granted = granted_timeout(&opened.target, asked).await?;
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

/// The bounds of a server's session timeouts.
fn bounds(of: &[(String, String)]) -> Option<String> {
    let ms = |key| Some(format_duration(std::time::Duration::from_millis(value(of, key)?.try_into().ok()?)));
    Some(format!(
        "; these servers grant {} to {} (minSessionTimeout, maxSessionTimeout, tickTime)",
        ms("minSessionTimeout")?,
        ms("maxSessionTimeout")?
    ))
}

/// Why a trial's sessions do not fit, if all servers limit the connections of a host and report it.
fn too_many(trial: &TrialSpec, slice: Slice, servers: &[Option<Configuration>]) -> Option<String> {
    let limit = |of: &Option<Configuration>| value(of.as_ref()?, "maxClientCnxns").filter(|limit| *limit > 0);
    let limits: Vec<i64> = servers.iter().map(limit).collect::<Option<_>>()?;
    let room = usize::try_from(limits.iter().sum::<i64>()).unwrap_or(usize::MAX);
    let own = slice.below(trial.contenders).count();
    // A driver opens a session for each contender in addition to the suite's.
    let each = if zklockbench_locks::driven(&trial.strategy.name).is_some() { 2 } else { 1 };
    (own * each > room).then(|| {
        let from = limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "a trial with {} opens {}, but the servers accept {room} from one host (maxClientCnxns: \
             {from}): {}",
            contenders(own),
            counted(own * each, "connection", "connections"),
            reach::MORE_CONNECTIONS
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_scenario::parse;

    fn servers(limits: &[Option<&str>]) -> Vec<Option<Configuration>> {
        let told = |limit: &str| {
            vec![("tickTime".to_owned(), "2000".to_owned()), ("maxClientCnxns".into(), limit.into())]
        };
        limits.iter().map(|limit| limit.map(told)).collect()
    }

    #[test]
    fn trials_beyond_the_servers_connection_limit_are_refused_with_the_remedy() {
        let text = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 7\nduration = \"5s\"\n";
        let parsed = parse("x.toml", text, &zklockbench_load::catalog()).unwrap();
        let plan = TrialPlan::of(&parsed.scenario);
        let refused = |limits: &[Option<&str>]| too_many(&plan.trials[0], Slice::WHOLE, &servers(limits));
        let why = refused(&[Some("3"), Some("3")]).unwrap();
        let begins = "a trial with 7 contenders opens 7 connections, but the servers accept 6 from one host (maxClientCnxns: 3, 3): raise";
        assert!(why.starts_with(begins), "{why}");
        for fits in [&[Some("4"), Some("3")][..], &[Some("3"), Some("0")], &[Some("3"), None], &[None]] {
            assert_eq!(refused(fits), None, "{fits:?}");
        }
    }

    #[test]
    fn bounds_of_session_timeouts_are_those_of_the_configuration() {
        let told = vec![
            ("minSessionTimeout".to_owned(), "120000".to_owned()),
            ("maxSessionTimeout".into(), "1200000".into()),
        ];
        assert!(
            bounds(&told).unwrap().starts_with("; these servers grant 2m to 20m ("),
            "{:?}",
            bounds(&told)
        );
        assert_eq!(bounds(&[]), None);
    }
}
