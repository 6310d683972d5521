//! Lanes: creating, changing, pausing, counting.

use std::collections::HashMap;

use consign_kernel::{
    By, Counts, Error, Lane, LaneName, LanePolicy, MessageId, OnUncertain, PAGE_ENTRIES_MAX,
    Totals, nearest,
};
use jiff::Timestamp;
use sqlx::{FromRow, SqliteConnection, sqlite::SqliteRow};

use crate::{
    error::{Failure, Result},
    job::Work,
    rows::{self, LaneColumns},
    sql,
};

impl Work<'_> {
    pub(crate) async fn put_lane(
        &mut self,
        name: &LaneName,
        policy: &LanePolicy,
        by: &By,
    ) -> Result<Lane> {
        by.validate()?;
        policy.validate()?;
        if name.as_str() == consign_payments::LANE && policy.on_uncertain == OnUncertain::Resend {
            // A payment in doubt is asked about or parked, never sent again unasked.
            let why = "must be probe or hold in lane payments";
            return Err(Error::invalid("policy.on_uncertain", why).into());
        }
        if let Some(lane) = lane(self.connection, name).await? {
            let order = |policy: &LanePolicy| (policy.ordered, policy.on_dead);
            if order(&lane.policy) != order(policy) && !self.is_idle(name).await? {
                return Err(Error::LaneNotEmpty { lane: name.clone() }.into());
            }
        }
        let row: LaneColumns = sqlx::query_as(sql!("lane_put"))
            .bind(name.as_str())
            .bind(rows::json(policy))
            .fetch_one(&mut *self.connection)
            .await?;
        self.record_actions(by, "lane", &[(Some(name), None)])
            .await?;
        rows::lane(row)
    }

    async fn is_idle(&mut self, name: &LaneName) -> Result<bool> {
        let idle = sqlx::query_scalar(sql!("lane_is_idle"))
            .bind(name.as_str())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(idle)
    }

    pub(crate) async fn pause(&mut self, name: &LaneName, by: &By) -> Result<Lane> {
        by.validate()?;
        let row: Option<LaneColumns> = sqlx::query_as(sql!("lane_pause"))
            .bind(name.as_str())
            .bind(rows::micros(self.now))
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some(row) = row else {
            return Err(unknown_lane(self.connection, name).await);
        };
        self.record_actions(by, "pause", &[(Some(name), None)])
            .await?;
        rows::lane(row)
    }

    pub(crate) async fn resume(&mut self, name: &LaneName, by: &By) -> Result<Lane> {
        by.validate()?;
        let row: Option<LaneColumns> = sqlx::query_as(sql!("lane_resume"))
            .bind(name.as_str())
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some(row) = row else {
            return Err(unknown_lane(self.connection, name).await);
        };
        self.record_actions(by, "resume", &[(Some(name), None)])
            .await?;
        self.woken.insert(name.clone());
        rows::lane(row)
    }

    /// Records what a person did to lanes or messages.
    pub(crate) async fn record_actions(
        &mut self,
        by: &By,
        action: &str,
        on: &[(Option<&LaneName>, Option<MessageId>)],
    ) -> Result<()> {
        if on.is_empty() {
            return Ok(());
        }
        sqlx::query(sql!("audit_append"))
            .bind(rows::json(&on))
            .bind(rows::micros(self.now))
            .bind(&by.actor)
            .bind(action)
            .bind(&by.reason)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// The rules of these lanes.
    pub(crate) async fn policies<'l>(
        &mut self,
        names: impl IntoIterator<Item = &'l LaneName>,
    ) -> Result<HashMap<LaneName, LanePolicy>> {
        let names: Vec<&LaneName> = names.into_iter().collect();
        let found = sqlx::query(sql!("lanes_named"))
            .bind(rows::json(&names))
            .fetch_all(&mut *self.connection)
            .await?;
        policies_of(&found)
    }
}

/// The rules in rows of name and policy.
pub(crate) fn policies_of(rows: &[SqliteRow]) -> Result<HashMap<LaneName, LanePolicy>> {
    let named = |row: &SqliteRow| {
        let (name, text) = <(String, String)>::from_row(row)?;
        Ok((rows::lane_name(&name)?, rows::policy(&name, &text)?))
    };
    rows.iter().map(named).collect()
}

pub(crate) async fn lane(
    connection: &mut SqliteConnection,
    name: &LaneName,
) -> Result<Option<Lane>> {
    let row: Option<LaneColumns> = sqlx::query_as(sql!("lane"))
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(rows::lane).transpose()
}

type CountColumns = (
    String,
    String,
    Option<i64>,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    Option<i64>,
);

pub(crate) async fn lanes(
    connection: &mut SqliteConnection,
    now: Timestamp,
    after: Option<&LaneName>,
    limit: u32,
) -> Result<Vec<(Lane, Counts)>> {
    let found: Vec<CountColumns> = sqlx::query_as(sql!("lanes_counted"))
        .bind(rows::micros(now))
        .bind(after.map(LaneName::as_str))
        .bind(limit.min(PAGE_ENTRIES_MAX))
        .fetch_all(connection)
        .await?;
    found.into_iter().map(counted).collect()
}

pub(crate) async fn lane_counts(
    connection: &mut SqliteConnection,
    now: Timestamp,
    name: &LaneName,
) -> Result<Option<(Lane, Counts)>> {
    let found: Option<CountColumns> = sqlx::query_as(sql!("lane_counted"))
        .bind(rows::micros(now))
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?;
    found.map(counted).transpose()
}

pub(crate) async fn totals(connection: &mut SqliteConnection, now: Timestamp) -> Result<Totals> {
    type Columns = (i64, i64, i64, i64, i64, i64, i64, Option<i64>);
    let (lanes, waiting, ready, scheduled, leased, held, dead, oldest): Columns =
        sqlx::query_as(sql!("lanes_total"))
            .bind(rows::micros(now))
            .fetch_one(connection)
            .await?;
    Ok(Totals {
        lanes: lanes.unsigned_abs(),
        counts: counts((waiting, ready, scheduled, leased, held, dead, oldest))?,
    })
}

fn counted(columns: CountColumns) -> Result<(Lane, Counts)> {
    let (name, policy, paused_at, waiting, ready, scheduled, leased, held, dead, oldest) = columns;
    let counts = counts((waiting, ready, scheduled, leased, held, dead, oldest))?;
    Ok((rows::lane((name, policy, paused_at))?, counts))
}

type Numbers = (i64, i64, i64, i64, i64, i64, Option<i64>);

fn counts((waiting, ready, scheduled, leased, held, dead, oldest): Numbers) -> Result<Counts> {
    Ok(Counts {
        waiting: waiting.unsigned_abs(),
        ready: ready.unsigned_abs(),
        scheduled: scheduled.unsigned_abs(),
        leased: leased.unsigned_abs(),
        held: held.unsigned_abs(),
        dead: dead.unsigned_abs(),
        oldest_due_at: oldest.map(rows::timestamp).transpose()?,
    })
}

/// The refusal of a lane that does not exist, with the nearest name that does.
pub(crate) async fn unknown_lane(connection: &mut SqliteConnection, name: &LaneName) -> Failure {
    let names: sqlx::Result<Vec<String>> = sqlx::query_scalar(sql!("lane_names"))
        .fetch_all(connection)
        .await;
    match names {
        Ok(names) => Failure::Refused(Error::UnknownLane {
            lane: name.to_string(),
            suggestion: nearest(name.as_str(), names.iter().map(String::as_str)).map(str::to_owned),
        }),
        Err(error) => error.into(),
    }
}
