//! Finds Java and ZooKeeper on this machine, or explains what to install.

use std::path::{Path, PathBuf};

use super::private;
use zklockbench_core::error::Error;

/// Locations to search. [`Places::of_this_machine`] returns the real locations; tests use their own.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Home directory from `--zookeeper-home`.
    pub asked: Option<PathBuf>,
    /// Home directory from the variable `ZOOKEEPER_HOME`.
    pub environment: Option<PathBuf>,
    /// Home directory of the release that `scripts/install --zookeeper` installed.
    pub installed: Option<PathBuf>,
    /// Jar directories of system packages.
    pub packaged: Vec<PathBuf>,
    /// Home directories of releases from other package managers.
    pub homes: Vec<PathBuf>,
    pub java_home: Option<PathBuf>,
    /// Directories on the `PATH`.
    pub path: Vec<PathBuf>,
}

impl Places {
    pub fn of_this_machine(asked: Option<PathBuf>) -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            asked,
            environment: variable("ZOOKEEPER_HOME"),
            installed: private::state_directory().and_then(|directory| installed_below(&directory)),
            packaged: vec!["/usr/share/java".into()],
            homes: vec![
                "/opt/homebrew/opt/zookeeper/libexec".into(),
                "/usr/local/opt/zookeeper/libexec".into(),
            ],
            java_home: variable("JAVA_HOME"),
            path: std::env::var_os("PATH")
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    pub java: PathBuf,
    pub class_path: String,
    /// Human-readable location of ZooKeeper.
    pub origin: String,
}

impl Installation {
    /// Finds Java and ZooKeeper. Searches, in this order, `--zookeeper-home`, `ZOOKEEPER_HOME`, the
    /// release from `scripts/install --zookeeper`, Debian's jars and Homebrew's. A specified home without ZooKeeper
    /// is an error, because silently measuring another version would be misleading.
    pub fn find(places: &Places) -> Result<Self, Error> {
        let java = find_java(places);
        let jars = find_jars(places);
        match (java, jars) {
            (Ok(java), Ok((class_path, origin))) => Ok(Self { java, class_path, origin }),
            (java, jars) => {
                let missing: Vec<String> = [jars.err(), java.err()].into_iter().flatten().flatten().collect();
                Err(Error::environment(advice(&missing)))
            }
        }
    }
}

const INSTALLER: &str = "scripts/install --zookeeper";

/// Returns the release behind the link that `scripts/install` creates, if any. Resolving the link here makes
/// restarted servers run the same release even after another install. A dangling link resolves to its target.
fn installed_below(state: &Path) -> Option<PathBuf> {
    let link = state.join("zookeeper");
    let target = std::fs::read_link(&link).ok()?;
    Some(link.canonicalize().unwrap_or(target))
}

type Found<T> = Result<T, Vec<String>>;

fn find_jars(places: &Places) -> Found<(String, String)> {
    let named = [
        ("--zookeeper-home", &places.asked),
        ("ZOOKEEPER_HOME", &places.environment),
        (INSTALLER, &places.installed),
    ];
    let mut looked = Vec::new();
    for (by, home) in named {
        match home {
            None => looked.push(format!("{by}: not set")),
            Some(home) => {
                let found =
                    of_release(home).map(|class_path| (class_path, format!("{} ({by})", home.display())));
                return found.map_err(|why| vec![format!("{by} = {}: {why}", home.display())]);
            }
        }
    }
    let packaged = places.packaged.iter().map(|place| (place, of_package(place), "system package"));
    let homes = places.homes.iter().map(|place| (place, of_release(place), "Homebrew"));
    for (place, found, by) in packaged.chain(homes) {
        match found {
            Ok(class_path) => return Ok((class_path, format!("{} ({by})", place.display()))),
            Err(why) => looked.push(format!("{}: {why}", place.display())),
        }
    }
    Err(looked)
}

/// Returns the class path of a release: `lib/zookeeper-<version>.jar` and its dependencies. Before 3.5, the
/// jar was next to `lib`.
fn of_release(home: &Path) -> Result<String, String> {
    if !home.is_dir() {
        return Err("no such directory".into());
    }
    // Each server has its own working directory, so the home must be absolute.
    let home = &std::path::absolute(home).map_err(|error| error.to_string())?;
    let has_server = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| is_server_jar(&name))
    };
    let lib = home.join("lib");
    if has_server(&lib) {
        return Ok(format!("{}/*", lib.display()));
    }
    if has_server(home) {
        return Ok(format!("{}/*:{}/*", home.display(), lib.display()));
    }
    Err("no lib/zookeeper-<version>.jar found (expected the directory of an unpacked release)".into())
}

