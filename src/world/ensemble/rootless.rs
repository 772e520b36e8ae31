//! Without root: a user namespace in which this process is root of a network of its own, and of nothing else.
//!
//! The process moves there itself instead of starting another: signals, exit code, streams and the process id stay
//! what they are, and files that it writes belong to the user.

use std::io;
use std::sync::OnceLock;

use super::namespace::ip;

/// Why it could not be done, once that is known.
static REFUSED: OnceLock<String> = OnceLock::new();

/// Moves this process into a user namespace and a network namespace of its own, where that is needed and root does not
/// run it. From then on it sees nothing of this machine's network. To be called before there are threads.
///
/// When it cannot be done, [`links_capability`](super::links_capability) says why.
pub fn leave_for_own_network(is_needed: impl FnOnce() -> bool) {
    if rustix::process::geteuid().is_root() || !is_needed() {
        return;
    }
    if let Err(why) = leave() {
        let _ = REFUSED.set(why);
    }
}

/// Whether network namespaces may be made here, as far as it can be told without making one.
pub fn is_allowed() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let why = REFUSED.get().map_or("this process did not ask for one at its start", String::as_str);
    Err(format!(
        "it needs root or a user namespace, and neither is available: {why}. Run as root, or allow user namespaces"
    ))
}

fn leave() -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare().map_err(|error| refusal(&error))?;
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|error| format!("{file} cannot be written: {error}"))
    };
    // A process that may not change groups may map its own.
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    ip(&["link", "set", "lo", "up"]).map(drop)
}

fn refusal(error: &io::Error) -> String {
    use rustix::io::Errno;
    let meaning = match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::USERS) => "no more of them are allowed (sysctl user.max_user_namespaces)",
        Some(Errno::PERM) => {
            "they are forbidden (sysctl kernel.unprivileged_userns_clone, AppArmor, or a container's seccomp profile)"
        }
        _ => "the system does not make one",
    };
    format!("{meaning}: {error}")
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "rustix marks the call because of flags that are not used here")]
fn unshare() -> io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: it is unsafe to stop sharing open files with other threads; these flags do not.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }?)
}

#[cfg(not(target_os = "linux"))]
fn unshare() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_where_it_can_be_allowed() {
        let of = |errno: rustix::io::Errno| refusal(&io::Error::from(errno));
        assert!(of(rustix::io::Errno::NOSPC).contains("user.max_user_namespaces"));
        assert!(of(rustix::io::Errno::PERM).contains("seccomp"));
        assert!(of(rustix::io::Errno::INVAL).contains("Invalid argument"));
    }
}
