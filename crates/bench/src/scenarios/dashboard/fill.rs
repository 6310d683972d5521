//! A store that has been at work for long.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use consign_kernel::{By, Claim, NewMessage, QueueName, QueuePolicy, Store};
use serde_json::json;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{scenarios::sqlite, scratch::Scratch};

/// What each call enqueues.
const BATCH: usize = 1_000;
/// In a queue where others are many.
const QUIET: usize = 20;
const GROUPS: usize = 10;
const LEASED: u32 = 400;
/// Longer than any measurement.
const HELD_FOR: Duration = Duration::from_secs(60 * 60);

pub(super) async fn postgres(scratch: &Scratch, messages: u32, dead: u32) -> Result<()> {
    let store = scratch.store().await?;
    quiet(store.as_ref()).await?;
    let mut connection = scratch.connect().await?;
    sqlx::raw_sql(include_str!("../../../sql/fill_dashboard.sql"))
        .execute(&mut connection)
        .await?;
    sqlx::query("CALL consign_bench.fill_dashboard($1, $2)")
        .bind(i32::try_from(messages)?)
        .bind(i32::try_from(dead)?)
        .execute(&mut connection)
        .await
        .context("fill")?;
    connection.close().await?;
    lively(store).await?;
    scratch.settle_down().await
}

pub(super) async fn sqlite(path: &Path, messages: u32, dead: u32) -> Result<()> {
    let directory = path.parent().context("invariant: a file in a directory")?;
    let name = path.file_name().and_then(|name| name.to_str());
    let store = sqlite::open(directory, name.context("invariant: a plain name")?).await?;
    quiet(store.as_ref()).await?;
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    sqlx::query("CREATE TEMP TABLE size AS SELECT ?1 AS messages, ?2 AS dead, (unixepoch() - 86400) * 1000000 AS started_at")
        .bind(messages)
        .bind(dead)
        .execute(&mut connection)
        .await?;
    sqlx::raw_sql(include_str!("../../../sql/fill_dashboard_sqlite.sql"))
        .execute(&mut connection)
        .await
        .context("fill")?;
    connection.close().await?;
    lively(store).await
}

fn queue(name: &str) -> Result<QueueName> {
    Ok(name.parse()?)
}

/// The queues.
async fn quiet(store: &dyn Store) -> Result<()> {
    let by = By::new("bench", "the dashboard is measured");
    for name in [
        "mail",
        "webhooks",
        "billing",
        "reports",
        "quiet",
        super::THROUGH,
    ] {
        store
            .put_queue(&queue(name)?, &QueuePolicy::default(), &by)
            .await?;
    }
    let ordered = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    store.put_queue(&queue("steps")?, &ordered, &by).await?;
    Ok(())
}

/// What the store itself makes better than a statement: what is leased, what waits, and a queue with little in it.
async fn lively(store: Arc<dyn Store>) -> Result<()> {
    let step = |n: usize| {
        let message = NewMessage::new(queue("steps")?, json!({ "number": n }));
        anyhow::Ok(message.with_group(format!("group-{}", n % GROUPS)))
    };
    let steps: Vec<NewMessage> = (0..BATCH).map(step).collect::<Result<_>>()?;
    store.enqueue(&steps).await?;
    let few = (0..QUIET).map(|n| Ok(NewMessage::new(queue("quiet")?, json!(n))));
    store.enqueue(&few.collect::<Result<Vec<_>>>()?).await?;
    for owner in ["worker-1", "worker-2"] {
        let claim = Claim {
            ttl: Some(HELD_FOR),
            ..Claim::new(queue("mail")?, owner, LEASED / 2)
        };
        ensure!(
            store.claim(&claim).await?.is_some(),
            "there is something to claim"
        );
    }
    Ok(())
}
