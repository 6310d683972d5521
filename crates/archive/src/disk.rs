//! The changes that a writer makes to the folder, in one place: tests make each of them fail.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{Error, Result, error::CREATE_FOLDER};

/// A file that is being written.
pub(crate) struct OutputFile {
    file: File,
    pub(crate) path: PathBuf,
}

impl OutputFile {
    /// Creates a file that only its owner can read: messages are personal data.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let created = reach().and_then(|()| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(path)
        });
        let file = created.map_err(Error::io("create", path))?;
        let path = path.to_owned();
        Ok(Self { file, path })
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let synced = reach().and_then(|()| self.file.sync_all());
        synced.map_err(Error::io("sync", &self.path))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        reach()?;
        #[cfg(test)]
        if fault::takes_corruption() {
            return self.file.write(&vec![b'?'; bytes.len()]);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = reach().and_then(|()| fs::rename(from, to));
    renamed.map_err(Error::io("rename", from))
}

/// Removes a file; one that does not exist is removed already.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match reach().and_then(|()| fs::remove_file(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", path)),
    }
}

/// Makes names that were created, renamed or removed in the folder survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = reach().and_then(|()| File::open(folder)?.sync_all());
    synced.map_err(Error::io("sync", folder))
}

/// Creates a folder and those above it, for their owner only; an existing one keeps its rights.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(folder);
    created.map_err(Error::io(CREATE_FOLDER, folder))?;
    match folder.parent() {
        Some(above) if above.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(above) => sync_folder(above),
        None => Ok(()),
    }
}

#[cfg(not(test))]
fn reach() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use fault::reach;

/// Failures of the operations above, in the thread of a test.
#[cfg(test)]
pub(crate) mod fault {
    use std::{
        cell::Cell,
        io::{self, ErrorKind},
    };

    /// What follows the operation that fails.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum After {
        /// The disk was full: later operations succeed, so that the writer can clean up.
        Success,
        /// The process was killed: no later operation takes place.
        Nothing,
    }

    thread_local! {
        static PLAN: Cell<Option<(u32, After)>> = const { Cell::new(None) };
        static IS_REACHED: Cell<bool> = const { Cell::new(false) };
        static IS_CORRUPT: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `work` and lets its operation `number` fail, counted from 0. Returns whether that
    /// operation was reached.
    pub(crate) fn with<T>(number: u32, after: After, work: impl FnOnce() -> T) -> (T, bool) {
        PLAN.set(Some((number, after)));
        IS_REACHED.set(false);
        let result = work();
        PLAN.set(None);
        (result, IS_REACHED.get())
    }

    /// Lets the next write store other bytes and report success.
    pub(crate) fn corrupt_next_write() {
        IS_CORRUPT.set(true);
    }

    pub(super) fn takes_corruption() -> bool {
        IS_CORRUPT.take()
    }

    pub(super) fn reach() -> io::Result<()> {
        match PLAN.get() {
            None => Ok(()),
            Some((0, after)) => {
                IS_REACHED.set(true);
                if after == After::Success {
                    PLAN.set(None);
                }
                Err(io::Error::from(ErrorKind::StorageFull))
            }
            Some((number, after)) => {
                PLAN.set(Some((number - 1, after)));
                Ok(())
            }
        }
    }
}
