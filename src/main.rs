//! The binary: parse, run, map the outcome to an exit code.

fn main() -> std::process::ExitCode {
    give_long_blocks_back();
    zklockbench::cli::main()
}

/// Makes glibc's allocator return each large block to the system when it is freed. By default, it stops doing so after
/// freeing the first block, and then uses its heap, which the lists of a long queue fragment: 10,000 contenders of
/// `predecessor-watch`, each briefly with a list of 160 kB, took 950 MB, of which 450 were in use.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a C function")]
fn give_long_blocks_back() {
    const LONG: libc::c_int = 64 << 10;
    // SAFETY: sets a number, before there is another thread.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LONG) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_long_blocks_back() {}
