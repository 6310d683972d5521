//! Git repositories, read by the program `git`: a local folder directly, others through a mirror.

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
    leg::CommitRange,
    read::Commits,
    remote::RemoteLocation,
    walk::{HAND, Walk},
};
use crate::{
    BatchSender, NewCommit, Note, PatchWriter, Records, Repo, ScmError, Source, SourceBatch,
    SourceOptions, Stream, Watermark,
};

/// Bounds the memory of a batch with long messages.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Maximum concurrent diff processes, if there are enough processors.
const COMPARING_MAX: usize = 4;

/// A Git repository.
#[derive(Debug)]
pub struct GitSource {
    git: Git,
    url: String,
    place: RemoteLocation,
    branch: Option<String>,
    options: SourceOptions,
}

impl GitSource {
    /// A repository. Reads nothing yet.
    pub fn open(repo: &Repo, options: &SourceOptions) -> Result<Self, ScmError> {
        let place = remote::place(&repo.url)?;
        if let Some(branch) = &repo.default_branch {
            remote::check_branch(branch)?;
        }
        guard::check(&options.reach, &repo.url, place)?;
        let dir = match place {
            RemoteLocation::Here => git_dir(Path::new(&repo.url)),
            RemoteLocation::Elsewhere => {
                let root = std::path::absolute(&options.mirrors_root);
                let root = root.unwrap_or_else(|_| options.mirrors_root.clone());
                root.join(format!("{}.git", repo.repo_id))
            }
        };
        let mut git = Git::new(&repo.url, &dir, options.silence_max);
        if place == RemoteLocation::Elsewhere {
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

    /// The commit up to which there is something to read; `None` if the repository is empty.
    async fn tip(&self) -> Result<Option<String>, ScmError> {
        if self.place == RemoteLocation::Elsewhere {
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
            .run_local(&["for-each-ref", "--count=1", "refs/heads"])
            .await?;
        if any.is_empty() {
            Ok(None)
        } else {
            Err(ScmError::NotFound {
                source_name: self.git.name.clone(),
                detail: format!("commit {name} does not exist"),
            })
        }
    }

    async fn has(&self, commit: &str) -> Result<bool, ScmError> {
        let name = format!("{commit}^{{commit}}");
        self.git.is(&["cat-file", "-e", &name]).await
    }

    /// The range to the tip, and notes if it does not continue the last one.
    async fn leg(
        &self,
        before: (Option<String>, Option<String>),
        tip: &str,
    ) -> Result<(CommitRange, Vec<Note>), ScmError> {
        let mut leg = CommitRange {
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

    /// Reads a range to its end.
    async fn walk(
        &self,
        leg: &CommitRange,
        mut notes: Vec<Note>,
        to: &BatchSender,
    ) -> Result<(), ScmError> {
        let folder = &self.options.mirrors_root;
        let walk = Walk::list(&self.git, folder, leg.base.as_deref(), &leg.target).await?;
        let total = walk.total();
        let broken = |error| self.git.broken(&error);
        let mut position = match &leg.written {
            // Another Git version lists another order: commits that are stored already are read
            // again.
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
            let place = if position < total {
                leg.place_after(position, &last)
            } else {
                leg.end(ts.as_deref())
            };
            let notes = std::mem::take(&mut notes);
            to.send(found(batch.commits, place, total - position, notes))
                .await?;
        }
        commits.finish().await?;
        if position == total {
            Ok(())
        } else {
            Err(ScmError::Protocol {
                source_name: self.git.name.clone(),
                detail: format!("git listed {position} of {total} commits"),
            })
        }
    }

    /// The commits of a walk from a position on.
    async fn commits(&self, walk: Walk, position: u64) -> Result<Commits, ScmError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let hands = usize::try_from((walk.total() - position).div_ceil(HAND));
        let hands = hands.unwrap_or(usize::MAX).min(cores).min(COMPARING_MAX);
        let dealt = tokio::task::spawn_blocking(move || walk.deal(position, hands)).await;
        let dealt = dealt.unwrap_or_else(|gone| Err(std::io::Error::other(gone)));
        let (all, dealt) = dealt.map_err(|error| self.git.broken(&error))?;
        Commits::open(&self.git, all, dealt)
    }

    /// The commit's time.
    async fn ts(&self, commit: &str) -> Result<Option<String>, ScmError> {
        let object = self.git.run_local(&["cat-file", "commit", commit]).await?;
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
        if self.place == RemoteLocation::Elsewhere {
            let (branch, retry) = (self.branch.as_deref(), &self.options.retry);
            let pinned = async || guard::pinned(&self.git, &self.options.reach, &self.url).await;
            let (git, url) = retry.run(pinned).await?;
            return mirror::update(&git, &url, branch, retry).await;
        }
        self.git.run_local(&["rev-parse", "--git-dir"]).await?;
        Ok(())
    }

    async fn read(&self, _: Stream, from: &Watermark, to: &BatchSender) -> Result<(), ScmError> {
        let Some(tip) = self.tip().await? else {
            return Ok(());
        };
        let mut before = leg::before(&from.place);
        if let Some(stopped) = CommitRange::stopped(&from.place)
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
    async fn has_base(&self, leg: &CommitRange) -> Result<bool, ScmError> {
        match &leg.base {
            Some(base) => self.has(base).await,
            None => Ok(true),
        }
    }
}

/// Commits that are written together.
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

fn found(
    commits: Vec<NewCommit>,
    place: crate::SourcePosition,
    remaining: u64,
    notes: Vec<Note>,
) -> SourceBatch {
    SourceBatch {
        records: Records::Commits(commits),
        place,
        remaining: Some(remaining),
        notes,
    }
}

/// The git directory of a folder: inside it, or the folder itself.
pub(crate) fn git_dir(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let inside = folder.join(".git");
    if inside.exists() { inside } else { folder }
}
