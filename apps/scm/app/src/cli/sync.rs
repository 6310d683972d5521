//! `consign scm sync`: reads new records of repositories.

use clap::{Args, ValueEnum};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
    progress::Progress,
};
use consign_scm::{Diffs, Mode, Repo, SyncOptions, SyncReport};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::selection::RepoSelection;
use crate::app::service::{Hooks, Repositories};

/// Read new records of repositories; exit code 1 if one of them could not be read.
///
/// Continues where the last run ended. Stores records and watermarks, and never uses the outbox.
#[derive(Args, Debug)]
pub(super) struct Sync {
    #[command(flatten)]
    which: RepoSelection,
    /// Handling of records that the database rejects [default: scm.mode]
    #[arg(long, value_enum)]
    mode: Option<ModeWord>,
    /// When changes are fetched [default: scm.diffs]
    #[arg(long, value_enum)]
    diffs: Option<DiffsWord>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum ModeWord {
    /// Stop the synchronisation
    Strict,
    /// Skip, count and record them
    BestEffort,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DiffsWord {
    /// By `consign scm materialize`
    Later,
    /// With the synchronisation
    Now,
}

impl Sync {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let repositories = Repositories::open(context).await?;
        let options = self.options(&repositories);
        let mut done = SyncSummary::default();
        for repo in self.which.among(repositories.ledger()).await? {
            let progress = Progress::of("records", None, context.out.is_json());
            let hooks = Hooks::showing(&progress);
            let (_stay, stop) = watch::channel(false);
            let synced = repositories.sync(&repo, options, &hooks, stop).await;
            progress.clear();
            match synced {
                Ok(synced) => {
                    done.add(context.out, &repo, json!(synced), &summary_line(&synced))?
                }
                Err(error) => done.fail(context.out, &repo, super::scm_failure(error))?,
            }
        }
        done.end(context.out)
    }

    fn options(&self, repositories: &Repositories) -> SyncOptions {
        let configured = repositories.settings().sync();
        SyncOptions {
            mode: match self.mode {
                Some(ModeWord::Strict) => Mode::Strict,
                Some(ModeWord::BestEffort) => Mode::BestEffort,
                None => configured.mode,
            },
            diffs: match self.diffs {
                Some(DiffsWord::Later) => Diffs::Later,
                Some(DiffsWord::Now) => Diffs::Now,
                None => configured.diffs,
            },
            ..configured
        }
    }
}

fn summary_line(synced: &SyncReport) -> String {
    let mut line = format!("{} new, {} known", synced.written, synced.known);
    if synced.skipped > 0 {
        line += &format!(", {} skipped", synced.skipped);
    }
    let patches = &synced.patches;
    if patches.fetched + patches.failed > 0 {
        line += &format!(
            "; {} diffs fetched, {} failed",
            patches.fetched, patches.failed
        );
    }
    line
}

/// Results of the repositories. A failure does not stop the others.
#[derive(Default)]
pub(super) struct SyncSummary {
    items: Vec<Value>,
    exit: Option<Exit>,
}

impl SyncSummary {
    pub(super) fn add(
        &mut self,
        out: Output,
        repo: &Repo,
        mut item: Value,
        line: &str,
    ) -> Result<(), Failure> {
        if !out.is_json() {
            let (id, url) = (repo.repo_id, plain(&repo.url));
            out.line(format_args!("repository {id} ({url}): {line}"))?;
        }
        item["repo_id"] = json!(repo.repo_id);
        item["url"] = json!(repo.url);
        item["ok"] = json!(true);
        self.items.push(item);
        Ok(())
    }

    pub(super) fn fail(
        &mut self,
        out: Output,
        repo: &Repo,
        failure: Failure,
    ) -> Result<(), Failure> {
        let Failure::Error {
            exit,
            code,
            message,
            ..
        } = failure
        else {
            return Err(failure);
        };
        if !out.is_json() {
            out.note(format_args!(
                "repository {}: {code}: {}",
                repo.repo_id,
                plain(&message)
            ))?;
        }
        self.items.push(json!({
            "repo_id": repo.repo_id, "url": repo.url, "ok": false,
            "error": {"code": code, "message": message},
        }));
        // An unavailable database takes precedence over an unavailable repository.
        self.exit = match self.exit {
            Some(Exit::Unavailable) => self.exit,
            None => Some(exit),
            Some(before) if before == exit => Some(exit),
            Some(_) if exit == Exit::Unavailable => Some(exit),
            Some(_) => Some(Exit::Wrong),
        };
        Ok(())
    }

    pub(super) fn end(self, out: Output) -> Result<Exit, Failure> {
        if out.is_json() {
            out.json(&json!({"items": self.items}))?;
        } else if self.items.is_empty() {
            out.note("there are no repositories; `consign scm add` adds one")?;
        }
        Ok(self.exit.unwrap_or(Exit::Fine))
    }
}
