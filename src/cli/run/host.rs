//! This machine: what it is, how many threads make the load on it, and how many files it lets a program open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::record::HostInfo;
use crate::words::error::Error;

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

/// How many threads make the load unless an option says so.
pub fn usual_threads() -> usize {
    (cores() / 4).max(1)
}

/// Files that the program needs besides its sessions.
const OTHERS: u64 = 100;

/// Makes sure that so many sessions with so many open files each can be open at once, if need be by raising the limit.
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
        "{sessions} sessions need {needed} open files, but this system allows {}; raise the limit with: ulimit \
         -n {needed}",
        limit.maximum.map_or_else(|| "fewer".to_owned(), |maximum| maximum.to_string())
    )))
}
