//! A bare copy of a remote repository, of one branch.

use std::{fs, io, path::Path, time::Instant};

use super::{
    command::Git,
    remote::{self, check_branch},
};
use crate::{Retry, ScmError};

/// What was fetched last.
pub(super) const TIP: &str = "refs/consign/tip";
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
    if !git.dir().join("HEAD").exists() {
        init(git, "sha1").await?;
    }
    // We hold the lock: whoever made these is gone.
    for left in [
        "refs/consign/tip.lock",
        "packed-refs.lock",
        "shallow.lock",
        "FETCH_HEAD.lock",
    ] {
        drop(fs::remove_file(git.dir().join(left)));
    }
    let before = tip(git).await?;
    if let Some(names) = retry.run(|| fetch(git, url, branch)).await? {
        // A mirror is a copy: it can be made anew, with the names that commits have there.
        fs::remove_dir_all(git.dir()).map_err(|error| git.broken(&error))?;
        init(git, names).await?;
        if retry.run(|| fetch(git, url, branch)).await?.is_some() {
            return Err(ScmError::Protocol {
                source_name: git.name.clone(),
                detail: "it names commits now so, now otherwise".to_owned(),
            });
        }
    }
    tidy_up(git).await?;
    if let (Some(before), Some(after)) = (before, tip(git).await?)
        && before.len() == after.len()
        && before != after
        && !git
            .is(&["merge-base", "--is-ancestor", &before, &after])
            .await?
    {
        git.ask(&["update-ref", &format!("{ABANDONED}/{before}"), &before])
            .await?;
    }
    Ok(())
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
        &names,
        "--",
        &dir,
    ];
    git.ask(&arguments).await.map(drop)
}

/// Packs what many fetches have left, if it is time to. A mirror that is not packed is a mirror.
async fn tidy_up(git: &Git) -> Result<(), ScmError> {
    let why = match git.run(&["gc", "--auto", "--quiet"]).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(failure)) => failure.detail(),
        Err(error @ ScmError::Timeout { .. }) => error.to_string(),
        Err(error) => return Err(error),
    };
    tracing::warn!(mirror = %git.dir().display(), why, "git gc failed");
    Ok(())
}

/// The commit that was fetched last; none if the repository was empty.
pub(super) async fn tip(git: &Git) -> Result<Option<String>, ScmError> {
    let name = format!("{TIP}^{{commit}}");
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
    for names in ["sha1", "sha256"] {
        let told = format!("server {names}");
        let said = failure.said.split_once("mismatched algorithms: ");
        if said.is_some_and(|(_, said)| said.lines().next().unwrap_or_default().ends_with(&told)) {
            return Ok(Some(names));
        }
    }
    if failure.said.contains("couldn't find remote ref") && is_empty(git, url).await? {
        return Ok(None);
    }
    Err(remote::failure(&git.name, &failure))
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
    fs::create_dir_all(folder).map_err(failed)?;
    let file = fs::File::create(git.dir().with_extension("lock")).map_err(failed)?;
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
