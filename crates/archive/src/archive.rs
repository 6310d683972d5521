//! The folder of an archive.

use std::{
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::{Error, IdRange, Manifest, Records, Result, disk, lines::Lines, name::Name};

const LOCK: &str = ".lock";

/// A folder of archived messages.
#[derive(Clone, Debug)]
pub struct Archive {
    folder: PathBuf,
}

/// The exclusive right to change an archive, among all processes. Released when dropped.
///
/// Every call that writes takes it; hold it to copy or move the files of the folder meanwhile.
#[derive(Debug)]
#[must_use = "the lock is released when it is dropped"]
pub struct WriteLock {
    pub(crate) archive: Archive,
    _file: File,
}

impl Archive {
    /// Opens an archive; creates the folder if it does not exist.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        disk::create_folder(&folder)?;
        Ok(Self { folder })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Locks the archive against other writers, or fails at once if another one holds the lock.
    pub fn lock(&self) -> Result<WriteLock> {
        let path = self.path(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(WriteLock {
                archive: self.clone(),
                _file: file,
            }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked {
                folder: self.folder.clone(),
            }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }

    /// The manifests of all ranges, in ascending order of their first ids.
    pub fn manifests(&self) -> Result<Vec<Manifest>> {
        let mut manifests = Vec::new();
        for name in self.names()? {
            if let Name::Manifest { range } = name {
                manifests.push(Manifest::load(&self.path(name), range)?);
            }
        }
        manifests.sort_by_key(Manifest::range);
        Ok(manifests)
    }

    /// The records of one data file, in ascending order of ids.
    pub fn read(&self, manifest: &Manifest) -> Result<Records> {
        let lines = Lines::open(self.path(&manifest.file), manifest)?;
        Ok(Records { lines })
    }

    /// The manifest of a range, if the range was archived.
    pub(crate) fn manifest(&self, range: IdRange) -> Result<Option<Manifest>> {
        let path = self.path(Name::Manifest { range });
        let exists = path.try_exists().map_err(Error::io("read", &path))?;
        exists.then(|| Manifest::load(&path, range)).transpose()
    }

    pub(crate) fn path(&self, name: impl fmt::Display) -> PathBuf {
        self.folder.join(name.to_string())
    }

    /// The files of the folder that writers make.
    pub(crate) fn names(&self) -> Result<Vec<Name>> {
        let unreadable = || Error::io("read", &self.folder);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unreadable())? {
            let name = entry.map_err(unreadable())?.file_name();
            names.extend(name.to_str().and_then(Name::parse));
        }
        Ok(names)
    }
}
