//! `consign scm status`: the status of repositories.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Table, or_dash, plain},
    when::{age, stamp},
};
use consign_scm::{RepoStatus, Stop};
use jiff::Timestamp;
use serde_json::json;

use super::OrFailure as _;
use super::selection::RepoSelection;
use crate::app::ledger;

/// Show the status of repositories: stored changes, consumed changes, and failures.
#[derive(Args, Debug)]
pub(super) struct Status {
    #[command(flatten)]
    which: RepoSelection,
}

impl Status {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let ledger = ledger(&context.open().await?);
        let chosen = self.which.among(&*ledger).await?;
        let is_chosen = |status: &RepoStatus| {
            let mut ids = chosen.iter().map(|repo| repo.repo_id);
            ids.any(|id| id == status.repo.repo_id)
        };
        let mut standing = ledger.status().await.or_failure()?;
        standing.retain(is_chosen);
        if context.out.is_json() {
            context.out.json(&json!({"items": standing}))?;
            return Ok(Exit::Fine);
        }
        if standing.is_empty() {
            let note = "there are no repositories; `consign scm add` adds one";
            context.out.note(note)?;
            return Ok(Exit::Fine);
        }
        let now = Timestamp::now();
        context.out.table(&table(&standing, now))?;
        for status in &standing {
            for (what, stopped) in stops(status) {
                let Some(stop) = stopped else {
                    continue;
                };
                let (repo_id, at) = (status.repo.repo_id, stamp(stop.at, now));
                context.out.line(format_args!(
                    "repository {repo_id}: the last {what} stopped {at}: {}: {}; `consign scm {what} {repo_id}` retries",
                    stop.code,
                    plain(&stop.message)
                ))?;
            }
        }
        Ok(Exit::Fine)
    }
}

/// Failures of the steps of a repository, by command.
fn stops(status: &RepoStatus) -> [(&'static str, Option<&Stop>); 2] {
    [
        ("sync", status.sync_stopped.as_ref()),
        ("consume", status.consume_stopped.as_ref()),
    ]
}

fn table(standing: &[RepoStatus], now: Timestamp) -> Table {
    let mut table = Table::new([
        ">repo",
        "kind",
        "url",
        "project",
        ">changes",
        ">to consume",
        ">diffs",
        ">failed",
        "synced",
        "last change",
    ]);
    let ago = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| age(at, now));
    for status in standing {
        table.row([
            status.repo.repo_id.to_string(),
            status.repo.provider.as_str().to_owned(),
            status.repo.url.clone(),
            or_dash(status.repo.project_key.as_deref()),
            status.changes.to_string(),
            status.unconsumed.to_string(),
            status.patches_here.to_string(),
            status.patches_failed.to_string(),
            ago(status.synced_at),
            ago(status.last_change_at),
        ]);
    }
    table
}
