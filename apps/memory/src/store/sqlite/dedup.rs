//! Lookup of stored and possibly stored memories.

use crate::{KnownMemory, message_key};
use consign_kernel::MessageId;
use sqlx::SqliteConnection;

use crate::store::sqlite::sql;
use consign_sqlite::extension::Result;

/// The memory of a space and hash that was stored last in a backend, or in any.
pub(super) async fn check_dedup(
    connection: &mut SqliteConnection,
    (space, sha): (&str, &str),
    backend: Option<&str>,
) -> Result<Option<KnownMemory>> {
    let found: Option<(Option<i64>, Option<String>)> = sqlx::query_as(sql!("memory_known"))
        .bind(message_key(space, sha))
        .bind(space)
        .bind(sha)
        .bind(backend)
        .fetch_optional(connection)
        .await?;
    Ok(found.map(|(outbox_id, memory_id)| KnownMemory {
        outbox_id: outbox_id.map(MessageId),
        memory_id,
    }))
}

/// Whether a request may have stored it without recording it.
pub(super) async fn may_be_stored(
    connection: &mut SqliteConnection,
    (space, sha): (&str, &str),
    backend: impl Into<Option<&str>>,
) -> Result<bool> {
    let is_in_doubt = sqlx::query_scalar(sql!("memory_in_doubt"))
        .bind(space)
        .bind(sha)
        .bind(backend.into())
        .fetch_one(connection)
        .await?;
    Ok(is_in_doubt)
}

/// Whether a row for a backend is pending or dead; also one that has left as dead.
pub(super) async fn has_unsent_row(
    connection: &mut SqliteConnection,
    (space, sha): (&str, &str),
    backend: Option<&str>,
) -> Result<bool> {
    let has_row = sqlx::query_scalar(sql!("memory_unsent"))
        .bind(message_key(space, sha))
        .bind(backend)
        .bind(space)
        .bind(sha)
        .fetch_one(connection)
        .await?;
    Ok(has_row)
}
