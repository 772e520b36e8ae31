//! This machine: its description, the default number of threads, its free memory and its limit on open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sysinfo::{CGroupLimits, CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use zklockbench_core::error::Error;
use zklockbench_core::units::{contenders, counted};
use zklockbench_record::HostInfo;
use zklockbench_scenario::{Slice, TrialPlan, TrialSpec};

pub fn describe() -> HostInfo {
    let what = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(what);
    HostInfo {
        hostname: System::host_name().unwrap_or_default(),
        os: System::long_os_version().unwrap_or_default(),
        kernel: System::kernel_version().unwrap_or_default(),
        cpu: system.cpus().first().map(|cpu| cpu.brand().to_owned()).unwrap_or_default(),
        cores: cores(),
        memory_bytes: system.total_memory(),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the default number of threads for the load.
pub fn usual_threads() -> usize {
    (cores() / 4).max(1)
}

/// Returns the free memory of the machine or, if lower, of the control group. Without `/proc`, nothing is known, and
/// memory counts as unlimited.
fn free_memory() -> u64 {
    let system = System::new_with_specifics(
        RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()),
    );
    // `cgroup_limits` panics if the machine's memory is unknown.
    if system.total_memory() == 0 {
        return u64::MAX;
    }
    free_in(system.available_memory(), system.cgroup_limits())
}

/// Counts the page cache of a control group as free, because the kernel reclaims it.
fn free_in(machine: u64, group: Option<CGroupLimits>) -> u64 {
    group.map_or(machine, |group| machine.min(group.total_memory.saturating_sub(group.rss)))
}

/// Returns why the trials, or this process's part of them, exceed the free memory; `None` if they fit.
pub fn lacks_memory(plan: &TrialPlan, slice: Slice) -> Option<String> {
    lacks(plan, slice, free_memory())
}

fn lacks(plan: &TrialPlan, slice: Slice, free: u64) -> Option<String> {
    let own =
        |trial: &TrialSpec| TrialSpec { contenders: slice.below(trial.contenders).count(), ..trial.clone() };
    let largest = plan.trials.iter().map(own).max_by_key(TrialSpec::estimated_memory)?;
    let needed = largest.estimated_memory();
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    (needed > free).then(|| {
        format!(
            "a trial with {} and {} needs about {} MB of memory, but only {} MB is free: reduce the contenders, locks \
             or `duration`",
            contenders(largest.contenders),
            counted(largest.locks, "lock", "locks"),
            megabytes(needed),
            megabytes(free)
        )
    })
}

/// Number of open files other than sessions.
const OTHERS: u64 = 100;

/// Raises the limit on open files, if necessary, for this many sessions with `files_each` files each.
pub fn allow_sessions(sessions: usize, files_each: usize) -> Result<(), Error> {
    let needed = (sessions * files_each) as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised =
        Rlimit { current: Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed))), ..limit };
    let _ = setrlimit(Resource::Nofile, raised);
    if getrlimit(Resource::Nofile).current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    Err(Error::environment(format!(
        "{sessions} sessions need {needed} open files, but the system limit is {}; raise the limit with: ulimit \
         -n {needed}",
        limit.maximum.map_or_else(|| "lower".to_owned(), |maximum| maximum.to_string())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_scenario::parse;

    #[test]
    fn trials_that_exceed_the_free_memory_are_rejected() {
        let text = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [2, 10000]\n\
                    duration = \"5s\"\n";
        let parsed = parse("x.toml", text, &zklockbench_load::catalog()).unwrap();
        let plan = TrialPlan::of(&parsed.scenario);
        assert_eq!(lacks(&plan, Slice::WHOLE, 20_000_000_000), None);
        let why = lacks(&plan, Slice::WHOLE, 3_000_000_000).unwrap();
        assert!(why.starts_with("a trial with 10000 contenders and 1 lock needs about 9"), "{why}");
        assert!(why.contains("but only 3000 MB is free"), "{why}");
        assert!(free_memory() > 0);
    }

    #[test]
    fn page_cache_of_a_control_group_counts_as_free() {
        let group = CGroupLimits { total_memory: 4_000, rss: 1_000, ..CGroupLimits::default() };
        for (machine, group, free) in
            [(9_000, Some(group.clone()), 3_000), (2_000, Some(group), 2_000), (9_000, None, 9_000)]
        {
            assert_eq!(free_in(machine, group), free);
        }
    }
}
