//! Depth of the tests: what every change must pass, or also the long tests.

/// Returns whether long tests run: `ZKLOCKBENCH_LONG=1`, as set by `scripts/test --long`.
pub fn is_long() -> bool {
    std::env::var_os("ZKLOCKBENCH_LONG").is_some_and(|value| value == "1")
}

/// Selects the size of a test that has a short and a long one.
pub fn of<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}
