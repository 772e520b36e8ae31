//! Embeds the commit, its date and the built-in scenarios into the program.

#![allow(clippy::expect_used, reason = "a build script may panic")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    ship_scenarios();
    let (commit, date) = commit().or_else(packaged_commit).unwrap_or_default();
    println!("cargo:rustc-env=ZKLOCKBENCH_COMMIT={commit}");
    // Format of `rustc --version`, e.g. (6bfd26b48f2a 2026-11-29).
    let built_from = [commit, date].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    println!("cargo:rustc-env=ZKLOCKBENCH_BUILT_FROM={built_from}");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    for watched in ["src", "crates", "drivers", "vendor", "scenarios", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={watched}");
    }
}

/// Generates the list of built-in scenarios, named by their paths without the extension.
fn ship_scenarios() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
        .join("scenarios");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut list =
        String::from("/// Scenarios of the directory `scenarios`.\npub const SHIPPED: &[Shipped] = &[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("the file is below the root").with_extension("");
        let name = name.to_str().expect("scenario paths are UTF-8").replace('\\', "/");
        writeln!(list, "    Shipped {{ name: {name:?}, text: include_str!({file:?}) }},")
            .expect("writing to a string cannot fail");
    }
    list.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("scenarios.rs"), list).expect("OUT_DIR is writable");
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
}

/// Commit, with `-dirty` if tracked files were changed, and its date; `None` outside a checkout. The sources
/// may lie inside another repository, whose commit would be wrong.
fn commit() -> Option<(String, String)> {
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() || Path::new(PACKAGED).exists() {
        return None;
    }
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let date = git(&["show", "--no-patch", "--format=%cs", "HEAD"])?;
    Some((if changed.is_empty() { hash } else { format!("{hash}-dirty") }, date))
}

/// File in which `cargo package` and `scripts/package` record the commit.
const PACKAGED: &str = ".cargo_vcs_info.json";

/// Commit of a package and its date; the date is empty if cargo made the package.
fn packaged_commit() -> Option<(String, String)> {
    let text = std::fs::read_to_string(PACKAGED).ok()?;
    let field =
        |name: &str| Some(text.split_once(&format!("\"{name}\": \""))?.1.split_once('"')?.0.to_owned());
    Some((field("sha1")?.get(..12)?.to_owned(), field("date").unwrap_or_default()))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
