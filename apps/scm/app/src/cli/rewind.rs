//! `consign scm rewind`: sets the gateway's cursor back to consume changes again.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, count},
};
use consign_memory::consume;
use consign_scm::{Change, Repo, ScmLedger};
use serde_json::json;

use super::OrFailure as _;
use super::selection::one;
use crate::app::service::Repositories;

const PREVIEW_ROWS: u32 = 5;
const PAGE: u32 = 1_000;
/// Maximum count of a preview.
const COUNT_MAX: u64 = 100_000;

/// Show which changes would be consumed again; with --yes, set the cursor back.
///
/// The same changes give the same memories, and stored ones are not stored again.
#[derive(Args, Debug)]
pub(super) struct Rewind {
    /// The repository, by number or URL
    #[arg(value_name = "REPO")]
    repo: String,
    /// The position that stays consumed: of a revision its number, of a commit that of `scm status --json`;
    /// 0: everything is consumed again
    #[arg(long, value_name = "POSITION", value_parser = clap::value_parser!(i64).range(0..), allow_negative_numbers = true)]
    to: i64,
    /// Only show what would be done, even with --yes
    #[arg(long)]
    dry_run: bool,
    /// Apply the changes
    #[arg(long)]
    yes: bool,
}

impl Rewind {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let repositories = Repositories::open(context).await?;
        let repo = one(repositories.ledger(), &self.repo).await?;
        let gateway = repositories.gateway()?;
        let from = consume::position(gateway, &repo).await?;
        if self.to > from {
            let message = format!(
                "the cursor of repository {} is at {from}: moving it forward to {} would skip \
                 changes",
                repo.repo_id, self.to
            );
            return Err(Failure::new(Exit::Refused, "SCM_INVALID", message));
        }
        let replayed = replayed(repositories.ledger(), &repo, self.to, from).await?;
        let is_done = self.yes && !self.dry_run;
        if is_done {
            consume::rewind(gateway, &repo, self.to).await?;
        }
        print(context.out, &repo, (from, self.to), &replayed, is_done)
    }
}

/// How many changes there are between the two, and the first few.
struct ReplayPreview {
    total: u64,
    first: Vec<Change>,
}

async fn replayed(
    ledger: &dyn ScmLedger,
    repo: &Repo,
    after: i64,
    until: i64,
) -> Result<ReplayPreview, Failure> {
    let mut replayed = ReplayPreview {
        total: 0,
        first: Vec::new(),
    };
    let mut at = after;
    while replayed.total < COUNT_MAX {
        let mut page = ledger.changes(repo.repo_id, at, PAGE).await.or_failure()?;
        page.retain(|change| change.position <= until);
        let Some(last) = page.last() else {
            break;
        };
        at = last.position;
        replayed.total += page.len() as u64;
        if replayed.first.is_empty() {
            page.truncate(PREVIEW_ROWS as usize);
            replayed.first = page;
        }
    }
    Ok(replayed)
}

fn print(
    out: Output,
    repo: &Repo,
    (from, to): (i64, i64),
    replayed: &ReplayPreview,
    is_done: bool,
) -> Result<Exit, Failure> {
    if out.is_json() {
        let first: Vec<&str> = replayed
            .first
            .iter()
            .map(|change| change.source_id.as_str())
            .collect();
        out.json(&json!({
            "preview": !is_done, "repo_id": repo.repo_id, "from": from, "to": to,
            "total": replayed.total, "first": first,
        }))?;
        return Ok(Exit::Fine);
    }
    if !replayed.first.is_empty() {
        let mut table = Table::new([">position", "change", "author", "message"]);
        for change in &replayed.first {
            table.row([
                change.position.to_string(),
                change.rev_or_sha.chars().take(12).collect(),
                change.author_raw.clone(),
                change.message.lines().next().unwrap_or_default().to_owned(),
            ]);
        }
        out.table(&table)?;
    }
    let or_more = if replayed.total >= COUNT_MAX {
        " or more"
    } else {
        ""
    };
    let changes = count(replayed.total, "change");
    if is_done {
        out.line(format_args!(
            "the cursor of repository {} is set back from {from} to {to}: {changes}{or_more} will \
             become memories again",
            repo.repo_id
        ))?
    } else {
        out.line(format_args!(
            "{changes}{or_more} would become memories again. Nothing was changed: run it again \
             with --yes."
        ))?
    }
    Ok(Exit::Fine)
}
