//! `consign scm status`: how repositories stand.

use clap::Args;
use consign_scm::{RepoStatus, Stop};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::which::Which;
use crate::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
    output::{Table, or_dash, plain},
    when::{age, stamp},
};

/// Show how repositories stand: what is known of them, what has become memories, and what stopped it.
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
        let every_seconds = context.config(Flags::new())?.settings.scm.every_seconds;
        let every = i64::try_from(every_seconds).ok().filter(|every| *every > 0);
        let every = every.map(SignedDuration::from_secs);
        if context.out.is_json() {
            let items: Vec<Value> = standing.iter().map(|status| shown(status, every)).collect();
            context.out.json(&json!({"items": items}))?;
            return Ok(Exit::Fine);
        }
        if standing.is_empty() {
            let note = "no repository is known; `consign scm add` makes one known";
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
                let next = match next_try(stop, every) {
                    Some(next) if next > now => {
                        format!("`consign serve` tries again {}", age(next, now))
                    }
                    Some(_) => "`consign serve` tries again with its next round".to_owned(),
                    None => format!("`consign scm {what} {repo_id}` tries again"),
                };
                context.out.line(format_args!(
                    "repository {repo_id}: the last {what} stopped {at}: {}: {}; {next}",
                    stop.code,
                    plain(&stop.message)
                ))?;
            }
        }
        Ok(Exit::Fine)
    }
}

/// What stopped the steps of a repository, by the command that takes each.
fn stops(status: &RepoStatus) -> [(&'static str, Option<&Stop>); 2] {
    [
        ("sync", status.sync_stopped.as_ref()),
        ("consume", status.consume_stopped.as_ref()),
    ]
}

/// When `serve` tries again, if it looks after repositories.
fn next_try(stop: &Stop, every: Option<SignedDuration>) -> Option<Timestamp> {
    stop.at.checked_add(every?).ok()
}

fn shown(status: &RepoStatus, every: Option<SignedDuration>) -> Value {
    let mut shown = json!(status);
    for (what, stopped) in stops(status) {
        if let Some(stop) = stopped {
            shown[format!("{what}_stopped")]["next_try_at"] = json!(next_try(stop, every));
        }
    }
    shown
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
