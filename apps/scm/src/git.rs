//! Git repositories, read by the program `git`: a folder of this machine as it is, everything else
//! through a mirror.

mod command;
mod commit;
#[cfg(test)]
mod foreign;
mod guard;
mod leg;
mod mirror;
mod numstat;
mod patch;
mod read;
mod remote;
mod walk;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde_json::json;

use self::{
    command::Git,
    commit::Commit,
    leg::Leg,
    read::Commits,
    remote::Place,
    walk::{HAND, Walk},
};
use crate::{
    Found, NewCommit, Note, Outlet, PatchWriter, Records, Repo, ScmError, Source, SourceOptions,
    Stream, Watermark,
};

/// Few messages are long, but all of them could be.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Programs that compare files at the same time, if there are processors for them.
const COMPARING_MAX: usize = 4;

/// A Git repository.
#[derive(Debug)]
pub struct GitSource {
    git: Git,
    url: String,
    place: Place,
    branch: Option<String>,
    options: SourceOptions,
}

impl GitSource {
    /// A repository. Nothing is read yet.
    pub fn open(repo: &Repo, options: &SourceOptions) -> Result<Self, ScmError> {
        let place = remote::place(&repo.url)?;
        if let Some(branch) = &repo.default_branch {
            remote::check_branch(branch)?;
        }
        guard::check(&options.reach, &repo.url, place)?;
        let dir = match place {
            Place::Here => git_dir(Path::new(&repo.url)),
            Place::Elsewhere => {
                let root = std::path::absolute(&options.mirrors_root);
                let root = root.unwrap_or_else(|_| options.mirrors_root.clone());
                root.join(format!("{}.git", repo.repo_id))
            }
        };
        let mut git = Git::new(&repo.url, &dir, options.silence_max);
        if place == Place::Elsewhere {
            git.allow_transports();
            remote::authenticate(&mut git, &repo.url, options);
        }
        Ok(Self {
            git,
            url: repo.url.clone(),
            place,
            branch: repo.default_branch.clone(),
            options: options.clone(),
        })
    }

    /// The commit up to which there is something to read; none if there is nothing at all.
    async fn tip(&self) -> Result<Option<String>, ScmError> {
        if self.place == Place::Elsewhere {
            return mirror::tip(&self.git).await;
        }
        let name = match &self.branch {
            Some(branch) => format!("refs/heads/{branch}"),
            None => "HEAD".to_owned(),
        };
        let commit = format!("{name}^{{commit}}");
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &commit,
        ];
        if let Ok(tip) = self.git.run(&arguments).await? {
            return Ok(Some(tip));
        }
        let any = self
            .git
            .ask(&["for-each-ref", "--count=1", "refs/heads"])
            .await?;
        match any.is_empty() {
            true => Ok(None),
            false => Err(ScmError::NotFound {
                source_name: self.git.name.clone(),
                detail: format!("there is no commit at {name}"),
            }),
        }
    }

    async fn has(&self, commit: &str) -> Result<bool, ScmError> {
        let name = format!("{commit}^{{commit}}");
        self.git.is(&["cat-file", "-e", &name]).await
    }

    /// The way to the tip, and what is to be said if it does not begin where the last one ended.
    async fn leg(
        &self,
        before: (Option<String>, Option<String>),
        tip: &str,
    ) -> Result<(Leg, Vec<Note>), ScmError> {
        let mut leg = Leg {
            base: before.0.clone(),
            before,
            target: tip.to_owned(),
            written: None,
        };
        let Some(base) = leg.base.clone() else {
            return Ok((leg, Vec::new()));
        };
        let is_known = self.has(&base).await?;
        if is_known
            && self
                .git
                .is(&["merge-base", "--is-ancestor", &base, tip])
                .await?
        {
            return Ok((leg, Vec::new()));
        }
        if !is_known {
            leg.base = None;
        }
        let note = Note {
            event_type: "scm_history_rewritten",
            payload: json!({"old": base, "new": tip, "old_is_gone": !is_known}),
        };
        Ok((leg, vec![note]))
    }

    /// Reads a way to its end.
    async fn walk(&self, leg: &Leg, mut notes: Vec<Note>, to: &Outlet) -> Result<(), ScmError> {
        let folder = &self.options.mirrors_root;
        let walk = Walk::list(&self.git, folder, leg.base.as_deref(), &leg.target).await?;
        let total = walk.total();
        let broken = |error| self.git.broken(&error);
        let mut position = match &leg.written {
            // Otherwise another Git lists another way: what is written is known, and read again.
            Some((done, last)) if (1..=total).contains(done) => {
                let is_same = walk.get(done - 1).map_err(broken)? == *last;
                if is_same { *done } else { 0 }
            }
            _ => 0,
        };
        if position == total {
            let place = leg.end(self.ts(&leg.target).await?.as_deref());
            return to.send(found(Vec::new(), place, 0, notes)).await;
        }
        let mut commits = self.commits(walk, position).await?;
        let mut batch = Batch::default();
        while let Some(commit) = commits.next().await? {
            position += 1;
            batch.push(commit);
            let is_full = batch.commits.len() >= self.options.batch_records_max
                || batch.bytes >= BATCH_BYTES_MAX;
            if !is_full && position < total {
                continue;
            }
            let batch = std::mem::take(&mut batch);
            let (last, ts) = batch.last();
            let place = match position < total {
                true => leg.place_after(position, &last),
                false => leg.end(ts.as_deref()),
            };
            let notes = std::mem::take(&mut notes);
            to.send(found(batch.commits, place, total - position, notes))
                .await?;
        }
        commits.finish().await?;
        match position == total {
            true => Ok(()),
            false => Err(ScmError::Protocol {
                source_name: self.git.name.clone(),
                detail: format!("git told {position} of {total} commits"),
            }),
        }
    }

    /// The commits of a walk from a place on.
    async fn commits(&self, walk: Walk, position: u64) -> Result<Commits, ScmError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let hands = usize::try_from((walk.total() - position).div_ceil(HAND));
        let hands = hands.unwrap_or(usize::MAX).min(cores).min(COMPARING_MAX);
        let dealt = tokio::task::spawn_blocking(move || walk.deal(position, hands)).await;
        let dealt = dealt.unwrap_or_else(|gone| Err(std::io::Error::other(gone)));
        let (all, dealt) = dealt.map_err(|error| self.git.broken(&error))?;
        Commits::open(&self.git, all, dealt)
    }

    /// When a commit was made.
    async fn ts(&self, commit: &str) -> Result<Option<String>, ScmError> {
        let object = self.git.ask(&["cat-file", "commit", commit]).await?;
        let commit = Commit::parse(object.as_bytes());
        Ok(commit.ts.map(|ts| ts.to_string()))
    }
}

