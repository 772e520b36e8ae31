//! How deep it is tested: what every change has to pass, or also what needs patience.

/// Whether the tests may take their time: `ZKLOCKBENCH_LONG=1`, as `scripts/test --long` sets it.
pub fn is_long() -> bool {
    std::env::var_os("ZKLOCKBENCH_LONG").is_some_and(|value| value == "1")
}

/// The size of a test that has two.
pub fn of<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}
