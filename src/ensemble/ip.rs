//! Running `ip` of iproute2, which makes and cuts networks.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::namespace::live_in;

/// Runs it in our own network namespace; what it said on stdout.
///
/// # Errors
/// Names the command and what it said, or how to get it.
pub fn ip(arguments: &[&str]) -> Result<String, String> {
    run(None, arguments)
}

/// Runs it in that network namespace. (`ip -n` would need a name for it, and a file system of its own.)
///
/// # Errors
/// As [`ip`]; or when the namespace cannot be entered.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let why = ip(&["link", "show", "zklb-nowhere"]).unwrap_err();
        assert!(why.contains("`ip link show zklb-nowhere`") && why.contains("does not exist"), "{why}");
    }
}
