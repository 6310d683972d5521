//! A file that lines are appended to, and that others may rename to rotate it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::PathBuf,
};

/// Where writing a line failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("the log could not be opened: {0}")]
    Open(io::Error),
    #[error("the line could not be written: {0}")]
    Write(io::Error),
    #[error("the line was written, but perhaps not to the disk: {0}")]
    Sync(io::Error),
}

/// A file opened when first needed, and again whenever its name means another one.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    sync: bool,
    open: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Device and number of the file, by which a rename is noticed.
    identity: (u64, u64),
    /// The last line has no end, because a write broke off in it.
    torn: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, sync: bool) -> Self {
        Self {
            path,
            sync,
            open: None,
        }
    }

    /// Appends a line, which ends with a line end.
    pub(super) fn append(&mut self, line: &[u8]) -> Result<(), WriteError> {
        let sync = self.sync;
        let open = self.current().map_err(WriteError::Open)?;
        if open.torn {
            open.file.write_all(b"\n").map_err(WriteError::Write)?;
            open.torn = false;
        }
        // One write, so that lines of several processes do not mix.
        if let Err(error) = open.file.write_all(line) {
            open.torn = true;
            return Err(WriteError::Write(error));
        }
        if sync && let Err(error) = open.file.sync_data() {
            self.open = None;
            return Err(WriteError::Sync(error));
        }
        Ok(())
    }

    /// The file that the path names now.
    fn current(&mut self) -> io::Result<&mut OpenFile> {
        let still_there = self.open.as_ref().is_some_and(|open| {
            let now = std::fs::metadata(&self.path);
            now.is_ok_and(|now| (now.dev(), now.ino()) == open.identity)
        });
        if !still_there {
            self.open = Some(self.reopen()?);
        }
        Ok(self.open.as_mut().expect("invariant: opened above"))
    }

    fn reopen(&self) -> io::Result<OpenFile> {
        let is_file = std::fs::metadata(&self.path).map_or(true, |found| found.is_file());
        // Pipes and devices are only written to; a file's last byte is looked at.
        let mut file = OpenOptions::new()
            .append(true)
            .read(is_file)
            .create(true)
            .mode(0o600)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        let torn = metadata.is_file() && !ends_with_line(&mut file)?;
        if self.sync {
            self.sync_folder()?;
        }
        Ok(OpenFile {
            file,
            identity: (metadata.dev(), metadata.ino()),
            torn,
        })
    }

    /// A new file is safe only once the folder that names it is.
    fn sync_folder(&self) -> io::Result<()> {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    }
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    let mut seen = None;
    loop {
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(true);
        }
        file.seek(SeekFrom::Start(length - 1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last == *b"\n" {
            return Ok(true);
        }
        // Half a line that still grows is being written by another process.
        if seen == Some(length) {
            return Ok(false);
        }
        seen = Some(length);
        std::thread::yield_now();
    }
}
