//! The change of one commit.

use std::process::Stdio;

use tokio::io::AsyncReadExt;

use super::{GitSource, leg::is_commit, mirror, remote::RemoteLocation};
use crate::{PatchWriter, ScmError, Source};

const PIECE_BYTES: usize = 64 << 10;
/// Fixed options: the same commit gives the same bytes under any configuration.
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
            return Err(ScmError::Invalid(format!(
                "{commit:?} is not a commit name"
            )));
        }
        // The mirror is a copy and may have been deleted.
        if self.place == RemoteLocation::Elsewhere && !self.git.dir().exists() {
            self.prepare().await?;
        }
        let older = match self.place {
            RemoteLocation::Elsewhere => mirror::older(&self.git, commit),
            RemoteLocation::Here => None,
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
