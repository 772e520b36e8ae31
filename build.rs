//! Embeds the commit that the program was built from, which results name, and the built-in scenarios.

#![allow(clippy::expect_used, reason = "a build that lacks what cargo promises cannot go on")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    ship_scenarios();
    println!("cargo:rustc-env=ZKLOCKBENCH_COMMIT={}", commit().unwrap_or_default());
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    for watched in ["src", "crates", "vendor", "scenarios", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={watched}");
    }
}

/// Writes the list of scenario files, named without their extension, for the program to include.
fn ship_scenarios() {
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("scenarios");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut list = String::from(
        "/// Every scenario of the directory `scenarios`.\npub const SHIPPED: &[Shipped] = &[\n",
    );
    for file in files {
        let name = file.strip_prefix(&root).expect("it lies there").with_extension("");
        let name = name.to_str().expect("names of scenarios are text").replace('\\', "/");
        writeln!(list, "    Shipped {{ name: {name:?}, text: include_str!({file:?}) }},")
            .expect("a string takes it");
    }
    list.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("scenarios.rs"), list).expect("cargo's directory can be written to");
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

/// The commit, with `-dirty` where tracked files differ from it; `None` outside a checkout.
fn commit() -> Option<String> {
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { hash } else { format!("{hash}-dirty") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
