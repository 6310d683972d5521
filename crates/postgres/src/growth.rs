//! What the maintenance has recorded about the growth of the database.

use consign_kernel::{Growth, PassRecord, Result, Sample, bases};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, pools::Use, rows};

const PASSES: &str =
    "SELECT pass_at, pass_end, pass_since, passes, pass_ends FROM consign.maintenance
                          WHERE pass_end IS NOT NULL";

pub(crate) async fn read(store: &PostgresStore) -> Result<Growth> {
    let pass = rows_of(store, PASSES).await?;
    let samples = rows_of(store, include_str!("../sql/growth.sql")).await?;
    let samples: Vec<Sample> = samples.iter().map(sample).collect::<Result<_>>()?;
    let newest = samples.last();
    let [day, week] = newest.map_or([None, None], |newest| bases(samples.iter(), newest.at));
    Ok(Growth {
        pass: pass.first().map(pass_record).transpose()?,
        now: newest.cloned(),
        day: day.cloned(),
        week: week.cloned(),
    })
}

async fn rows_of(store: &PostgresStore, statement: &'static str) -> Result<Vec<PgRow>> {
    let statement = sqlx::query(statement);
    store
        .read_as(Use::Report, "read how the history grows", statement)
        .await
}

fn sample(row: &PgRow) -> Result<Sample> {
    let text: String = rows::column(row, "sample")?;
    serde_json::from_str(&text)
        .map_err(|error| rows::corrupt(format!("a sample of the history is {error}")))
}

fn pass_record(row: &PgRow) -> Result<PassRecord> {
    Ok(PassRecord {
        at: rows::time(row, "pass_at")?,
        end: rows::column(row, "pass_end")?,
        since: rows::time(row, "pass_since")?,
        passes: rows::count(row, "passes")?,
        ends: rows::column(row, "pass_ends")?,
    })
}
