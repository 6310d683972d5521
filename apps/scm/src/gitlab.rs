//! A project of a GitLab server, read over its HTTP API (version 4).

mod address;
mod changed;
mod client;
mod commits;
mod diff;
mod merge_requests;
mod model;
mod reached;
mod reviews;
mod time;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use self::{client::Client, model::Project, reached::RequestPosition};
use crate::{BatchSender, PatchWriter, Repo, ScmError, Source, SourceOptions, Stream, Watermark};

/// GitLab's maximum.
const PAGE_RECORDS_MAX: usize = 100;

/// A project of a GitLab server: commits, merge requests and their reviews.
#[derive(Debug)]
pub struct GitlabSource {
    client: Client,
    branch: Option<String>,
    batch_records_max: usize,
    /// Position of the merge requests of this run: reviews of newer ones are read by the next run.
    known: Mutex<Option<RequestPosition>>,
}

impl GitlabSource {
    /// A project by its URL; with a branch, or its default branch.
    pub fn open(repo: &Repo, options: &SourceOptions) -> Result<Self, ScmError> {
        Ok(Self {
            client: Client::new(&repo.url, options)?,
            branch: repo.default_branch.clone(),
            batch_records_max: options.batch_records_max.max(1),
            known: Mutex::new(None),
        })
    }

    fn known(&self) -> MutexGuard<'_, Option<RequestPosition>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page_size(&self) -> u64 {
        self.batch_records_max.min(PAGE_RECORDS_MAX) as u64
    }
}

#[async_trait]
impl Source for GitlabSource {
    fn name(&self) -> &str {
        self.client.name()
    }

    fn streams(&self) -> &[Stream] {
        &[Stream::Gitlab, Stream::GitlabMr, Stream::GitlabReviews]
    }

    async fn read(
        &self,
        stream: Stream,
        from: &Watermark,
        to: &BatchSender,
    ) -> Result<(), ScmError> {
        let size = self.page_size();
        let project: Project = self.client.get(&self.client.at(&[], &[])).await?.body;
        match stream {
            Stream::GitlabMr | Stream::GitlabReviews if !project.has_merge_requests() => Ok(()),
            Stream::GitlabMr => {
                let known = merge_requests::read(&self.client, size, from, to).await?;
                *self.known() = Some(known);
                Ok(())
            }
            Stream::GitlabReviews => {
                let known = self.known().clone();
                let sizes = (size, self.batch_records_max);
                reviews::read(&self.client, sizes, from, known.as_ref(), to).await
            }
            Stream::Gitlab | Stream::Git | Stream::Svn => {
                let branch = self.branch.clone().or(project.default_branch);
                match branch.filter(|_| !project.empty_repo) {
                    Some(branch) => commits::read(&self.client, &branch, size, from, to).await,
                    // Nothing was pushed yet.
                    None => Ok(()),
                }
            }
        }
    }

    async fn diff(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        diff::diff(&self.client, rev_or_sha, to).await
    }

    async fn diffstat(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        diff::stat(&self.client, rev_or_sha, to).await
    }
}
