//! The `zklockbench` binary.

fn main() -> std::process::ExitCode {
    give_long_blocks_back();
    zklockbench::cli::main()
}

/// Makes glibc return each freed block of at least 64 KiB to the system. By default, glibc raises this threshold
/// after the first freed block, and the child lists of a long queue then fragment the heap: 10,000 contenders
/// of `predecessor-watch` took 950 MB, of which only 450 MB were in use. Mimalloc 0.1.52 and jemalloc (tikv 0.7.0)
/// used as much processor time, and a fifth to a half more memory (1,000 contenders: 92, 120 and 115 MB).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "`mallopt` is a C function")]
fn give_long_blocks_back() {
    const LONG: libc::c_int = 64 << 10;
    // SAFETY: `mallopt` only sets a parameter, and no other thread is running yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LONG) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_long_blocks_back() {}
