//! Checks that the counts of repositories are correct and the gateway's cursors are within the
//! history.

use consign_sqlite::extension::{Findings, Result};
use sqlx::{Row, SqliteConnection};

use crate::store::sql;

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    report: &mut Findings,
) -> Result<()> {
    type Counts = (i64, i64, i64, i64, i64, i64, i64);
    let wrong: Vec<Counts> = sqlx::query_as(sql!("doctor_counts"))
        .fetch_all(&mut *connection)
        .await?;
    for (repo_id, changes, here, failed, true_changes, true_here, true_failed) in wrong {
        report.add(
            "scm_counts_wrong",
            format!(
                "repository {repo_id} has counts of {changes} changes, {here} fetched and {failed} \
                 failed; correct are {true_changes}, {true_here} and {true_failed}"
            ),
            format!(
                "UPDATE scm_repos SET changes = {true_changes}, patches_here = {true_here}, \
                 patches_failed = {true_failed} WHERE repo_id = {repo_id}; find out what writes past \
                 the store"
            ),
            None,
        );
    }
    let stands = sqlx::query(sql!("status")).fetch_all(connection).await?;
    for row in &stands {
        let repo_id: i64 = row.try_get("repo_id")?;
        let consumed: i64 = row.try_get("consumed_position")?;
        let last: Option<i64> = row.try_get("last_position")?;
        let last = last.unwrap_or_default();
        if consumed > last {
            report.add(
                "scm_cursor_ahead",
                format!(
                    "the cursor of repository {repo_id} is at {consumed}, but its history \
                     ends at {last}: the next changes would be skipped"
                ),
                "move the cursor to the end of the history with `consign scm rewind`",
                None,
            );
        }
    }
    Ok(())
}
