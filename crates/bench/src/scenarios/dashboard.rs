//! The dashboard over a store that has been at work for long: how soon its pages begin, and what
//! those who leave one open cost the database.

mod fill;
mod pages;
mod viewers;

use anyhow::{Result, ensure};

use super::{Answer, Plan, sqlite};
use crate::{process::config, scratch::Scratch};

/// Delivered by the server itself while pages are requested.
const THROUGH: &str = "through";

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let (messages, dead) = (plan.counts.dashboard, plan.counts.dashboard / 100);
    ensure!(dead > 0, "invariant: some are dead at every scale");
    let directory = sqlite::directory(&plan.directory)?;
    let path = std::path::absolute(directory.path().join("dashboard.db"))?;
    let mut figures = Vec::new();
    let program = plan.program()?;
    let through = format!("[queues.{THROUGH}.sink]\nkind = \"discard\"\n");
    // Every statement leaves a line, which is how they are counted.
    let counted =
        format!("[log]\nformat = \"json\"\nfilter = \"warn,sqlx::query=debug\"\n\n{through}");
    for database in ["PostgreSQL", "SQLite"] {
        plan.say(format!("{database}: {messages} messages"));
        let url = match database {
            "SQLite" => {
                fill::sqlite(&path, messages, dead).await?;
                format!("sqlite:{}", path.display())
            }
            _ => {
                fill::postgres(scratch, messages, dead).await?;
                scratch.url().to_owned()
            }
        };
        let serve = program
            .start("serve", database, &config(&url, &through))
            .await?;
        figures.extend(pages::measure(plan, database, serve.address()?, messages).await?);
        serve.terminate().await?;
        let name = format!("{database}-counted");
        let serve = program
            .start("serve", &name, &config(&url, &counted))
            .await?;
        let statements = || program.log_text(&name).matches("\"sqlx::query\"").count();
        let address = serve.address()?;
        figures.extend(viewers::measure(plan, database, address, messages, statements).await?);
        serve.terminate().await?;
    }
    let notes = vec![
        format!(
            "{messages} messages of four queues, {dead} of them dead, one in twenty ready, the others delivered but for some held, \
             leased and waiting; {} entries in the audit; first byte of each page over {} calls a round, while {} messages a \
             second are enqueued over HTTP and delivered by the same `consign serve`",
            messages / 50,
            plan.counts.dashboard_calls,
            pages::LOAD_PER_SECOND
        ),
        format!(
            "statements by the lines that sqlx logs of them, less those of a server without viewers, over {} s",
            plan.counts.viewing.as_secs()
        ),
    ];
    Ok((figures, notes))
}
