//! From a repository to its source.

use crate::{Provider, Repo, ScmError, Source, SourceOptions, git::GitSource};

/// The source of a repository.
pub fn open(repo: &Repo, options: &SourceOptions) -> Result<Box<dyn Source>, ScmError> {
    match repo.provider {
        Provider::Git => Ok(Box::new(GitSource::open(repo, options)?)),
        Provider::Svn | Provider::Gitlab => Err(ScmError::Invalid(format!(
            "repositories of {} cannot be read yet",
            repo.provider.as_str()
        ))),
    }
}
