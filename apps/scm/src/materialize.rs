//! Fetches changes.

mod writer;

use std::collections::HashSet;

use consign_artifacts::uri::build_scm_artifact_path;
use serde::Serialize;

pub use self::writer::PatchWriter;
use crate::{Patch, PatchFormat, PendingPatch, Point, Progress, Provider, ScmError, Synchronizer};

/// Commits or revisions per query.
const PAGE: u32 = 1_000;
/// SHA-256 of no bytes: the hash of a change that is not stored.
const NOTHING_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Folder of changes of a repository without a project.
const NO_PROJECT: &str = "default";

/// Result of fetching changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MaterializeReport {
    /// Fetched changes, including partial ones.
    pub fetched: u64,
    /// Changes that were too large and are stored as statistics only.
    pub degraded: u64,
    /// Changes that could not be fetched; they can be retried.
    pub failed: u64,
}

impl MaterializeReport {
    pub(crate) fn count(&mut self, fetched: &FetchResult) {
        match fetched {
            FetchResult::Whole => self.fetched += 1,
            FetchResult::Degraded => {
                self.fetched += 1;
                self.degraded += 1;
            }
            FetchResult::Failed { .. } => self.failed += 1,
            FetchResult::Here => {}
        }
    }
}

/// Result for one change.
#[derive(Debug)]
pub(crate) enum FetchResult {
    Whole,
    Degraded,
    Failed(ScmError),
    /// It was stored already.
    Here,
}

impl FetchResult {
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Failed(error) if is_about_all(error))
    }
}

/// Whether every other change would fail as well.
fn is_about_all(error: &ScmError) -> bool {
    matches!(error, ScmError::Network { .. } | ScmError::Timeout { .. })
}

/// One run over the missing changes.
#[derive(Debug)]
struct Run {
    limit: u64,
    attempts_max: u32,
    done: MaterializeReport,
    /// Positions of the failures of this run.
    failed: HashSet<i64>,
}

impl Run {
    /// Remaining number of tries.
    fn left(&self) -> u64 {
        let tried = self.done.fetched + self.done.failed;
        self.limit.saturating_sub(tried)
    }

    /// The part of a limit that is reserved for earlier failures: a quarter, and one of two.
    fn share(&self) -> u64 {
        match self.limit {
            0 | 1 => 0,
            limit => (limit / 4).max(1),
        }
    }
}

/// Size of the next query.
fn page(wanted: u64) -> u32 {
    u32::try_from(wanted).map_or(PAGE, |wanted| wanted.min(PAGE))
}

