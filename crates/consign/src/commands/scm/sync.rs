//! `consign scm sync`: reads what is new in repositories.

use clap::{Args, ValueEnum};
use consign_scm::{Diffs, Mode, Repo, SyncOptions, Synced};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::which::Which;
use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
    progress::Progress,
    service::{Hooks, Repositories},
};

/// Read what is new in repositories; exit code 1 if one of them could not be read.
///
/// Goes on where the last one ended, whatever ended it. It writes down what it finds and where it is,
/// and never touches the outbox.
#[derive(Args, Debug)]
pub(super) struct Sync {
    #[command(flatten)]
    which: Which,
    /// What becomes of a record that the database refuses [default: scm.mode]
    #[arg(long, value_enum)]
    mode: Option<ModeWord>,
    /// When the changes themselves are fetched [default: scm.diffs]
    #[arg(long, value_enum)]
    diffs: Option<DiffsWord>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum ModeWord {
    /// It ends the synchronisation
    Strict,
    /// It is skipped, counted and noted
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
        let mut done = Done::default();
        for repo in self.which.among(repositories.ledger()).await? {
            let progress = Progress::of("records", None, context.out.is_json());
            let hooks = Hooks::showing(&progress);
            let (_stay, stop) = watch::channel(false);
            let synced = repositories.sync(&repo, options, &hooks, stop).await;
            progress.clear();
            match synced {
                Ok(synced) => done.add(context.out, &repo, json!(synced), &told(&synced))?,
                Err(error) => done.fail(context.out, &repo, error.into())?,
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

fn told(synced: &Synced) -> String {
    let mut told = format!("{} new, {} known", synced.written, synced.known);
    if synced.skipped > 0 {
        told += &format!(", {} skipped", synced.skipped);
    }
    let patches = &synced.patches;
    if patches.fetched + patches.failed > 0 {
        told += &format!(
            "; {} diffs fetched, {} failed",
            patches.fetched, patches.failed
        );
    }
    told
}

/// What became of one repository after the other. One that fails does not stop the others.
#[derive(Default)]
pub(super) struct Done {
    items: Vec<Value>,
    exit: Option<Exit>,
}

impl Done {
    pub(super) fn add(
        &mut self,
        out: Output,
        repo: &Repo,
        mut item: Value,
        told: &str,
    ) -> Result<(), Failure> {
        if !out.is_json() {
            let (id, url) = (repo.repo_id, plain(&repo.url));
            out.line(format_args!("repository {id} ({url}): {told}"))?;
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
        let Failure::Told {
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
        // A database that is away is worse than a repository that is.
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
        match out.is_json() {
            true => out.json(&json!({"items": self.items}))?,
            false if self.items.is_empty() => {
                out.note("no repository is known; `consign scm add` makes one known")?;
            }
            false => {}
        }
        Ok(self.exit.unwrap_or(Exit::Fine))
    }
}