fn is_server_jar(name: &str) -> bool {
    let version = name.strip_prefix("zookeeper-").and_then(|rest| rest.strip_suffix(".jar"));
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the class path for Debian's layout: `zookeeper.jar`, which lists its dependencies, and an slf4j binding.
fn of_package(directory: &Path) -> Result<String, String> {
    let (server, log) = (directory.join("zookeeper.jar"), directory.join("slf4j-simple.jar"));
    if !server.is_file() {
        return Err("no zookeeper.jar".into());
    }
    if !log.is_file() {
        return Err("contains zookeeper.jar, but no slf4j-simple.jar (package libslf4j-java)".into());
    }
    Ok(format!("{}:{}", server.display(), log.display()))
}

fn find_java(places: &Places) -> Found<PathBuf> {
    let from_home = places.java_home.iter().map(|home| home.join("bin"));
    let directories: Vec<PathBuf> = from_home.chain(places.path.iter().cloned()).collect();
    let candidates = directories.iter().map(|directory| directory.join("java"));
    // On macOS, /usr/bin/java is a stub that only offers a download, so try Homebrew's Java first.
    let brewed =
        [PathBuf::from("/opt/homebrew/opt/openjdk/bin/java"), "/usr/local/opt/openjdk/bin/java".into()];
    let java = brewed.into_iter().filter(|_| cfg!(target_os = "macos")).chain(candidates);
    // Each server has its own working directory, so the path must be absolute.
    java.into_iter()
        .find(|java| java.is_file())
        .map(|java| std::path::absolute(&java).unwrap_or(java))
        .ok_or_else(|| vec!["java: neither in JAVA_HOME/bin nor on the PATH".into()])
}

fn advice(looked: &[String]) -> String {
    let looked: Vec<String> = looked.iter().map(|line| format!("  - {line}")).collect();
    format!(
        "a local ensemble needs Java and ZooKeeper, but at least one was not found. Searched:\n{}\n\
         To install:\n  \
         Debian, Ubuntu:  apt-get install -y --no-install-recommends default-jre-headless libzookeeper-java\n  \
         macOS:           brew install zookeeper openjdk\n  \
         elsewhere:       unpack a release from https://zookeeper.apache.org/releases.html and pass \
         --zookeeper-home DIR, or install it for all runs: scripts/install --zookeeper DIR\n  \
         Docker:          pass --compose docker/compose.3.yaml instead",
        looked.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    fn machine() -> (tempfile::TempDir, Places) {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        touch(&at("bin/java"));
        touch(&at("asked/lib/zookeeper-3.9.3.jar"));
        touch(&at("variable/lib/zookeeper-3.8.4.jar"));
        touch(&at("state/releases/of-the-user/lib/zookeeper-3.9.4.jar"));
        touch(&at("debian/zookeeper.jar"));
        touch(&at("debian/slf4j-simple.jar"));
        let places = Places {
            asked: Some(at("asked")),
            environment: Some(at("variable")),
            installed: Some(at("state/releases/of-the-user")),
            packaged: vec![at("debian")],
            path: vec![at("bin")],
            ..Places::default()
        };
        (root, places)
    }

    #[test]
    fn relative_homes_become_absolute_paths() {
        let (root, mut places) = machine();
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(root.path().strip_prefix("/").unwrap());
        assert!(relative.is_relative());
        places.asked = Some(relative.join("asked"));
        places.java_home = Some(relative);
        let found = Installation::find(&places).unwrap();
        assert!(found.class_path.starts_with('/') && found.java.is_absolute(), "{found:?}");
    }

    #[test]
    fn zookeeper_home_option_precedes_variable_installed_release_and_package() {
        let (_root, mut places) = machine();
        let origin = |places: &Places| Installation::find(places).unwrap().origin;
        assert!(origin(&places).ends_with("(--zookeeper-home)"));
        places.asked = None;
        assert!(origin(&places).ends_with("(ZOOKEEPER_HOME)"));
        places.environment = None;
        assert!(origin(&places).ends_with("releases/of-the-user (scripts/install --zookeeper)"));
        places.installed = None;
        assert!(origin(&places).ends_with("(system package)"));
    }

    #[test]
    fn installed_release_is_resolved_and_must_exist() {
        let (root, _) = machine();
        let state = root.path().join("state");
        assert_eq!(installed_below(&state), None);
        let release = state.join("releases/of-the-user");
        std::os::unix::fs::symlink(&release, state.join("zookeeper")).unwrap();
        assert_eq!(installed_below(&state), release.canonicalize().ok());
        std::fs::remove_dir_all(&release).unwrap();
        assert_eq!(installed_below(&state), Some(release.clone()));
        let places = Places { installed: Some(release), ..Places::default() };
        let message = Installation::find(&places).unwrap_err().to_string();
        assert!(message.contains("scripts/install --zookeeper = "), "{message}");
        assert!(message.contains("of-the-user"), "{message}");
    }

    #[test]
    fn specified_home_without_zookeeper_is_an_error() {
        let (root, mut places) = machine();
        places.asked = Some(root.path().join("nowhere"));
        let message = Installation::find(&places).unwrap_err().to_string();
        assert!(message.contains("--zookeeper-home") && message.contains("no such directory"), "{message}");
    }

    #[test]
    fn error_lists_every_searched_location_and_every_way_to_install() {
        let places = Places { packaged: vec!["/nowhere/java".into()], ..Places::default() };
        let message = Installation::find(&places).unwrap_err().to_string();
        for part in [
            "--zookeeper-home",
            "ZOOKEEPER_HOME",
            "/nowhere/java",
            "java:",
            "apt-get install -y --no-install-recommends default-jre-headless libzookeeper-java",
            "brew",
            "docker",
        ] {
            assert!(message.contains(part), "{part} is missing from: {message}");
        }
    }

    #[test]
    fn server_jar_next_to_lib_is_found_in_old_releases() {
        let root = tempfile::tempdir().unwrap();
        touch(&root.path().join("zookeeper-3.4.14.jar"));
        assert!(of_release(root.path()).unwrap().contains("/lib/*"));
        assert!(of_release(&root.path().join("lib")).is_err());
    }
}
