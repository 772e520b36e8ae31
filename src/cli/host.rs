//! What machine this is.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::record::HostInfo;

/// Describes it; what the system does not tell stays empty.
#[must_use]
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

/// Processors that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
