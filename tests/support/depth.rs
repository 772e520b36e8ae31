//! Depth of the tests: short by default, or long.

/// Returns whether long tests run (`ZKLOCKBENCH_LONG=1`, set by `scripts/test --long`).
pub fn is_long() -> bool {
    std::env::var_os("ZKLOCKBENCH_LONG").is_some_and(|value| value == "1")
}

/// Selects between the short and the long size of a test.
pub fn of<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}
