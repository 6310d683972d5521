//! A bare copy of a remote repository, of one branch.

mod place;
mod tidy;

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    time::Instant,
};

pub(super) use self::place::older;
use super::{
    command::Git,
    remote::{self, check_branch},
};
use crate::{Retry, ScmError};

/// What was fetched last.
pub(super) const TIP: &str = "refs/consign/tip";
/// What had been fetched when the last fetch began.
const BEFORE: &str = "refs/consign/before";
/// What was fetched once and is no part of the branch any more: its changes may still be asked for.
const ABANDONED: &str = "refs/consign/abandoned";

/// Brings it up to date. One process at a time does.
pub(super) async fn update(
    git: &Git,
    url: &str,
    branch: Option<&str>,
    retry: &Retry,
) -> Result<(), ScmError> {
    let _lock = lock(git, retry).await?;
    tidy::clear(git);
    place::ready(git, "sha1").await?;
    match renew(git, url, branch, retry).await? {
        Some(names) => convert(git, names, url, branch, retry).await?,
        None => tidy::pack(git, tidy::PACKING_MAX).await?,
    }
    Ok(())
}

/// Fetches, and gives a name to what is no part of the branch any more, wherever it was stopped before.
/// Answers how commits are named there, if that is not how they are named here.
async fn renew(
    git: &Git,
    url: &str,
    branch: Option<&str>,
    retry: &Retry,
) -> Result<Option<&'static str>, ScmError> {
    hold_abandoned(git).await?;
    if let Some(tip) = tip(git).await? {
        point(git, BEFORE, &tip).await?;
    }
    let named_otherwise = retry.run(|| fetch(git, url, branch)).await?;
    hold_abandoned(git).await?;
    Ok(named_otherwise)
}

/// Makes a mirror of the commits under their new names. It takes the old one's place once it is there.
async fn convert(
    git: &Git,
    names: &str,
    url: &str,
    branch: Option<&str>,
    retry: &Retry,
) -> Result<(), ScmError> {
    let new = git.at(place::beside(git, names));
    tidy::clear(&new);
    place::ready(&new, names).await?;
    let otherwise = renew(&new, url, branch, retry).await?;
    match (place::other(names), otherwise) {
        (Some(before), None) if tip(&new).await?.is_some() => place::replace(git, &new, before),
        (Some(_), None) => Ok(()),
        _ => Err(ScmError::Protocol {
            source_name: git.name.clone(),
            detail: "it names commits now so, now otherwise".to_owned(),
        }),
    }
}

/// What the last fetch began with may be reached from nowhere by now.
async fn hold_abandoned(git: &Git) -> Result<(), ScmError> {
    if let (Some(before), Some(after)) = (commit_at(git, BEFORE).await?, tip(git).await?)
        && before != after
        && !git
            .is(&["merge-base", "--is-ancestor", &before, &after])
            .await?
    {
        point(git, &format!("{ABANDONED}/{before}"), &before).await?;
    }
    Ok(())
}

/// Gives a commit a name.
async fn point(git: &Git, name: &str, commit: &str) -> Result<(), ScmError> {
    // We hold the mirror's lock: whoever made this one is gone.
    drop(fs::remove_file(git.dir().join(format!("{name}.lock"))));
    git.ask(&["update-ref", name, commit]).await.map(drop)
}

/// An empty mirror whose commits are named by this hash.
async fn init(git: &Git, names: &str) -> Result<(), ScmError> {
    let dir = git.dir().to_string_lossy().into_owned();
    let names = format!("--object-format={names}");
    let arguments = [
        "init",
        "--quiet",
        "--bare",
        "--template=",
        // What is read with a token is not for other users of this machine.
        "--shared=0600",
        &names,
        "--",
        &dir,
    ];
    git.ask(&arguments).await.map(drop)
}

/// The commit that was fetched last; none if the repository was empty.
pub(super) async fn tip(git: &Git) -> Result<Option<String>, ScmError> {
    commit_at(git, TIP).await
}

