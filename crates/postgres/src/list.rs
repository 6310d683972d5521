//! Lists of messages, newest first.
//!
//! Each filter begins where it finds messages soonest. Where that may be a long walk over others,
//! a page looks at a bounded number of them and returns where the next begins.

use async_trait::async_trait;
use consign_kernel::{
    Browse, Cursor, DeadLetter, Filter, MessageId, MessageSummary, PAGE_ENTRIES_MAX, Page,
    QueueName, Result, StateKind,
};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, pools::Use, read::dead_letter, rows};

/// A page: what fits and where it is, in one statement and so of one moment.
macro_rules! page {
    ($name:literal) => {
        concat!(
            include_str!("../sql/list.sql"),
            include_str!(concat!("../sql/list_", $name, ".sql")),
            ")) ORDER BY m.id DESC"
        )
    };
}

/// What a page walks along, if it reads messages that do not match.
#[derive(Clone, Copy)]
enum Walk<'f> {
    /// Along what fits.
    None,
    Messages,
    Attempts,
    Correlation(&'f str),
}

#[async_trait]
impl Browse for PostgresStore {
    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<MessageSummary>> {
        let limit = limit.min(PAGE_ENTRIES_MAX);
        // Only dead messages have a code, whatever the rest of the filter.
        let state = filter
            .state
            .or(filter.code.as_ref().map(|_| StateKind::Dead));
        let texts = [&filter.key, &filter.code, &filter.correlation_id];
        let never = filter.code.is_some() && state != Some(StateKind::Dead);
        if limit == 0 || never || texts.into_iter().any(holds_nul) {
            return Ok(Page {
                items: Vec::new(),
                next: None,
            });
        }
        let below = before.map_or(i64::MAX, |before| before.0);
        let (statement, walk) = self.way(filter, state).await?;
        let floor = self.floor(walk, below).await?;
        let statement = sqlx::query(statement)
            .bind(filter.queue.as_ref().map(|queue| queue.as_str()))
            .bind(below)
            .bind(floor.unwrap_or(i64::MIN))
            .bind(i64::from(limit) + 1);
        let statement = match (&filter.key, &filter.correlation_id) {
            (None, None) if filter.code.is_some() => statement.bind(filter.code.as_deref()),
            (None, None) => statement,
            _ => statement
                .bind(filter.code.as_deref())
                .bind(filter.key.as_deref())
                .bind(state.map(StateKind::as_str))
                .bind(filter.correlation_id.as_deref()),
        };
        let rows = self.read("list", statement).await?;
        let shown = rows.iter().take(limit as usize);
        let items = shown.map(listed).collect::<Result<Vec<_>>>()?;
        let last = items.last().filter(|_| rows.len() > items.len());
        let next = last.map_or(floor.map(MessageId), |last| Some(last.id));
        Ok(Page { items, next })
    }

    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>> {
        let limit = limit.min(PAGE_ENTRIES_MAX);
        if holds_nul(&filter.code) {
            return Ok(Page {
                items: Vec::new(),
                next: None,
            });
        }
        let statement = match filter.code {
            Some(_) => include_str!("../sql/dead_code.sql"),
            None => include_str!("../sql/dead.sql"),
        };
        let statement = sqlx::query(statement)
            .bind(filter.queue.as_ref().map(|queue| queue.as_str()))
            .bind(filter.code.as_deref())
            .bind(before.map_or(i64::MAX, |before| before.0))
            .bind(i64::from(limit) + 1);
        let rows = self.read("list dead", statement).await?;
        let mut items: Vec<DeadLetter> = rows.iter().map(dead_letter).collect::<Result<_>>()?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items
            .last()
            .filter(|_| more)
            .map(|letter| letter.message_id);
        Ok(Page { items, next })
    }

    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64> {
        if holds_nul(&filter.code) {
            return Ok(0);
        }
        let statement = sqlx::query(include_str!("../sql/count_dead.sql"))
            .bind(filter.queue.as_ref().map(QueueName::as_str))
            .bind(filter.code.as_deref())
            .bind(i64::try_from(at_most).unwrap_or(i64::MAX));
        let rows = self.read_as(Use::Report, "count dead", statement).await?;
        let row = rows.first();
        rows::count(
            row.ok_or_else(|| rows::corrupt("a count answered nothing"))?,
            "count",
        )
    }
}

