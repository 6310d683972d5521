//! Repositories as they are named on the command line.

use clap::Args;
use consign_scm::{Provider, Repo, ScmLedger};

use super::add::{file_url, plain_url};
use crate::failure::{Exit, Failure};

/// Which repositories.
#[derive(Args, Debug)]
pub(super) struct Which {
    /// Repositories by number or URL; git, svn or gitlab for all of a kind [default: all]
    #[arg(value_name = "REPO")]
    repos: Vec<String>,
}

impl Which {
    /// Those that were named, each once; all if none was.
    pub(super) async fn among(&self, ledger: &dyn ScmLedger) -> Result<Vec<Repo>, Failure> {
        let known = ledger.repos().await?;
        if self.repos.is_empty() {
            return Ok(known);
        }
        let mut chosen = Vec::new();
        for name in &self.repos {
            let named = named(&known, name);
            if named.is_empty() && kind(name).is_none() {
                return Err(unknown(name));
            }
            chosen.extend(named);
        }
        chosen.sort_by_key(|repo| repo.repo_id);
        chosen.dedup_by_key(|repo| repo.repo_id);
        Ok(chosen)
    }
}

/// The one repository of this name.
pub(super) async fn one(ledger: &dyn ScmLedger, name: &str) -> Result<Repo, Failure> {
    let mut named = named(&ledger.repos().await?, name);
    match (named.pop(), named.is_empty()) {
        (Some(repo), true) => Ok(repo),
        (Some(_), false) => Err(Failure::usage(format!(
            "{name:?} names several repositories; name one by its number"
        ))),
        (None, _) => Err(unknown(name)),
    }
}

fn named(known: &[Repo], name: &str) -> Vec<Repo> {
    let number: Option<i64> = name.parse().ok();
    let url = plain_url(name).ok();
    let file = url.as_deref().map(file_url);
    let fits = |repo: &&Repo| match (number, kind(name)) {
        (Some(number), _) => repo.repo_id == number,
        (None, Some(kind)) => repo.provider == kind,
        (None, None) => [&url, &file]
            .into_iter()
            .flatten()
            .any(|url| *url == repo.url),
    };
    known.iter().filter(fits).cloned().collect()
}

fn kind(name: &str) -> Option<Provider> {
    match name {
        "git" => Some(Provider::Git),
        "svn" => Some(Provider::Svn),
        "gitlab" => Some(Provider::Gitlab),
        _ => None,
    }
}

fn unknown(name: &str) -> Failure {
    let message = format!(
        "there is no repository {name:?}; `consign scm status` lists those there are, \
         `consign scm add` makes one known"
    );
    Failure::new(Exit::NotFound, "SCM_UNKNOWN_REPO", message)
}
