//! Network namespaces: making one, being in another one for a moment, to open a socket there, or for life, as a child
//! process; and `ip` of iproute2, which makes and cuts networks in them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A network namespace without a name. It is there as long as this is held or a process lives in it; so nothing of
/// it can be left behind, not even by a process that is killed.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    pub fn create() -> io::Result<Self> {
        // A namespace belongs to a thread. This one ends, and leaves the open file.
        let made = std::thread::spawn(|| {
            move_to_a_new_one()?;
            File::open("/proc/thread-self/ns/net")
        });
        made.join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
            .map(Self)
    }

    /// By which this process and its children can open it, as long as it is held.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "rustix marks the call because of flags that are not used here")]
fn move_to_a_new_one() -> io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: it is unsafe to stop sharing open files with the other threads; only the network is left here.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

#[cfg(not(target_os = "linux"))]
fn move_to_a_new_one() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Runs something in that namespace (`None`: our own). A socket that is opened there stays there.
pub fn inside<T: Send>(namespace: Option<&Path>, what: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(namespace) = namespace else { return Ok(what()) };
    // A namespace belongs to a thread. This one ends, so that no other work is ever done in there.
    std::thread::scope(|scope| {
        let visit = scope.spawn(|| entry(namespace)?().map(|()| what()));
        visit.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}

/// Lets a child begin its life in that namespace.
#[allow(unsafe_code, reason = "the only way to run something between fork and exec")]
pub fn live_in(command: &mut Command, namespace: &Path) -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    let enter = entry(namespace)?;
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `enter` makes one system call and
    // allocates nothing.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

/// What moves the calling thread into that namespace. It is opened now, and entered later.
#[cfg(target_os = "linux")]
fn entry(namespace: &Path) -> io::Result<impl Fn() -> io::Result<()> + Send + Sync + use<>> {
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let opened = std::fs::File::open(namespace)?;
    Ok(move || Ok(move_into_link_name_space(opened.as_fd(), Some(LinkNameSpaceType::Network))?))
}

#[cfg(not(target_os = "linux"))]
fn entry(_namespace: &Path) -> io::Result<impl Fn() -> io::Result<()> + Send + Sync + use<>> {
    Err::<fn() -> io::Result<()>, _>(io::Error::from(io::ErrorKind::Unsupported))
}

/// Runs it in our own network namespace; what it said on stdout.
pub fn ip(arguments: &[&str]) -> Result<String, String> {
    run(None, arguments)
}

/// Runs it in that network namespace. (`ip -n` would need a name for it, and a file system of its own.)
pub fn ip_in(namespace: &Path, arguments: &[&str]) -> Result<String, String> {
    run(Some(namespace), arguments)
}

fn run(namespace: Option<&Path>, arguments: &[&str]) -> Result<String, String> {
    let command = || format!("`ip {}`", arguments.join(" "));
    let mut ip = Command::new("ip");
    if let Some(namespace) = namespace {
        live_in(&mut ip, namespace)
            .map_err(|error| format!("{} cannot be run in {}: {error}", command(), namespace.display()))?;
    }
    // In a group of its own no Ctrl-C reaches it: what is half made could not be removed.
    ip.args(arguments).env("LC_ALL", "C").process_group(0);
    let output = ip.output().map_err(|error| {
        format!(
            "{} cannot be run: {error}. Install iproute2 (Debian: apt-get install -y iproute2)",
            command()
        )
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{} failed ({}): {said}", command(), output.status))
}

/// Why it could not be done, once that is known.
static REFUSED: OnceLock<String> = OnceLock::new();

/// Moves this process into a user namespace and a network namespace of its own, where that is needed and root does not
/// run it. From then on it sees nothing of this machine's network. To be called before there are threads.
///
/// It moves there itself instead of starting another: signals, exit code, streams and the process id stay what they are, and
/// files that it writes belong to the user.
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
    fn without_a_namespace_it_is_done_here_and_a_namespace_that_is_gone_is_an_error() {
        assert_eq!(inside(None, || 7).unwrap(), 7);
        let gone = inside(Some(Path::new("/proc/self/fd/zklb-nowhere")), || 7);
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let why = ip(&["link", "show", "zklb-nowhere"]).unwrap_err();
        assert!(why.contains("`ip link show zklb-nowhere`") && why.contains("does not exist"), "{why}");
    }

    #[test]
    fn a_refusal_says_where_it_can_be_allowed() {
        let of = |errno: rustix::io::Errno| refusal(&io::Error::from(errno));
        assert!(of(rustix::io::Errno::NOSPC).contains("user.max_user_namespaces"));
        assert!(of(rustix::io::Errno::PERM).contains("seccomp"));
        assert!(of(rustix::io::Errno::INVAL).contains("Invalid argument"));
    }
}
