//! Limits on the load: none on an ensemble without other clients, a limited rate on a shared one.

use std::process::Command;

use super::open_ensemble::OpenEnsemble;
use crate::cli::shared_args::{AT_MOST_VARIABLE, LATENCY_VARIABLE, SATURATION_VARIABLE, SharingArgs};
use zklockbench_core::error::Error;
use zklockbench_core::units::{counted, number};
use zklockbench_ensemble::{OtherClients, other_clients};
use zklockbench_load::{configured_servers, sessions_of_workers};
use zklockbench_record::{LIMITED, OTHERS};
use zklockbench_scenario::{Slice, TrialPlan};

const AT_MOST: f64 = 200.0;
const SLOWER: f64 = 3.0;

/// The limits of a run's load.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// The ensemble's other clients; `None` for a local ensemble.
    pub others: Option<OtherClients>,
    /// Requests per second.
    pub at_most: Option<f64>,
    /// Largest allowed factor by which servers become slower than before the run; beyond it, the run ends.
    pub stop_if_slower: Option<f64>,
}

impl Sharing {
    /// Counts the ensemble's other clients, before this process opens its own sessions.
    pub async fn of(opened: &OpenEnsemble, args: &SharingArgs, run_id: Option<&str>) -> Self {
        if !opened.is_external() {
            return Self::decide(args, None);
        }
        let target = &opened.target;
        let mut others = other_clients(&opened.addresses).await;
        if let (OtherClients::Connected(count), Some(run_id)) = (&mut others, run_id) {
            *count = count.saturating_sub(sessions_of_workers(target, run_id).await as u64);
        }
        if others == OtherClients::Connected(0) {
            let named = opened.addresses.len();
            let all = configured_servers(target).await.unwrap_or(named);
            if all > named {
                others = OtherClients::Unknown(format!("{} names {named} of {all} servers", target.connect));
            }
        }
        Self::decide(args, Some(others))
    }

    fn decide(args: &SharingArgs, others: Option<OtherClients>) -> Self {
        let is_shared = !matches!(others, None | Some(OtherClients::Connected(0)));
        let is_limited = is_shared && !args.allow_saturation;
        Self {
            others,
            at_most: args.at_most.or(is_limited.then_some(AT_MOST)),
            stop_if_slower: args.stop_if_latency.or(is_limited.then_some(SLOWER)),
        }
    }

    /// Refuses open loads that would exceed the rate, because delayed arrivals would count as late.
    pub fn check(&self, plan: &TrialPlan, slice: Slice) -> Result<(), Error> {
        let (Some(at_most), true) = (self.at_most, slice.leads()) else { return Ok(()) };
        let open = plan.trials.iter().filter(|trial| trial.load.open().is_some());
        let most = open.map(|trial| trial.estimated_requests_per_s()).fold(0.0, f64::max);
        if most <= at_most {
            return Ok(());
        }
        Err(Error::usage(format!(
            "the arrivals need about {most:.0} requests/s, but at most {}/s are allowed here{}: lower `rate`, or raise \
             --at-most",
            number(at_most),
            self.reason()
        )))
    }

    fn reason(&self) -> String {
        match &self.others {
            Some(OtherClients::Connected(count)) if *count > 0 => {
                format!(" ({} of other clients)", counted(*count, "connection", "connections"))
            }
            Some(OtherClients::Unknown(why)) => format!(" (other clients not known: {why})"),
            _ => String::new(),
        }
    }

    /// The limits of the load, in one line.
    pub fn note(&self) -> Option<String> {
        let stop =
            self.stop_if_slower.map(|factor| format!("the run ends if latency rises {}x", number(factor)));
        match (self.at_most, stop) {
            (None, None) => None,
            (None, Some(stop)) => Some(format!("load not limited{}; {stop}", self.reason())),
            (Some(at_most), stop) => {
                let stop = stop.map_or_else(String::new, |stop| format!("; {stop}"));
                Some(format!(
                    "load limited to {} requests/s{}{stop} (--at-most raises the limit, --allow-saturation lifts it)",
                    number(at_most),
                    self.reason()
                ))
            }
        }
    }

    /// The limits, as recorded in a run.
    pub fn facts(&self) -> Vec<(String, String)> {
        let others = self.others.as_ref().map(|others| match others {
            OtherClients::Connected(count) => count.to_string(),
            OtherClients::Unknown(why) => format!("not known ({why})"),
        });
        let at_most = self.at_most.map(|per_s| format!("{} requests/s", number(per_s)));
        let facts = [(OTHERS, others), (LIMITED, at_most)];
        facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// Passes the decision on to a run of a series. Older binaries ignore unknown variables.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_limited_only_if_other_clients_may_be_connected() {
        let of = |args: &SharingArgs, others| {
            let Sharing { at_most, stop_if_slower, .. } = Sharing::decide(args, others);
            (at_most, stop_if_slower)
        };
        let (usual, connected) = (SharingArgs::default(), |count| Some(OtherClients::Connected(count)));
        assert_eq!(of(&usual, None), (None, None));
        assert_eq!(of(&usual, connected(0)), (None, None));
        assert_eq!(of(&usual, connected(1)), (Some(200.0), Some(3.0)));
        assert_eq!(of(&usual, Some(OtherClients::Unknown("x".into()))), (Some(200.0), Some(3.0)));
        let all = SharingArgs { allow_saturation: true, ..usual.clone() };
        assert_eq!(of(&all, connected(9)), (None, None));
        let own = SharingArgs { at_most: Some(900.0), stop_if_latency: Some(5.0), ..usual };
        assert_eq!(of(&own, connected(9)), (Some(900.0), Some(5.0)));
        assert_eq!(of(&own, connected(0)), (Some(900.0), Some(5.0)));
    }

    #[test]
    fn limit_is_reported_with_its_reason() {
        let limited = Sharing::decide(&SharingArgs::default(), Some(OtherClients::Connected(12)));
        assert_eq!(
            limited.note().unwrap(),
            "load limited to 200 requests/s (12 connections of other clients); the run ends if latency rises 3x (--at-most \
             raises the limit, --allow-saturation lifts it)"
        );
        assert_eq!(Sharing::decide(&SharingArgs::default(), Some(OtherClients::Connected(0))).note(), None);
    }
}