impl PostgresStore {
    /// The statement that finds what fits, and what it walks along.
    async fn way<'f>(
        &self,
        filter: &'f Filter,
        state: Option<StateKind>,
    ) -> Result<(&'static str, Walk<'f>)> {
        if filter.key.is_some() {
            return Ok((page!("key"), Walk::None));
        }
        if let Some(id) = &filter.correlation_id {
            let walk = match (&filter.queue, state) {
                (None, None) => Walk::None,
                _ => Walk::Correlation(id),
            };
            return Ok((page!("correlation"), walk));
        }
        Ok(match state {
            None if filter.queue.is_none() => (page!("any"), Walk::None),
            None => (page!("any"), Walk::Messages),
            Some(StateKind::Waiting) => (page!("waiting"), Walk::None),
            Some(StateKind::Ready) if self.is_deep(filter).await? => {
                (page!("ready_deep"), Walk::Messages)
            }
            Some(StateKind::Ready) => (page!("ready"), Walk::None),
            Some(StateKind::Leased) => (page!("leased"), Walk::None),
            Some(StateKind::Held) => (page!("held"), Walk::None),
            Some(StateKind::Dead) if filter.code.is_some() => (page!("code"), Walk::None),
            Some(StateKind::Dead) => (page!("dead"), Walk::None),
            Some(StateKind::Discarded) => (page!("discarded"), Walk::None),
            Some(StateKind::Delivered) => (page!("delivered"), Walk::Attempts),
        })
    }

    async fn is_deep(&self, filter: &Filter) -> Result<bool> {
        let statement = sqlx::query(include_str!("../sql/ready_is_deep.sql"))
            .bind(filter.queue.as_ref().map(|queue| queue.as_str()));
        let rows = self.read("list", statement).await?;
        rows.first()
            .map_or(Ok(false), |row| rows::column(row, "deep"))
    }

    /// The smallest id that a page beginning below `below` looks at, if there are others below it.
    ///
    /// Read before the page, which then ends there whatever is written in between.
    async fn floor(&self, walk: Walk<'_>, below: i64) -> Result<Option<i64>> {
        let most = self.list_walk_max;
        let (statement, most) = match walk {
            Walk::None => return Ok(None),
            Walk::Messages => (include_str!("../sql/floor_message.sql"), most),
            Walk::Attempts => (include_str!("../sql/floor_attempt.sql"), most / 2),
            Walk::Correlation(_) => (include_str!("../sql/floor_correlation.sql"), most / 2),
        };
        let mut statement = sqlx::query(statement).bind(below).bind(i64::from(most));
        if let Walk::Correlation(id) = walk {
            statement = statement.bind(id.to_owned());
        }
        let rows = self.read("list", statement).await?;
        let beyond: Option<i64> = rows
            .first()
            .map(|row| rows::column(row, "id"))
            .transpose()?;
        // A message with more attempts than a page looks at is looked at whole: pages go on.
        Ok(beyond.map(|id| (id + 1).min(below - 1)))
    }
}

/// Whether a text holds what no text in PostgreSQL can, so that nothing fits it; the server would
/// reject the query.
pub fn holds_nul(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| text.contains('\0'))
}

fn listed(row: &PgRow) -> Result<MessageSummary> {
    Ok(MessageSummary {
        id: MessageId(rows::column(row, "id")?),
        queue: rows::queue_name(row, "queue")?,
        key: rows::column(row, "key")?,
        group: rows::column(row, "group")?,
        created_at: rows::time(row, "created_at")?,
        state: rows::state(row)?,
        attempts: rows::number(row, "attempts")?,
        code: rows::column(row, "code")?,
        detail: rows::column(row, "detail")?,
        erased: rows::column(row, "erased")?,
    })
}
