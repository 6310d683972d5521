//! Lists the commits to read, oldest first.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, FileExt},
    path::{Path, PathBuf},
    process::{self, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use super::command::Git;
use crate::ScmError;

/// Commits per share.
pub(super) const HAND: u64 = 100;

/// The names of commits, one per line, in an unnamed file: they are not held in memory, and the
/// `git` processes read them from there.
#[derive(Debug)]
pub(super) struct Walk {
    folder: PathBuf,
    list: File,
    reader: File,
    line_bytes: u64,
    total: u64,
}

impl Walk {
    /// All ancestors of a commit that are not ancestors of another, parents first. The same two
    /// commits give the same list.
    pub(super) async fn list(
        git: &Git,
        folder: &Path,
        base: Option<&str>,
        target: &str,
    ) -> Result<Self, ScmError> {
        let failed = |error: io::Error| {
            let folder = folder.display();
            ScmError::Invalid(format!(
                "cannot write lists of commits in {folder}: {error}"
            ))
        };
        let (list, reader) = nameless(folder).map_err(failed)?;
        let without = base.map(|base| format!("^{base}"));
        let mut arguments = vec!["rev-list", "--reverse", "--topo-order", target];
        arguments.extend(without.as_deref());
        arguments.push("--");
        let stdout = list.try_clone().map_err(failed)?;
        let running = git.spawn(&arguments, Stdio::null(), stdout.into())?;
        let finished = running.finish().await?;
        finished.map_err(|failure| failure.here(&git.name))?;
        let line_bytes = target.len() as u64 + 1;
        let bytes = list.metadata().map_err(failed)?.len();
        if bytes % line_bytes != 0 {
            let source_name = git.name.clone();
            let detail = "git rev-list printed a line that is not a commit".to_owned();
            return Err(ScmError::Protocol {
                source_name,
                detail,
            });
        }
        Ok(Self {
            folder: folder.to_owned(),
            list,
            reader,
            line_bytes,
            total: bytes / line_bytes,
        })
    }

    /// Number of commits.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The commit at a position.
    pub(super) fn get(&self, position: u64) -> io::Result<String> {
        let mut line = vec![0; self.line_bytes as usize - 1];
        let offset = position * self.line_bytes;
        self.list.read_exact_at(&mut line, offset)?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// The list from a position on, whole and split into shares of [`HAND`] commits in turn.
    /// Blocks.
    pub(super) fn deal(mut self, position: u64, hands: usize) -> io::Result<(Stdio, Vec<Stdio>)> {
        let start = SeekFrom::Start(position * self.line_bytes);
        self.reader.seek(start)?;
        let mut files = Vec::new();
        for _ in 0..hands {
            let (file, reader) = nameless(&self.folder)?;
            files.push((BufWriter::new(file), reader));
        }
        let mut hand = Vec::new();
        for n in (0..hands).cycle() {
            hand.clear();
            let next = (&mut self.reader).take(HAND * self.line_bytes);
            if { next }.read_to_end(&mut hand)? == 0 {
                break;
            }
            files[n].0.write_all(&hand)?;
        }
        let mut dealt = Vec::new();
        for (file, reader) in files {
            file.into_inner().map_err(io::IntoInnerError::into_error)?;
            dealt.push(reader.into());
        }
        self.reader.seek(start)?;
        Ok((self.reader.into(), dealt))
    }
}

/// A file for writing and the same for reading, each with its own offset. Unlinked at once, so
/// nothing is left behind.
fn nameless(folder: &Path) -> io::Result<(File, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Data read with a token must not be readable by other users.
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".commits-{}-{number}", process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let list = options.open(&path)?;
    let reader = File::open(&path);
    std::fs::remove_file(&path)?;
    Ok((list, reader?))
}
