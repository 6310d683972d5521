//! Which commits there are to read, oldest first.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
    process::{self, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use super::command::Git;
use crate::ScmError;

/// The names of commits, a line each, in a file that has no name: however many there are, they are
/// not held in memory, and the programs that read commits take them from there.
#[derive(Debug)]
pub(super) struct Walk {
    list: File,
    readers: [File; 2],
    line_bytes: u64,
    total: u64,
}

impl Walk {
    /// All that leads to a commit and not to another, parents first. The same two commits make the
    /// same list.
    pub(super) async fn list(
        git: &Git,
        folder: &Path,
        base: Option<&str>,
        target: &str,
    ) -> Result<Self, ScmError> {
        let failed = |error: io::Error| {
            let folder = folder.display();
            ScmError::Invalid(format!(
                "{folder} cannot be used for lists of commits: {error}"
            ))
        };
        let (list, readers) = open(folder).map_err(failed)?;
        let without = base.map(|base| format!("^{base}"));
        let mut arguments = vec!["rev-list", "--reverse", "--topo-order", target];
        arguments.extend(without.as_deref());
        arguments.push("--");
        let stdout = list.try_clone().map_err(failed)?;
        let running = git.spawn(&arguments, Stdio::null(), stdout.into())?;
        running
            .finish()
            .await?
            .map_err(|failure| failure.here(&git.name))?;
        let line_bytes = target.len() as u64 + 1;
        let bytes = list.metadata().map_err(failed)?.len();
        if bytes % line_bytes != 0 {
            let source_name = git.name.clone();
            let detail = "git rev-list answered something else than commits".to_owned();
            return Err(ScmError::Protocol {
                source_name,
                detail,
            });
        }
        Ok(Self {
            list,
            readers,
            line_bytes,
            total: bytes / line_bytes,
        })
    }

    /// How many there are.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The commit at a place in the list.
    pub(super) fn get(&self, position: u64) -> io::Result<String> {
        let mut line = vec![0; self.line_bytes as usize - 1];
        self.list
            .read_exact_at(&mut line, position * self.line_bytes)?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// The list from a place on, for two programs that read it each at its own pace.
    pub(super) fn from(self, position: u64) -> io::Result<[Stdio; 2]> {
        let start = SeekFrom::Start(position * self.line_bytes);
        let [mut one, mut other] = self.readers;
        one.seek(start)?;
        other.seek(start)?;
        Ok([one.into(), other.into()])
    }
}

/// A file to write and twice the same to read, each with a place of its own. Its name is gone at once:
/// nothing is left behind, whatever happens.
fn open(folder: &Path) -> io::Result<(File, [File; 2])> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    std::fs::create_dir_all(folder)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".commits-{}-{number}", process::id()));
    let list = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    let readers = File::open(&path).and_then(|one| Ok([one, File::open(&path)?]));
    std::fs::remove_file(&path)?;
    Ok((list, readers?))
}
