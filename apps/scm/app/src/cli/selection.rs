//! Repository references on the command line.

use clap::Args;
use consign_app::failure::{Exit, Failure};
use consign_scm::{Provider, Repo, ScmLedger};

use super::OrFailure as _;
use super::add::{file_url, plain_url};

/// Selected repositories.
#[derive(Args, Debug)]
pub(super) struct RepoSelection {
    /// Repositories by number or URL; git, svn or gitlab for all of a kind [default: all]
    #[arg(value_name = "REPO")]
    repos: Vec<String>,
}

impl RepoSelection {
    /// The selected repositories, each once; all if none is selected.
    pub(super) async fn among(&self, ledger: &dyn ScmLedger) -> Result<Vec<Repo>, Failure> {
        let known = ledger.repos().await.or_failure()?;
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

/// The repository of this name.
pub(super) async fn one(ledger: &dyn ScmLedger, name: &str) -> Result<Repo, Failure> {
    let mut named = named(&ledger.repos().await.or_failure()?, name);
    match (named.pop(), named.is_empty()) {
        (Some(repo), true) => Ok(repo),
        (Some(_), false) => Err(Failure::usage(format!(
            "{name:?} matches several repositories; use the id"
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
        "repository {name:?} does not exist; `consign scm status` lists repositories, \
         `consign scm add` adds one"
    );
    Failure::new(Exit::NotFound, "SCM_UNKNOWN_REPO", message)
}