impl Synchronizer<'_> {
    /// Fetches missing changes: at most `limit`, and none with too many failures. Untried changes
    /// come first, then those with the fewest failures, the oldest first of each: permanent
    /// failures do not block a limit. A part of the limit is reserved for earlier failures, so that
    /// they are retried even with many new changes. An unreachable source ends the run.
    pub async fn materialize(
        &self,
        limit: Option<u64>,
        attempts_max: Option<u32>,
    ) -> Result<MaterializeReport, ScmError> {
        let mut run = Run {
            limit: limit.unwrap_or(u64::MAX),
            attempts_max: attempts_max.unwrap_or(u32::MAX),
            done: MaterializeReport::default(),
            failed: HashSet::new(),
        };
        let failed = self.failed(&run, (0, 0)).await?;
        let waiting = failed.iter().filter(|it| it.attempts < run.attempts_max);
        let kept = run.share().min(waiting.count() as u64);
        self.untried(&mut run, kept).await?;
        self.again(&mut run, failed).await?;
        Ok(run.done)
    }

    /// Fetches untried changes.
    async fn untried(&self, run: &mut Run, kept: u64) -> Result<(), ScmError> {
        let mut after = 0;
        while run.left() > kept {
            let size = page(run.left() - kept);
            let listed = self.ledger.unmaterialized(self.repo.repo_id, after, size);
            let listed = listed.await?;
            let Some(last) = listed.last() else {
                break;
            };
            after = last.position;
            for pending in listed {
                self.one(pending, run).await?;
            }
        }
        Ok(())
    }

    /// Retries failed changes.
    async fn again(&self, run: &mut Run, mut listed: Vec<PendingPatch>) -> Result<(), ScmError> {
        while let Some(last) = listed.last() {
            let after = (last.attempts, last.position);
            for pending in listed {
                if run.left() == 0 || pending.attempts >= run.attempts_max {
                    return Ok(());
                }
                // A failure in this run moved it behind others.
                if !run.failed.contains(&pending.position) {
                    self.one(pending, run).await?;
                }
            }
            listed = self.failed(run, after).await?;
        }
        Ok(())
    }

    async fn failed(&self, run: &Run, after: (u32, i64)) -> Result<Vec<PendingPatch>, ScmError> {
        let (repo_id, size) = (self.repo.repo_id, page(run.limit));
        Ok(self.ledger.failed_patches(repo_id, after, size).await?)
    }

    async fn one(&self, pending: PendingPatch, run: &mut Run) -> Result<(), ScmError> {
        let fetched = self.unless_stopped(self.patch(&pending.rev_or_sha)).await?;
        run.done.count(&fetched);
        self.hooks.progressed(Progress {
            stream: None,
            done: run.done.fetched + run.done.failed,
            total: None,
        });
        match fetched {
            FetchResult::Failed(error) if is_about_all(&error) => return Err(error),
            FetchResult::Failed(_) => drop(run.failed.insert(pending.position)),
            _ => {}
        }
        Ok(())
    }

    /// Fetches a change unless it is stored.
    pub(crate) async fn patch_unless_here(
        &self,
        rev_or_sha: &str,
    ) -> Result<FetchResult, ScmError> {
        let known = self.ledger.patch(self.repo.repo_id, rev_or_sha).await?;
        if known.is_some_and(|patch| patch.uri.is_some()) {
            Ok(FetchResult::Here)
        } else {
            self.patch(rev_or_sha).await
        }
    }

    /// Fetches a change and stores it or the failure. A failure that concerns all changes, such as
    /// credentials, is returned as an error.
    async fn patch(&self, rev_or_sha: &str) -> Result<FetchResult, ScmError> {
        let fetched = self.retry.run(|| self.fetched(rev_or_sha)).await;
        let (patch, outcome) = match fetched {
            Ok(patch) => {
                self.hooks.reached(Point::BeforePatch).await;
                match patch.degrade_reason {
                    Some(_) => (patch, FetchResult::Degraded),
                    None => (patch, FetchResult::Whole),
                }
            }
            Err(
                error @ (ScmError::Network { .. }
                | ScmError::Timeout { .. }
                | ScmError::NotFound { .. }
                | ScmError::Protocol { .. }
                | ScmError::Invalid(_)),
            ) => (
                self.not_here(rev_or_sha, &error),
                FetchResult::Failed(error),
            ),
            Err(error) => return Err(error),
        };
        self.ledger.put_patch(&patch).await?;
        self.hooks.reached(Point::AfterPatch).await;
        Ok(outcome)
    }

    /// One try: the change; if it is too large, its statistics; if those are too large, its size.
    async fn fetched(&self, rev_or_sha: &str) -> Result<Patch, ScmError> {
        let bytes_max = self.options.diff_bytes_max;
        let mut diff = PatchWriter::new(self.artifacts, bytes_max);
        self.source.diff(rev_or_sha, &mut diff).await?;
        if !diff.is_too_large() {
            return self.kept(rev_or_sha, diff, PatchFormat::Diff, None).await;
        }
        let diff_bytes = diff.seen_bytes();
        let reason = Some(format!("too_large:{diff_bytes}"));
        let mut stat = PatchWriter::new(self.artifacts, bytes_max);
        self.source.diffstat(rev_or_sha, &mut stat).await?;
        if !stat.is_too_large() {
            return self
                .kept(rev_or_sha, stat, PatchFormat::Diffstat, reason)
                .await;
        }
        let mut size = PatchWriter::new(self.artifacts, u64::MAX);
        let text = format!("{rev_or_sha}: a change of {diff_bytes} bytes\n");
        size.write(text.as_bytes()).await?;
        self.kept(rev_or_sha, size, PatchFormat::Ministat, reason)
            .await
    }

    async fn kept(
        &self,
        rev_or_sha: &str,
        writer: PatchWriter,
        format: PatchFormat,
        degrade_reason: Option<String>,
    ) -> Result<Patch, ScmError> {
        let size_bytes = i64::try_from(writer.seen_bytes()).ok();
        let degrade_reason = degrade_reason.or(writer.degrade_reason().map(ToOwned::to_owned));
        let (sha256, key) = writer
            .keep(|sha256| self.key(rev_or_sha, sha256, format))
            .await?;
        Ok(Patch {
            repo_id: self.repo.repo_id,
            rev_or_sha: rev_or_sha.to_owned(),
            uri: Some(key),
            sha256,
            size_bytes,
            format,
            degrade_reason,
            error: None,
        })
    }

    fn key(&self, rev_or_sha: &str, sha256: &str, format: PatchFormat) -> Result<String, ScmError> {
        let revision = match self.repo.provider {
            Provider::Svn => format!("r{rev_or_sha}"),
            Provider::Git | Provider::Gitlab => rev_or_sha.to_owned(),
        };
        let (repo_id, provider) = (self.repo.repo_id, self.repo.provider.as_str());
        let key = |project: &str| {
            let ext = format.as_str();
            build_scm_artifact_path(project, repo_id, provider, &revision, sha256, ext)
        };
        // A project's name need not be a valid folder name.
        let project = self.repo.project_key.as_deref().unwrap_or(NO_PROJECT);
        let key = key(project).or_else(|_| key(NO_PROJECT));
        key.map_err(|error| ScmError::Invalid(format!("{rev_or_sha:?}: {error}")))
    }

    fn not_here(&self, rev_or_sha: &str, error: &ScmError) -> Patch {
        Patch {
            repo_id: self.repo.repo_id,
            rev_or_sha: rev_or_sha.to_owned(),
            uri: None,
            sha256: NOTHING_SHA256.to_owned(),
            size_bytes: None,
            format: PatchFormat::Diff,
            degrade_reason: None,
            error: Some(format!("{}: {error}", error.code())),
        }
    }
}
