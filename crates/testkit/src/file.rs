//! Template files: written once, copied for every test.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use crate::fingerprint;

/// A database file that tests copy instead of migrating their own.
///
/// Kept under the [`fingerprint`] of what made it, in the system's temporary directory.
#[derive(Debug)]
pub struct FileTemplate(PathBuf);

impl FileTemplate {
    /// The template for a file that these migrations make.
    pub fn new<'a>(migrations: impl IntoIterator<Item = &'a str>) -> Self {
        Self::within(&env::temp_dir().join("consign-templates"), migrations)
    }

    /// The same in a folder of the caller's.
    pub fn within<'a>(folder: &Path, migrations: impl IntoIterator<Item = &'a str>) -> Self {
        Self(folder.join(fingerprint(migrations)))
    }

    /// Copies the template; `false` if there is none yet.
    pub fn copy_to(&self, target: &Path) -> bool {
        fs::copy(&self.0, target).is_ok()
    }

    /// Makes a template of a file that is closed. Where that fails, the next test migrates too.
    pub fn keep(&self, made: &Path) {
        let mut log = made.as_os_str().to_owned();
        log.push("-wal");
        assert!(!Path::new(&log).exists(), "{} is open", made.display());
        // Another process may be doing the same: a name of its own, and then at once.
        let draft = self.0.with_extension(process::id().to_string());
        let kept = self
            .0
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::copy(made, &draft))
            .and_then(|_| fs::rename(&draft, &self.0));
        if let Err(error) = kept {
            eprintln!("no template {}: {error}", self.0.display());
        }
    }
}
