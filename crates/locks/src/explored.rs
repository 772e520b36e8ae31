//! Promises that locks break, by class of fault, as found by `explore`. A test compares this list with a
//! stored exploration.

/// Broken promises of a lock.
#[derive(Debug, Clone, Copy)]
pub struct Broken {
    pub lock: &'static str,
    /// Class of faults, as named by `explore`.
    pub after: &'static str,
    /// `violated`, `stuck`, `refused`, `out of order` or `node left`.
    pub promises: &'static [&'static str],
}

const BROKEN: &[Broken] = &[
    Broken { lock: "ephemeral-node", after: "deleted node", promises: &["violated"] },
    Broken { lock: "ephemeral-child", after: "deleted node", promises: &["violated"] },
];

/// Returns the promises that `lock` breaks, by class of fault.
pub fn broken_promises(lock: &str) -> impl Iterator<Item = &'static Broken> {
    BROKEN.iter().filter(move |broken| broken.lock == lock)
}

/// Returns the table for the lock's card; empty if no promise is broken.
pub fn table(lock: &str) -> String {
    let mut rows = broken_promises(lock)
        .map(|broken| format!("| {} | {} |\n", broken.after, broken.promises.join(", ")))
        .peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    format!("\n| explored with | broken promise |\n|---|---|\n{}", rows.collect::<String>())
}
