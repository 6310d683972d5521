//! The change of one commit.

use std::process::Stdio;

use tokio::io::AsyncReadExt;

use super::{GitSource, leg::is_commit, mirror, remote::Place};
use crate::{PatchWriter, ScmError, Source};

const PIECE_BYTES: usize = 64 << 10;
/// As everybody's Git writes it, whatever is set here: the same commit makes the same bytes.
const COMMON: [&str; 11] = [
    "diff-tree",
    "-r",
    "-M",
    "--root",
    "--no-commit-id",
    "--diff-merges=first-parent",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--diff-algorithm=myers",
    "--submodule=short",
];
pub(super) const DIFF: [&str; 5] = [
    "--patch",
    "--unified=3",
    "--full-index",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];
pub(super) const DIFFSTAT: [&str; 2] = ["--stat=120", "--summary"];

impl GitSource {
    pub(super) async fn patch(
        &self,
        commit: &str,
        kind: &[&str],
        to: &mut PatchWriter,
    ) -> Result<(), ScmError> {
        if !is_commit(commit) {
            return Err(ScmError::Invalid(format!("{commit:?} is no commit")));
        }
        // Somebody removed the mirror: it is a copy.
        if self.place == Place::Elsewhere && !self.git.dir().exists() {
            self.prepare().await?;
        }
        let older = match self.place {
            Place::Elsewhere => mirror::older(&self.git, commit),
            Place::Here => None,
        };
        let git = older.as_ref().unwrap_or(&self.git);
        let arguments = [&COMMON[..], kind, &[commit, "--"]].concat();
        let mut running = git.spawn(&arguments, Stdio::null(), Stdio::piped())?;
        if let Some(mut stdout) = running.stdout.take() {
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let length = self.git.in_time(stdout.read(&mut piece)).await?;
                if length == 0 {
                    break;
                }
                to.write(&piece[..length]).await?;
            }
        }
        let finished = running.finish().await?;
        finished.map_err(|failure| failure.here(&self.git.name))
    }
}
