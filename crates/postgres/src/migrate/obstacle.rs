//! Why a step of the schema cannot be applied: what is in its way, by schema and name.

use consign_kernel::{Error, Migration};
use sqlx::PgConnection;

use super::{LOCK_MAX, guard::FOREIGN};
use crate::error::{hint_of, sqlstate::LOCK_TIMEOUT, state_of, store_error};

/// What a login needs that migrates.
pub(super) const RIGHTS: &str = "`consign migrate` needs a login that may create schemas in this \
    database, such as its owner, and roles where they are not there yet";

/// SQLSTATEs of an object that exists: table, schema, function, anything else.
const EXISTS: [&str; 4] = ["42P07", "42P06", "42723", "42710"];
/// Classes of errors that are not about the step: the connection, resources, the operator, locks.
const PASSING: [&str; 5] = ["08", "53", "57", "40", "55"];

/// The error of a step that failed. Its transaction is over.
pub(super) async fn obstacle(
    connection: &mut PgConnection,
    step: Migration,
    error: sqlx::Error,
) -> Error {
    let Some(state) = state_of(&error).map(str::to_owned) else {
        return store_error("migrate", error);
    };
    if state == LOCK_TIMEOUT {
        let holders = lock_holders(connection).await;
        return Error::Migration {
            component: step.component,
            version: step.version,
            name: step.name,
            why: format!(
                "waited {LOCK_MAX} for a lock that another transaction holds; open transactions \
                 that write or use consign's tables: {holders}; let them end, or end them with \
                 pg_terminate_backend(pid), and migrate again"
            ),
        };
    }
    if PASSING.iter().any(|class| state.starts_with(class)) {
        return store_error("migrate", error);
    }
    if state == FOREIGN {
        let hint = hint_of(&error).unwrap_or_default().to_owned();
        let cause = error
            .into_database_error()
            .map(|error| error.message().to_owned());
        return Error::Migration {
            component: step.component,
            version: step.version,
            name: step.name,
            why: format!("{}. {hint}", cause.unwrap_or_default()),
        };
    }
    let mut why = match store_error("migrate", error) {
        Error::Unavailable { source, .. } => source.to_string(),
        Error::Forbidden { what } => format!("{what}; {RIGHTS}"),
        error => error.to_string(),
    };
    if EXISTS.contains(&state.as_str()) {
        let there = existing(connection, step.sql).await;
        if !there.is_empty() {
            why = format!(
                "{} exists already and is not consign's; rename it, move it to another schema, or \
                 give consign a database of its own",
                there.join(", ")
            );
        }
    }
    Error::Migration {
        component: step.component,
        version: step.version,
        name: step.name,
        why,
    }
}

/// The sessions that may hold the lock, as `pid 17 (login)`.
async fn lock_holders(connection: &mut PgConnection) -> String {
    let statement = "SELECT format('pid %s (%s)', a.pid, a.usename)
        FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND EXISTS (
            SELECT FROM pg_locks l LEFT JOIN pg_class c ON c.oid = l.relation
                WHERE l.pid = a.pid AND l.granted
                    AND (l.locktype = 'transactionid' OR c.relnamespace = to_regnamespace('consign')))
        ORDER BY a.pid LIMIT 10";
    let holders: Result<Vec<String>, _> = sqlx::query_scalar(statement)
        .persistent(false)
        .fetch_all(connection)
        .await;
    match holders {
        Ok(holders) if !holders.is_empty() => holders.join(", "),
        _ => "none left".to_owned(),
    }
}

/// Which tables, views and functions a step would make that are there already, by schema and name.
async fn existing(connection: &mut PgConnection, sql: &str) -> Vec<String> {
    let (relations, functions) = made(sql);
    let statement =
        "SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NOT NULL
        UNION ALL
        SELECT name || '()' FROM unnest($2::text[]) AS name WHERE to_regproc(name) IS NOT NULL";
    let there = sqlx::query_scalar(statement)
        .persistent(false)
        .bind(relations)
        .bind(functions)
        .fetch_all(connection)
        .await;
    // Without an answer there is still the first error.
    there.unwrap_or_default()
}

/// The names that follow `CREATE TABLE` and its like, and `CREATE FUNCTION`, at the start of a line.
fn made(sql: &str) -> (Vec<String>, Vec<String>) {
    let after = |words: &[&str]| {
        let made = sql.lines().filter_map(|line| {
            let rest = words.iter().find_map(|word| line.strip_prefix(word))?;
            let name = rest.split(|c: char| c.is_whitespace() || c == '(').next()?;
            name.contains('.').then(|| name.to_owned())
        });
        made.collect()
    };
    (
        after(&["CREATE TABLE ", "CREATE VIEW ", "CREATE SEQUENCE "]),
        after(&["CREATE FUNCTION "]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lists_the_objects_it_creates() {
        let sql = "CREATE SCHEMA a;\nCREATE TABLE a.b (\n    CREATE TABLE x.y (\n);\n\
                   CREATE VIEW a.c AS SELECT 1;\nCREATE OR REPLACE FUNCTION a.d() x;\n\
                   CREATE FUNCTION a.e(x int) y";
        let (relations, functions) = made(sql);
        assert_eq!(relations, ["a.b", "a.c"]);
        assert_eq!(functions, ["a.e"]);
    }
}
