//! A bare mirror of one branch of a remote repository.

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

/// The last fetched tip.
pub(super) const TIP: &str = "refs/consign/tip";
/// The tip when the last fetch began.
const BEFORE: &str = "refs/consign/before";
/// Commits that were fetched and are no longer on the branch: their changes may still be requested.
const ABANDONED: &str = "refs/consign/abandoned";

/// Updates the mirror. One process at a time.
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

/// Fetches, and keeps refs to commits that left the branch, also after an interruption. Returns the
/// hash algorithm of the remote if it differs from the mirror's.
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

/// Creates a mirror with the new hash algorithm. It replaces the old one once it is complete.
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
            detail: "its hash algorithm changes between requests".to_owned(),
        }),
    }
}

/// The tip before the last fetch may be unreachable by now.
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

/// Sets a ref.
async fn point(git: &Git, name: &str, commit: &str) -> Result<(), ScmError> {
    // This process holds the mirror's lock, so a leftover lock file is stale.
    drop(fs::remove_file(git.dir().join(format!("{name}.lock"))));
    git.run_local(&["update-ref", name, commit]).await.map(drop)
}

/// Creates an empty mirror with this hash algorithm.
async fn init(git: &Git, names: &str) -> Result<(), ScmError> {
    let dir = git.dir().to_string_lossy().into_owned();
    let names = format!("--object-format={names}");
    let arguments = [
        "init",
        "--quiet",
        "--bare",
        "--template=",
        // Data read with a token must not be readable by other users.
        "--shared=0600",
        &names,
        "--",
        &dir,
    ];
    git.run_local(&arguments).await.map(drop)
}

/// The last fetched commit; `None` if the repository was empty.
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

/// Returns the hash algorithm of the remote if it differs from the mirror's.
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
    // Progress output makes silence detectable; packing runs later.
    let arguments = ["fetch", "--progress", "--no-auto-gc", "--no-tags"];
    let wanted = ["--no-recurse-submodules", "--no-write-fetch-head", "--"];
    let arguments = [&arguments[..], &wanted, &[url, &what]].concat();
    let Err(failure) = git.reach(&arguments).await? else {
        return Ok(None);
    };
    let ours = git
        .run_local(&["rev-parse", "--show-object-format"])
        .await?;
    if let Some(theirs) = names_there(&failure.stderr, &ours) {
        return Ok(Some(theirs));
    }
    if failure.stderr.contains("couldn't find remote ref") && is_empty(git, url).await? {
        return Ok(None);
    }
    Err(remote::failure(&git.name, &failure))
}

/// The remote's hash algorithm, if Git reports it as the cause. The server may have sent the same
/// text, so nothing is discarded because of it.
fn names_there(stderr: &str, ours: &str) -> Option<&'static str> {
    let theirs = place::other(ours)?;
    let expected = format!("fatal: mismatched algorithms: client {ours}; server {theirs}");
    let mut lines = stderr.split(['\n', '\r']);
    lines.any(|line| line == expected).then_some(theirs)
}

/// Whether the remote has no branch at all. Then an absent branch is not an error.
async fn is_empty(git: &Git, url: &str) -> Result<bool, ScmError> {
    match git
        .reach(&["ls-remote", "--quiet", "--heads", "--", url])
        .await?
    {
        Ok(branches) => Ok(branches.is_empty()),
        Err(failure) => Err(remote::failure(&git.name, &failure)),
    }
}

/// Waits for the mirror's lock, with a time limit. The lock is released with the file, also by a
/// crash.
async fn lock(git: &Git, retry: &Retry) -> Result<fs::File, ScmError> {
    let failed = |error: io::Error| {
        ScmError::Invalid(format!(
            "cannot use the mirror {}: {error}",
            git.dir().display()
        ))
    };
    let folder = git.dir().parent().unwrap_or(Path::new("."));
    // Data read with a token must not be readable by other users.
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
                        "another process has held its mirror's lock for {:?}",
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
    fn only_gits_own_message_reports_the_hash_algorithm() {
        let stderr = "x\nfatal: mismatched algorithms: client sha1; server sha256\n";
        assert_eq!(names_there(stderr, "sha1"), Some("sha256"));
        assert_eq!(names_there(stderr, "sha256"), None);
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
