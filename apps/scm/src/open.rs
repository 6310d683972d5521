//! Creates the source of a repository.

use crate::{GitSource, GitlabSource, Provider, Repo, ScmError, Source, SourceOptions, SvnSource};

/// The source of a repository.
pub fn open(repo: &Repo, options: &SourceOptions) -> Result<Box<dyn Source>, ScmError> {
    match repo.provider {
        Provider::Git => Ok(Box::new(GitSource::open(repo, options)?)),
        Provider::Svn => Ok(Box::new(SvnSource::open(repo, options)?)),
        Provider::Gitlab => Ok(Box::new(GitlabSource::open(repo, options)?)),
    }
}
