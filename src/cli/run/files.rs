//! Open files: every session is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Error;

/// Files that the program needs besides its sessions.
const OTHERS: u64 = 100;

/// Makes sure that so many sessions can be open at once, raising the limit as far as the system allows.
///
/// # Errors
/// When it does not allow enough; says how to change that.
pub fn allow(sessions: usize) -> Result<(), Error> {
    let needed = sessions as u64 + OTHERS;
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
        "{sessions} contenders need {needed} open files, and this system allows {}; raise it with: ulimit -n {needed}",
        limit.maximum.map_or_else(|| "fewer".to_owned(), |maximum| maximum.to_string())
    )))
}
