//! Files that other users of this machine can read: those of older versions, or made under other rights.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    config::{Config, KeyPath},
    failure::Failure,
};

/// A hint for each file and folder that the settings name and others can read. Nothing is changed: it
/// may be meant.
pub(super) fn readable_by_others(config: &Config) -> Result<Vec<String>, Failure> {
    let mut paths: Vec<PathBuf> = config.apps().flat_map(|app| app.files(config)).collect();
    paths.extend(config.address()?.files());
    paths.extend(log_files(config));
    Ok(paths.iter().filter_map(|path| hint(path)).collect())
}

/// What sinks of kind `log` write to.
fn log_files(config: &Config) -> impl Iterator<Item = PathBuf> {
    let is_log = |path: &KeyPath| match path.segments() {
        [queues, _, sink, name] => queues == "queues" && sink == "sink" && name == "path",
        _ => false,
    };
    config
        .values()
        .filter_map(move |(path, entry)| match &entry.value {
            Value::String(file) if is_log(path) => Some(PathBuf::from(file)),
            _ => None,
        })
}

fn hint(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    let mode = about.permissions().mode() & 0o777;
    let wanted = if about.is_dir() {
        0o700
    } else if about.is_file() {
        0o600
    } else {
        return None;
    };
    let path = path.display();
    (mode & 0o077 != 0).then(|| {
        format!("other users of this machine can read {path} (mode {mode:04o}): chmod {wanted:04o} {path}")
    })
}
