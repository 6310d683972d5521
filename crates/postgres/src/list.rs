//! Lists of messages, newest first.
//!
//! Each filter begins where it finds messages soonest. Where that may be a long walk over others,
//! a page looks at so many of them and says where to go on.

use consign_kernel::{
    Cursor, Filter, Listed, MessageId, PAGE_ENTRIES_MAX, Page, Result, StateKind,
};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, rows};

/// How many messages one page walks over, at most.
const MESSAGES_MAX: i64 = 20_000;
/// The same of attempts, where each may be looked up among the messages.
const ATTEMPTS_MAX: i64 = 10_000;

/// What a page walks along, if it has to look at messages that do not fit.
#[derive(Clone, Copy)]
enum Walk<'f> {
    /// Along what fits.
    None,
    Messages,
    Attempts,
    Correlation(&'f str),
}

impl PostgresStore {
    pub(crate) async fn list_impl(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Listed>> {
        let limit = limit.min(PAGE_ENTRIES_MAX);
        // A code belongs to dead messages, whatever else is asked for.
        let state = filter
            .state
            .or(filter.code.as_ref().map(|_| StateKind::Dead));
        if filter.code.is_some() && state != Some(StateKind::Dead) {
            return Ok(Page {
                items: Vec::new(),
                next: None,
            });
        }
        let below = before.map_or(i64::MAX, |before| before.0);
        let (statement, walk) = self.way(filter, state).await?;
        let floor = self.floor(walk, below).await?;
        let statement = sqlx::query(statement)
            .bind(filter.lane.as_ref().map(|lane| lane.as_str()))
            .bind(below)
            .bind(floor.unwrap_or(i64::MIN))
            .bind(i64::from(limit) + 1);
        let statement = match (&filter.key, &filter.correlation_id) {
            (None, None) if state == Some(StateKind::Dead) => {
                statement.bind(filter.code.as_deref())
            }
            (None, None) => statement,
            _ => statement
                .bind(filter.code.as_deref())
                .bind(filter.key.as_deref())
                .bind(state.map(StateKind::as_str))
                .bind(filter.correlation_id.as_deref()),
        };
        let mut ids: Vec<i64> = self
            .fetch("list", statement)
            .await?
            .iter()
            .map(|row| rows::column(row, "id"))
            .collect::<Result<_>>()?;
        let more = ids.len() > limit as usize;
        ids.truncate(limit as usize);
        let next = if more { ids.last().copied() } else { floor };
        Ok(Page {
            items: self.listed(ids).await?,
            next: next.map(MessageId),
        })
    }

    /// The statement that finds what fits, and what it walks along.
    async fn way<'f>(
        &self,
        filter: &'f Filter,
        state: Option<StateKind>,
    ) -> Result<(&'static str, Walk<'f>)> {
        if filter.key.is_some() {
            return Ok((include_str!("../sql/list_key.sql"), Walk::None));
        }
        if let Some(id) = &filter.correlation_id {
            let walk = match (&filter.lane, state) {
                (None, None) => Walk::None,
                _ => Walk::Correlation(id),
            };
            return Ok((include_str!("../sql/list_correlation.sql"), walk));
        }
        Ok(match state {
            None if filter.lane.is_none() => (include_str!("../sql/list_any.sql"), Walk::None),
            None => (include_str!("../sql/list_any.sql"), Walk::Messages),
            Some(StateKind::Waiting) => (include_str!("../sql/list_waiting.sql"), Walk::None),
            Some(StateKind::Ready) if self.is_deep(filter).await? => {
                (include_str!("../sql/list_ready_deep.sql"), Walk::Messages)
            }
            Some(StateKind::Ready) => (include_str!("../sql/list_ready.sql"), Walk::None),
            Some(StateKind::Leased) => (include_str!("../sql/list_leased.sql"), Walk::None),
            Some(StateKind::Held) => (include_str!("../sql/list_held.sql"), Walk::None),
            Some(StateKind::Dead) => (include_str!("../sql/list_dead.sql"), Walk::None),
            Some(StateKind::Delivered) => {
                (include_str!("../sql/list_delivered.sql"), Walk::Attempts)
            }
        })
    }

    async fn is_deep(&self, filter: &Filter) -> Result<bool> {
        let statement = sqlx::query(include_str!("../sql/ready_is_deep.sql"))
            .bind(filter.lane.as_ref().map(|lane| lane.as_str()));
        let rows = self.fetch("list", statement).await?;
        rows.first()
            .map_or(Ok(false), |row| rows::column(row, "deep"))
    }

    /// The smallest id that a page beginning below `below` looks at, if there are others below it.
    ///
    /// Read before the page, which then ends there whatever is written in between.
    async fn floor(&self, walk: Walk<'_>, below: i64) -> Result<Option<i64>> {
        let (statement, most) = match walk {
            Walk::None => return Ok(None),
            Walk::Messages => (include_str!("../sql/floor_message.sql"), MESSAGES_MAX),
            Walk::Attempts => (include_str!("../sql/floor_attempt.sql"), ATTEMPTS_MAX),
            Walk::Correlation(_) => (include_str!("../sql/floor_correlation.sql"), ATTEMPTS_MAX),
        };
        let mut statement = sqlx::query(statement).bind(below).bind(most);
        if let Walk::Correlation(id) = walk {
            statement = statement.bind(id.to_owned());
        }
        let rows = self.fetch("list", statement).await?;
        let beyond: Option<i64> = rows
            .first()
            .map(|row| rows::column(row, "id"))
            .transpose()?;
        Ok(beyond.map(|id| id + 1))
    }

    async fn listed(&self, ids: Vec<i64>) -> Result<Vec<Listed>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let statement = sqlx::query(include_str!("../sql/list.sql")).bind(ids);
        let rows = self.fetch("list", statement).await?;
        rows.iter().map(listed).collect()
    }
}

fn listed(row: &PgRow) -> Result<Listed> {
    Ok(Listed {
        id: MessageId(rows::column(row, "id")?),
        lane: rows::lane_name(row, "lane")?,
        key: rows::column(row, "key")?,
        group: rows::column(row, "group")?,
        created_at: rows::time(row, "created_at")?,
        state: rows::state(row)?,
        attempts: rows::number(row, "attempts")?,
    })
}
