//! Where a scenario comes from: a file, standard input, or the scenarios built into the program.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toml::Table;

use crate::scenario::nearest;
use crate::words::disk::{self, MIB, Unreadable};
use crate::words::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Its name, such as `quick` or `faults/leader-killed`.
    pub name: &'static str,
    pub text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

impl Shipped {
    /// The one with that name; the path of its file, `scenarios/quick.toml`, names it too.
    fn named(path: &Path) -> Option<Self> {
        let path = path.strip_prefix("scenarios").unwrap_or(path);
        let path = if path.extension().is_some_and(|ending| ending == "toml") {
            path.with_extension("")
        } else {
            path.to_owned()
        };
        SHIPPED.iter().copied().find(|shipped| Path::new(shipped.name) == path)
    }

    pub fn description(&self) -> String {
        let table = self.text.parse::<Table>().unwrap_or_default();
        table.get("description").and_then(|text| text.as_str()).unwrap_or_default().to_owned()
    }
}

const LARGEST: u64 = 4 * MIB;

pub const STDIN: &str = "-";

pub struct Source {
    pub name: String,
    /// Where the files that it names are looked for.
    pub directory: PathBuf,
    pub bytes: Vec<u8>,
}

impl Source {
    /// Reads standard input for `-`, else the file, else the built-in scenario of that name.
    pub fn read(named: &Path) -> Result<Self, Error> {
        if named == Path::new(STDIN) {
            let (name, directory) = ("standard input".to_owned(), PathBuf::new());
            return Ok(Self { name, directory, bytes: standard_input()? });
        }
        let bytes = match (disk::read_named(named, LARGEST), Shipped::named(named)) {
            (Ok(bytes), _) => bytes,
            (Err(_), Some(shipped)) => shipped.text.into(),
            (Err(why), None) => return Err(cannot_read(named, &why)),
        };
        let directory = named.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { name: named.display().to_string(), directory, bytes })
    }

    /// Whether it can be read more than once: a pipe cannot.
    pub fn lasts(named: &Path) -> bool {
        named.is_file() || named == Path::new(STDIN) || !named.exists() && Shipped::named(named).is_some()
    }
}

/// Standard input, which is read once and kept.
fn standard_input() -> Result<Vec<u8>, Error> {
    static READ: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(read) = READ.get() {
        return Ok(read.clone());
    }
    let bytes = disk::bounded(std::io::stdin().lock(), LARGEST)
        .map_err(|why| Error::usage(format!("standard input, which is to be the scenario, {why}")))?;
    Ok(READ.get_or_init(|| bytes).clone())
}

fn cannot_read(path: &Path, why: &Unreadable) -> Error {
    let near = || {
        let name = path.to_str()?;
        nearest(name, SHIPPED.iter().map(|shipped| shipped.name))
    };
    let help = match (why, near()) {
        (Unreadable::Missing, Some(near)) => format!("; did you mean `{near}`?"),
        (Unreadable::Missing, None) => "; `zklockbench scenarios` lists those that need no file".to_owned(),
        _ => String::new(),
    };
    Error::usage(format!("cannot read the scenario {}: it {why}{help}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_found_by_name_and_by_its_path_and_a_file_wins() {
        let read =
            |path: &Path| Source::read(path).map(|source| source.bytes).map_err(|error| error.to_string());
        let quick = Shipped::named(Path::new("quick")).unwrap();
        assert_eq!(Shipped::named(Path::new("scenarios/quick.toml")), Some(quick));
        assert!(Shipped::named(Path::new("faults/leader-killed")).is_some());
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("quick");
        std::fs::write(&own, "mine").unwrap();
        assert_eq!(read(&own), Ok(b"mine".to_vec()));
        let told = read(Path::new("no-such/quik")).unwrap_err();
        assert!(told.contains("cannot read the scenario no-such/quik"), "{told}");
        let told = read(Path::new("quik")).unwrap_err();
        assert!(told.contains("did you mean `quick`?"), "{told}");
        let told = read(Path::new("faults/kill-leader")).unwrap_err();
        assert!(told.contains("did you mean `faults/leader-killed`?"), "{told}");
    }

    #[test]
    fn every_built_in_scenario_has_a_question() {
        let silent = SHIPPED.iter().filter(|one| one.description().is_empty());
        assert_eq!(silent.map(|one| one.name).collect::<Vec<_>>(), Vec::<&str>::new());
        assert!(SHIPPED.len() > 40);
    }
}
