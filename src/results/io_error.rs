//! What the disk refused, and what to do about it.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;

/// The error of a command that could not do something with a path.
pub fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("cannot {what} {}: {error}; {}", path.display(), remedy(error.kind())))
}

fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space, or choose a directory on another disk"
        }
        ErrorKind::PermissionDenied => "give yourself the right to it, or choose another directory",
        ErrorKind::ReadOnlyFilesystem => "choose a directory that can be written to",
        ErrorKind::NotFound => "check whether it was removed or renamed meanwhile",
        _ => "check the disk, or choose another directory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_its_path_and_its_remedy() {
        let error = std::io::Error::from(ErrorKind::StorageFull);
        let told = cannot("write", Path::new("out/run.json"), &error);
        assert!(matches!(told, Error::Environment(_)));
        assert!(told.to_string().starts_with("cannot write out/run.json: "), "{told}");
        assert!(
            told.to_string().ends_with("free some space, or choose a directory on another disk"),
            "{told}"
        );
    }
}
