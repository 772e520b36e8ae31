//! Where a run was measured, in words: no figure is worth more than that.

use crate::results::wire::{RunFile, StoredEnsemble};

/// The sentences on where a run was measured, most telling first.
pub(super) fn place(run: &RunFile, load: Option<&str>) -> Vec<String> {
    let mut said = vec![ensemble(&run.ensemble), host(run)];
    if !run.ensemble.placement.is_empty() {
        said.push(format!("data: {}", run.ensemble.placement));
    }
    if run.ensemble.starts_cold {
        said.push("servers not warmed up".to_owned());
    }
    let load = load.map_or_else(String::new, |load| format!("{load} load, "));
    said.push(format!("scenario {}, {load}seed {}", run.scenario, run.seed));
    said
}

fn ensemble(ensemble: &StoredEnsemble) -> String {
    let servers = match ensemble.servers.len() {
        0 => "unknown number of servers".to_owned(),
        1 => "1 server".to_owned(),
        many => format!("{many} servers"),
    };
    let mut versions: Vec<&str> = ensemble.servers.iter().map(|server| short(&server.version)).collect();
    versions.dedup();
    let version = match versions.as_slice() {
        [one] if !one.is_empty() => format!(" (ZooKeeper {one})"),
        _ => String::new(),
    };
    format!("{} ensemble, {servers}{version}", ensemble.kind)
}

/// `3.9.4-abc, built on …` as the server says it, without its commit and build date.
fn short(version: &str) -> &str {
    version.split(['-', ',', ' ']).next().unwrap_or(version)
}

fn host(run: &RunFile) -> String {
    let cores = match run.host.cores {
        1 => "1 core".to_owned(),
        many => format!("{many} cores"),
    };
    if run.ensemble.shares_host {
        format!("ensemble and generator share one host and its {cores}")
    } else {
        format!("generator on a host of its own ({cores})")
    }
}
