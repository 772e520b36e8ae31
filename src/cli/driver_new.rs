//! `driver new`: creates a driver with an example lock, which the user replaces.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::json;

use super::args::{DriverLanguage, DriverNewArgs};
use super::output;
use zklockbench_core::error::{Error, Exit};

const RUN: &str = "run";

/// Names and contents of files; the user edits the first file.
type Files = &'static [(&'static str, &'static str)];

macro_rules! templates {
    ($language:literal: $($file:literal),*) => {
        &[$(($file, include_str!(concat!("../../drivers/templates/", $language, "/", $file)))),*]
    };
}

const PYTHON: Files = templates!("python": "my_lock.py", "run", "README.md");
const JAVA: Files = templates!("java": "MyLock.java", "Driver.java", "pom.xml", "run", "README.md");
const GO: Files = templates!("go": "my_lock.go", "main.go", "go.mod", "run", "README.md");
const NODE: Files = templates!("node": "my_lock.js", "driver.js", "package.json", "run", "README.md");
/// Python implementation of the protocol, also used by this repository's drivers.
const CONTENDERS: Files = &[("contenders.py", include_str!("../../drivers/python/contenders.py"))];

pub fn execute(args: &DriverNewArgs) -> Result<Exit, Error> {
    let (files, more): (Files, Files) = match args.language {
        DriverLanguage::Python => (PYTHON, CONTENDERS),
        DriverLanguage::Java => (JAVA, &[]),
        DriverLanguage::Go => (GO, &[]),
        DriverLanguage::Node => (NODE, &[]),
    };
    let place = &args.name;
    fs::create_dir(place).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Error::usage(format!("{} already exists; choose a new directory", place.display()))
        }
        _ => Error::usage(format!("cannot create {}: {error}", place.display())),
    })?;
    for (name, text) in files.iter().chain(more) {
        let path = place.join(name);
        write(&path, text, if *name == RUN { 0o777 } else { 0o666 })
            .map_err(|error| Error::environment(format!("cannot write {}: {error}", path.display())))?;
    }
    let names: Vec<&str> = files.iter().chain(more).map(|(name, _)| *name).collect();
    let [directory, edit] = [place, &place.join(names[0])].map(|path| path.display().to_string());
    let said = json!({ "directory": directory, "edit": edit, "files": names });
    output::tell("driver new", Exit::Held, &said, || {
        output::text(&format!(
            "Created {directory}. Put your lock into {edit}. Then run in the new directory:\n\n  zklockbench driver check ./{RUN}\n",
        ))
    })
}

/// Creates a file with this mode, restricted by the umask.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}