async fn commit_at(git: &Git, name: &str) -> Result<Option<String>, ScmError> {
    let name = format!("{name}^{{commit}}");
    let found = git
        .run(&["rev-parse", "--verify", "--quiet", &name])
        .await?;
    Ok(found.ok().filter(|commit| !commit.is_empty()))
}

/// Answers how commits are named there, if that is not how they are named here.
async fn fetch(
    git: &Git,
    url: &str,
    branch: Option<&str>,
) -> Result<Option<&'static str>, ScmError> {
    let from = match branch {
        Some(branch) => {
            check_branch(branch)?;
            format!("refs/heads/{branch}")
        }
        None => "HEAD".to_owned(),
    };
    let what = format!("+{from}:{TIP}");
    // It tells how it gets on, so that silence means something; it tidies up when nobody waits for that.
    let arguments = ["fetch", "--progress", "--no-auto-gc", "--no-tags"];
    let wanted = ["--no-recurse-submodules", "--no-write-fetch-head", "--"];
    let arguments = [&arguments[..], &wanted, &[url, &what]].concat();
    let Err(failure) = git.reach(&arguments).await? else {
        return Ok(None);
    };
    let ours = git.ask(&["rev-parse", "--show-object-format"]).await?;
    if let Some(theirs) = names_there(&failure.said, &ours) {
        return Ok(Some(theirs));
    }
    if failure.said.contains("couldn't find remote ref") && is_empty(git, url).await? {
        return Ok(None);
    }
    Err(remote::failure(&git.name, &failure))
}

/// How commits are named there, if Git says that this is what it failed at. The server may have written
/// the same, so nothing is given up because of it.
fn names_there(said: &str, ours: &str) -> Option<&'static str> {
    let theirs = place::other(ours)?;
    let told = format!("fatal: mismatched algorithms: client {ours}; server {theirs}");
    let mut lines = said.split(['\n', '\r']);
    lines.any(|line| line == told).then_some(theirs)
}

/// Whether it has no branch at all. Then there is nothing to find, and nothing is missing.
async fn is_empty(git: &Git, url: &str) -> Result<bool, ScmError> {
    match git
        .reach(&["ls-remote", "--quiet", "--heads", "--", url])
        .await?
    {
        Ok(branches) => Ok(branches.is_empty()),
        Err(failure) => Err(remote::failure(&git.name, &failure)),
    }
}

/// Waits until nobody else works on the mirror, but not for ever. The lock ends with the file, also by
/// a crash.
async fn lock(git: &Git, retry: &Retry) -> Result<fs::File, ScmError> {
    let failed = |error: io::Error| {
        ScmError::Invalid(format!(
            "the mirror {} cannot be used: {error}",
            git.dir().display()
        ))
    };
    let folder = git.dir().parent().unwrap_or(Path::new("."));
    // What is read with a token is not for other users of this machine.
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(failed)?;
    let mut options = fs::File::options();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options
        .open(git.dir().with_extension("lock"))
        .map_err(failed)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if begun.elapsed() >= git.patience => {
                return Err(ScmError::Network {
                    source_name: git.name.clone(),
                    tries: 1,
                    detail: format!(
                        "another process has been at work on its mirror for {:?}",
                        git.patience
                    ),
                });
            }
            Err(fs::TryLockError::WouldBlock) => (retry.wait)(retry.first_wait).await,
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_git_says_how_commits_are_named() {
        let said = "x\nfatal: mismatched algorithms: client sha1; server sha256\n";
        assert_eq!(names_there(said, "sha1"), Some("sha256"));
        assert_eq!(names_there(said, "sha256"), None);
        let back = "fatal: mismatched algorithms: client sha256; server sha1";
        assert_eq!(names_there(back, "sha256"), Some("sha1"));
        for other in [
            "remote: fatal: mismatched algorithms: client sha1; server sha256",
            "fatal: remote error: mismatched algorithms: client sha1; server sha256",
            "fatal: mismatched algorithms: client sha1; server sha1",
            "fatal: mismatched algorithms: client sha1; server sha512",
            "fatal: mismatched algorithms: server sha256",
        ] {
            assert_eq!(names_there(other, "sha1"), None, "{other}");
        }
    }
}
