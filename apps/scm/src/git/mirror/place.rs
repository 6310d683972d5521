//! Where mirrors are: one of what the repository is now and, once it was converted, one of what it was.
//!
//! Folders are only ever renamed, never removed: whatever a server says and wherever we are stopped,
//! what was fetched is still there.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{super::command::Git, init};
use crate::ScmError;

/// How commits can be named.
const NAMES: [&str; 2] = ["sha1", "sha256"];

/// The other way to name commits.
pub(super) fn other(names: &str) -> Option<&'static str> {
    NAMES.contains(&names).then_some(())?;
    NAMES.into_iter().find(|other| *other != names)
}

/// The mirror of commits that are named so, while the repository has others.
pub(super) fn beside(git: &Git, names: &str) -> PathBuf {
    git.dir().with_extension(format!("{names}.git"))
}

/// Who has this commit, if it is not the mirror of today.
pub(in super::super) fn older(git: &Git, commit: &str) -> Option<Git> {
    let names = if commit.len() == 64 { "sha256" } else { "sha1" };
    let dir = beside(git, names);
    dir.is_dir().then(|| git.at(dir))
}

/// Makes a mirror usable: an empty one if there is none or it is damaged.
pub(super) async fn ready(git: &Git, names: &str) -> Result<(), ScmError> {
    if git.dir().exists() {
        if is_whole(git).await? {
            return Ok(());
        }
        put_aside(git)?;
    }
    match take_back(git)? {
        true => Ok(()),
        false => init(git, names).await,
    }
}

/// Whether it is a repository that has what it names.
async fn is_whole(git: &Git) -> Result<bool, ScmError> {
    let named = ["for-each-ref", "--format=%(objecttype)", "refs/consign"];
    Ok(git.run(&["rev-parse", "--git-dir"]).await?.is_ok() && git.run(&named).await?.is_ok())
}

/// There may be something in it that can no longer be fetched.
fn put_aside(git: &Git) -> Result<(), ScmError> {
    let (from, to) = (git.dir(), git.dir().with_extension("damaged.git"));
    if to.exists() {
        let (from, to) = (from.display(), to.display());
        return Err(ScmError::Protocol {
            source_name: git.name.clone(),
            detail: format!("the mirror {from} is damaged, and so was {to}: delete that one"),
        });
    }
    tracing::warn!(mirror = %from.display(), kept = %to.display(), "a damaged mirror is made anew");
    rename(git, from, &to)
}

/// Somebody was stopped between two renames, or deleted a mirror.
fn take_back(git: &Git) -> Result<bool, ScmError> {
    let older = NAMES.map(|names| beside(git, names));
    match older.iter().find(|dir| dir.is_dir()) {
        Some(dir) => rename(git, dir, git.dir()).map(|()| true),
        None => Ok(false),
    }
}

/// A mirror takes the place of the one that was used so far, which stays beside it.
pub(super) fn replace(git: &Git, new: &Git, names_before: &str) -> Result<(), ScmError> {
    let kept = beside(git, names_before);
    tracing::warn!(mirror = %git.dir().display(), kept = %kept.display(),
        "a repository was converted: the mirror of its old commits is kept");
    rename(git, git.dir(), &kept)?;
    rename(git, new.dir(), git.dir())
}

fn rename(git: &Git, from: &Path, to: &Path) -> Result<(), ScmError> {
    let failed = |error: io::Error| ScmError::Protocol {
        source_name: git.name.clone(),
        detail: format!("{} to {}: {error}", from.display(), to.display()),
    };
    fs::rename(from, to).map_err(failed)
}
