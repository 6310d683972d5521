//! Locations of mirrors: the current one and, after a conversion of the hash algorithm, the former
//! one.
//!
//! Folders are only renamed, never removed: fetched data survives any server answer and any
//! interruption.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{super::command::Git, init};
use crate::ScmError;

/// Hash algorithms.
const NAMES: [&str; 2] = ["sha1", "sha256"];

/// The other hash algorithm.
pub(super) fn other(names: &str) -> Option<&'static str> {
    NAMES.contains(&names).then_some(())?;
    NAMES.into_iter().find(|other| *other != names)
}

/// The location of the mirror with the other hash algorithm.
pub(super) fn beside(git: &Git, names: &str) -> PathBuf {
    git.dir().with_extension(format!("{names}.git"))
}

/// The former mirror, if it has this commit and the current one does not.
pub(in super::super) fn older(git: &Git, commit: &str) -> Option<Git> {
    let names = if commit.len() == 64 { "sha256" } else { "sha1" };
    let dir = beside(git, names);
    dir.is_dir().then(|| git.at(dir))
}

/// Prepares a mirror; creates an empty one if it is missing or damaged.
pub(super) async fn ready(git: &Git, names: &str) -> Result<(), ScmError> {
    if git.dir().exists() {
        if is_whole(git).await? {
            return Ok(());
        }
        put_aside(git)?;
    }
    if take_back(git)? {
        Ok(())
    } else {
        init(git, names).await
    }
}

/// Whether it is a repository with the objects of its refs.
async fn is_whole(git: &Git) -> Result<bool, ScmError> {
    let named = ["for-each-ref", "--format=%(objecttype)", "refs/consign"];
    Ok(git.run(&["rev-parse", "--git-dir"]).await?.is_ok() && git.run(&named).await?.is_ok())
}

/// Keeps a damaged mirror, because it may have commits that can no longer be fetched.
fn put_aside(git: &Git) -> Result<(), ScmError> {
    let (from, to) = (git.dir(), git.dir().with_extension("damaged.git"));
    if to.exists() {
        let (from, to) = (from.display(), to.display());
        return Err(ScmError::Protocol {
            source_name: git.name.clone(),
            detail: format!(
                "the mirror {from} is damaged, and an earlier damaged one is at {to}: delete {to}"
            ),
        });
    }
    tracing::warn!(mirror = %from.display(), kept = %to.display(), "a damaged mirror is replaced");
    rename(git, from, &to)
}

/// Recovers from an interruption between two renames, or from a deleted mirror.
fn take_back(git: &Git) -> Result<bool, ScmError> {
    let older = NAMES.map(|names| beside(git, names));
    match older.iter().find(|dir| dir.is_dir()) {
        Some(dir) => rename(git, dir, git.dir()).map(|()| true),
        None => Ok(false),
    }
}

/// Replaces the current mirror, which is kept beside it.
pub(super) fn replace(git: &Git, new: &Git, names_before: &str) -> Result<(), ScmError> {
    let kept = beside(git, names_before);
    tracing::warn!(mirror = %git.dir().display(), kept = %kept.display(),
        "the repository's hash algorithm changed: the former mirror is kept");
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