#[async_trait]
impl Source for GitSource {
    fn name(&self) -> &str {
        &self.git.name
    }

    fn streams(&self) -> &[Stream] {
        &[Stream::Git]
    }

    async fn prepare(&self) -> Result<(), ScmError> {
        if self.place == Place::Elsewhere {
            let (branch, retry) = (self.branch.as_deref(), &self.options.retry);
            let pinned = async || guard::pinned(&self.git, &self.options.reach, &self.url).await;
            let (git, url) = retry.run(pinned).await?;
            return mirror::update(&git, &url, branch, retry).await;
        }
        self.git.ask(&["rev-parse", "--git-dir"]).await?;
        Ok(())
    }

    async fn read(&self, _: Stream, from: &Watermark, to: &Outlet) -> Result<(), ScmError> {
        let Some(tip) = self.tip().await? else {
            return Ok(());
        };
        let mut before = leg::before(&from.place);
        if let Some(stopped) = Leg::stopped(&from.place)
            && self.has(&stopped.target).await?
            && self.has_base(&stopped).await?
        {
            self.walk(&stopped, Vec::new(), to).await?;
            before = (
                Some(stopped.target.clone()),
                self.ts(&stopped.target).await?,
            );
        }
        if before.0.as_deref() == Some(tip.as_str()) {
            return Ok(());
        }
        let (leg, notes) = self.leg(before, &tip).await?;
        self.walk(&leg, notes, to).await
    }

    async fn diff(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        self.patch(rev_or_sha, &patch::DIFF, to).await
    }

    async fn diffstat(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        self.patch(rev_or_sha, &patch::DIFFSTAT, to).await
    }
}

impl GitSource {
    async fn has_base(&self, leg: &Leg) -> Result<bool, ScmError> {
        match &leg.base {
            Some(base) => self.has(base).await,
            None => Ok(true),
        }
    }
}

/// Commits that will be handed over together.
#[derive(Debug, Default)]
struct Batch {
    commits: Vec<NewCommit>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, commit: NewCommit) {
        self.bytes += commit.message.len() + commit.author_raw.len();
        let paths = commit.meta_json["paths"].as_array();
        let paths = paths.into_iter().flatten();
        self.bytes += paths
            .filter_map(|path| path.as_str())
            .map(str::len)
            .sum::<usize>();
        self.commits.push(commit);
    }

    fn last(&self) -> (String, Option<String>) {
        let last = self.commits.last();
        let name = last.map(|commit| commit.commit_sha.clone());
        let ts = last.and_then(|commit| commit.ts);
        (name.unwrap_or_default(), ts.map(|ts| ts.to_string()))
    }
}

fn found(commits: Vec<NewCommit>, place: crate::Place, remaining: u64, notes: Vec<Note>) -> Found {
    Found {
        records: Records::Commits(commits),
        place,
        remaining: Some(remaining),
        notes,
    }
}

/// Where Git keeps what belongs to a folder: in it, or it is that itself.
pub(crate) fn git_dir(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let inside = folder.join(".git");
    match inside.exists() {
        true => inside,
        false => folder,
    }
}
