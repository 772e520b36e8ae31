//! The binary: parse, run, map the outcome to an exit code.

fn main() -> std::process::ExitCode {
    give_long_blocks_back();
    zklockbench::cli::main()
}

/// Has glibc's allocator give each long block back to the system when it is freed. By itself it does so only until the first
/// one was freed, and then takes them out of its heap, which the lists of a long queue tear to pieces: 10,000 contenders of
/// `predecessor-watch`, each with a list of 160 kB for a moment, took 950 MB, of which 450 were in use.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a function of C")]
fn give_long_blocks_back() {
    const LONG: libc::c_int = 64 << 10;
    // SAFETY: it sets a number, before there is another thread.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LONG) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_long_blocks_back() {}
