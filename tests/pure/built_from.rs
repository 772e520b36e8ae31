//! The commit in `--version` and in results. The test compiles and runs `build.rs` as cargo does.

use std::path::Path;
use std::process::Command;

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

/// Commit and date that a program built in this directory would report.
fn built_in(directory: &Path, script: &Path) -> String {
    let output = Command::new(script)
        .current_dir(directory)
        .env("CARGO_MANIFEST_DIR", directory)
        .env("OUT_DIR", script.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix("cargo:rustc-env=ZKLOCKBENCH_BUILT_FROM="))
        .unwrap()
        .to_owned()
}

#[test]
fn build_reports_the_commit_of_its_own_checkout_or_package() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition", "2024", "-o"]).arg(&script);
    assert!(compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs")).status().unwrap().success());
    let checkout = place.path().join("checkout");
    let inside = checkout.join("unpacked");
    std::fs::create_dir_all(&inside).unwrap();
    let git = |words: &[&str]| {
        let identity =
            ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "core.hooksPath=/dev/null"];
        let mut git = Command::new("git");
        git.args(identity)
            .args(words)
            .current_dir(&checkout)
            .env("GIT_COMMITTER_DATE", "2026-11-29T12:00:00Z");
        assert!(git.status().unwrap().success(), "{words:?}");
    };
    git(&["init", "--quiet"]);
    std::fs::write(checkout.join("file"), "1").unwrap();
    git(&["add", "file"]);
    git(&["commit", "--quiet", "--message", "first"]);
    // A clean and a modified checkout
    let named = built_in(&checkout, &script);
    let hash = named.strip_suffix(" 2026-11-29").unwrap_or_else(|| panic!("{named}"));
    assert!(hash.len() == 12 && hash.chars().all(|one| one.is_ascii_hexdigit()), "{named}");
    std::fs::write(checkout.join("file"), "2").unwrap();
    assert_eq!(built_in(&checkout, &script), format!("{hash}-dirty 2026-11-29"));
    // Sources unpacked inside another repository
    assert_eq!(built_in(&inside, &script), "");
    // A cargo package, and the source archive of a release
    for (date, expected) in [("", "0123456789ab"), (", \"date\": \"2026-11-28\"", "0123456789ab 2026-11-28")]
    {
        let text = format!("{{\n  \"git\": {{\n    \"sha1\": \"{HASH}\"{date}\n  }}\n}}");
        for directory in [&inside, &checkout] {
            std::fs::write(directory.join(".cargo_vcs_info.json"), &text).unwrap();
            assert_eq!(built_in(directory, &script), expected);
        }
    }
}
