//! `consign scm consume`: makes memories of what is new.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Table, count, or_dash},
    progress::Progress,
};
use consign_memory::consume::{ConsumeReport, Watch};
use serde_json::{Value, json};

use super::selection::RepoSelection;
use crate::app::service::Repositories;

/// Make memories of new changes; exit code 1 if it stopped early.
///
/// Memories that the memory server cannot take now are deferred; `consign work` and `consign serve`
/// deliver them.
#[derive(Args, Debug)]
pub(super) struct Consume {
    #[command(flatten)]
    which: RepoSelection,
    /// Maximum changes per repository
    #[arg(long)]
    limit: Option<u64>,
}

impl Consume {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let repositories = Repositories::open_with_queue(context).await?;
        let mut done = Vec::new();
        for repo in self.which.among(repositories.ledger()).await? {
            let progress = Progress::of("changes", None, context.out.is_json());
            let watch = Watch {
                is_stopping: &|| false,
                progress: &|done| progress.set(done.cards(), None),
            };
            done.push(repositories.consume(&repo, self.limit, watch).await?);
        }
        let is_stopped = done.iter().any(|done| done.stopped.is_some());
        if context.out.is_json() {
            let items: Vec<Value> = done.iter().map(shown).collect();
            context.out.json(&json!({"items": items}))?;
        } else if done.is_empty() {
            context.out.note("there are no repositories")?;
        } else {
            print(context, &done)?;
            explain(context, &done)?;
        }
        Ok(if is_stopped { Exit::Wrong } else { Exit::Fine })
    }
}

fn shown(done: &ConsumeReport) -> Value {
    let mut shown = json!(done);
    shown["cards"] = json!(done.cards());
    shown
}

/// Explains redirected cards, and how to change the settings.
fn explain(context: &Context, done: &[ConsumeReport]) -> Result<(), Failure> {
    let redirected: u64 = done.iter().map(|done| done.redirected).sum();
    if redirected == 0 {
        return Ok(());
    }
    let by = done.iter().find_map(|done| done.redirected_by.as_ref());
    let reason = by.map_or("see their audits", |by| match by.reason.as_str() {
        "team_write_disabled" => "writes to the team space are disabled (team_write_disabled)",
        reason => reason,
    });
    let remedy = match by.map(|by| &by.update) {
        Some(Some(update)) => {
            let update = update.to_string().replace('\'', r"'\''");
            format!(
                "; `consign memory call governance_update '{update}'` sends them to the team space"
            )
        }
        Some(None) => {
            "; scm.actor_user_id must be on the list allowlist_users of its policy".to_owned()
        }
        None => String::new(),
    };
    let cards = count(redirected, "card");
    context.out.note(format_args!(
        "{cards} stored in a private space by policy: {reason}{remedy}. `consign scm rewind` makes \
         the same changes memories again"
    ))?;
    Ok(())
}

fn print(context: &Context, done: &[ConsumeReport]) -> Result<(), Failure> {
    let mut table = Table::new([
        ">repo",
        ">stored",
        ">redirected",
        ">deferred",
        ">known",
        ">position",
        "stopped by",
    ]);
    for done in done {
        let stopped = done.stopped.as_ref().map(|stopped| stopped.reason);
        table.row([
            done.repo_id.to_string(),
            done.stored.to_string(),
            done.redirected.to_string(),
            done.deferred.to_string(),
            done.deduplicated.to_string(),
            done.position.to_string(),
            or_dash(stopped),
        ]);
    }
    context.out.table(&table)?;
    for done in done {
        if let Some(stopped) = &done.stopped {
            let at = stopped.source_id.as_deref().map(|id| format!(" at {id}"));
            context.out.note(format_args!(
                "{}: repository {} stopped{}: {}: {}; the next run retries",
                stopped.code,
                done.repo_id,
                at.unwrap_or_default(),
                stopped.reason,
                consign_app::output::plain(&stopped.message)
            ))?;
        }
    }
    Ok(())
}
