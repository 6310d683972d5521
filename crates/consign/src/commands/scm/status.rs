//! `consign scm status`: how repositories stand.

use clap::Args;
use consign_scm::RepoStatus;
use jiff::Timestamp;
use serde_json::json;

use super::which::Which;
use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::{Table, or_dash},
    when::age,
};

/// Show how repositories stand: what is known of them, and what has become memories.
#[derive(Args, Debug)]
pub(super) struct Status {
    #[command(flatten)]
    which: Which,
}

impl Status {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let ledger = context.open().await?.scm;
        let chosen = self.which.among(&*ledger).await?;
        let is_chosen = |status: &RepoStatus| {
            let mut ids = chosen.iter().map(|repo| repo.repo_id);
            ids.any(|id| id == status.repo.repo_id)
        };
        let mut standing = ledger.status().await?;
        standing.retain(is_chosen);
        if context.out.is_json() {
            context.out.json(&json!({"items": standing}))?;
            return Ok(Exit::Fine);
        }
        if standing.is_empty() {
            let note = "no repository is known; `consign scm add` makes one known";
            context.out.note(note)?;
            return Ok(Exit::Fine);
        }
        context.out.table(&table(&standing, Timestamp::now()))?;
        Ok(Exit::Fine)
    }
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
