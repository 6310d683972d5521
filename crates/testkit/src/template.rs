//! Template databases: migrated once per server, copied for every test.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::{Instant, sleep};

use crate::server::Server;

/// All templates of a server are made under one lock, because migrations may create roles, which
/// all databases share.
const LOCK: i64 = 0x636f_6e73_6967_6e01;

/// The comment on a finished template. One without it was abandoned half way and is made anew.
const FINISHED: &str = "finished by consign-testkit";

/// How long a copy may be held up by connections that are still leaving the template.
const BUSY_DEADLINE: Duration = Duration::from_secs(60);

const FILE_COPY: &str = " STRATEGY file_copy";

/// SQLSTATE `syntax_error`.
const SYNTAX_ERROR: &str = "42601";

/// SQLSTATE `object_in_use`.
const OBJECT_IN_USE: &str = "55006";

/// A short name for the contents of `parts`, to be put into the name of a template database.
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        part.hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// Makes the template `name` unless a finished one exists.
///
/// Many test processes come here at once: one of them migrates while the others wait for the lock.
pub(crate) async fn ensure<M>(server: &Server, name: &str, migrate: M) -> Result<(), sqlx::Error>
where
    M: AsyncFnOnce(&str),
{
    assert_plain(name);
    let mut maintenance = server.connect().await?;
    if !is_finished(&mut maintenance, name).await? {
        // The lock belongs to this connection, so a panic in `migrate` or a killed process releases it
        // of it.
        sqlx::query("SELECT pg_advisory_lock($1)")
            .bind(LOCK)
            .execute(&mut maintenance)
            .await?;
        if !is_finished(&mut maintenance, name).await? {
            run(
                &mut maintenance,
                format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            )
            .await?;
            run(&mut maintenance, format!("CREATE DATABASE {name}")).await?;
            migrate(&server.url(name)).await;
            finish(&mut maintenance, name).await?;
        }
    }
    maintenance.close().await
}

/// Creates `database` as a copy of `template`.
///
/// By copying files: the other way, through the log, is the default since PostgreSQL 15 and takes
/// twice the processor.
pub(crate) async fn copy(
    maintenance: &mut PgConnection,
    template: &str,
    database: &str,
) -> Result<(), sqlx::Error> {
    let ends = Instant::now() + BUSY_DEADLINE;
    let mut create = format!("CREATE DATABASE {database} TEMPLATE {template}{FILE_COPY}");
    loop {
        match run(maintenance, create.clone()).await {
            // PostgreSQL 14 has no choice.
            Err(sqlx::Error::Database(error))
                if error.code().as_deref() == Some(SYNTAX_ERROR) && create.ends_with(FILE_COPY) =>
            {
                create = format!("CREATE DATABASE {database} TEMPLATE {template}");
            }
            // The server has waited five seconds by itself before this error.
            Err(sqlx::Error::Database(error))
                if error.code().as_deref() == Some(OBJECT_IN_USE) && Instant::now() < ends =>
            {
                sleep(Duration::from_millis(50)).await;
            }
            result => return result,
        }
    }
}

/// Runs a statement about a database; these take no parameters, hence names must be plain.
pub(crate) async fn run(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    connection.execute(AssertSqlSafe(sql)).await.map(drop)
}

/// Asserts that `name` needs no quoting and is not cut short by the server.
fn assert_plain(name: &str) {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    assert!(
        name.len() <= 63 && name.bytes().all(plain) && name.starts_with(|c: char| !c.is_numeric()),
        "a template's name is at most 63 of a-z, 0-9 and _, not starting with a digit: {name:?}"
    );
}

async fn is_finished(maintenance: &mut PgConnection, name: &str) -> Result<bool, sqlx::Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_database \
               WHERE datname = $1 AND shobj_description(oid, 'pg_database') = $2)";
    sqlx::query_scalar(sql)
        .bind(name)
        .bind(FINISHED)
        .fetch_one(maintenance)
        .await
}

/// Closes the template to everyone, then marks it: a copy fails while a session is connected to its
/// source.
async fn finish(maintenance: &mut PgConnection, name: &str) -> Result<(), sqlx::Error> {
    run(
        maintenance,
        format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
    )
    .await?;
    sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1")
        .bind(name)
        .execute(&mut *maintenance)
        .await?;
    run(
        maintenance,
        format!("COMMENT ON DATABASE {name} IS '{FINISHED}'"),
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_contents_and_with_their_borders() {
        assert_eq!(fingerprint(["a", "b"]), fingerprint(["a", "b"]));
        assert_ne!(fingerprint(["a", "b"]), fingerprint(["a", "c"]));
        assert_ne!(fingerprint(["a", "b"]), fingerprint(["ab"]));
    }
}
