//! Lists of messages, newest first.
//!
//! Each filter begins where it finds messages soonest. Where that may be a long walk over others,
//! a page looks at a bounded number of them and returns where the next begins.

use async_trait::async_trait;
use consign_kernel::{
    Browse, Cursor, DeadCause, DeadLetter, Filter, MessageId, MessageSummary, PAGE_ENTRIES_MAX,
    Page, QueueName, Result, StateKind, prefix_end,
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::{
    postgres::{PgArguments, PgRow},
    query::Query,
};

use crate::{PostgresStore, pools::Use, read::dead_letter, rows};

/// How ids are found: alone, and in the statement of a page, which shows them as of the same moment.
#[derive(Clone, Copy)]
struct Way {
    ids: &'static str,
    page: &'static str,
}

macro_rules! way {
    ($name:literal) => {
        Way {
            ids: include_str!(concat!("../sql/list_", $name, ".sql")),
            page: concat!(
                "WITH found AS MATERIALIZED (",
                include_str!(concat!("../sql/list_", $name, ".sql")),
                ")\n",
                include_str!("../sql/list.sql")
            ),
        }
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
        if limit == 0 || filter.is_never() {
            return Ok(Page {
                items: Vec::new(),
                next: None,
            });
        }
        let below = before.map_or(i64::MAX, |before| before.0);
        let (rows, floor) = if filter.is_narrow() {
            self.narrowed(filter, below, limit).await?
        } else {
            let (way, floor) = self.way(filter, below).await?;
            let count = i64::from(limit) + 1;
            let statement = bound(sqlx::query(way.page), filter, below, floor, count);
            let rows = self.read("list", statement).await?;
            let floor = cut_at(&rows, count)?.or(floor);
            (rows, floor)
        };
        let items = rows.iter().map(listed).collect::<Result<Vec<_>>>()?;
        // While messages move, one found in a state may have left it.
        let fits = |listed: &MessageSummary| {
            filter.wanted_state().is_none_or(|it| it == listed.state)
                && (filter.code.is_none() || filter.code == listed.code)
        };
        let mut items: Vec<MessageSummary> = items.into_iter().filter(fits).collect();
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let last = items.last().filter(|_| more);
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

    async fn dead_causes(&self, filter: &Filter, at_most: u64) -> Result<Vec<DeadCause>> {
        if holds_nul(&filter.code) {
            return Ok(Vec::new());
        }
        let statement = sqlx::query(include_str!("../sql/dead_causes.sql"))
            .bind(filter.queue.as_ref().map(QueueName::as_str))
            .bind(filter.code.as_deref())
            .bind(i64::try_from(at_most).unwrap_or(i64::MAX))
            .bind(i64::from(PAGE_ENTRIES_MAX));
        let rows = self
            .read_as(Use::Report, "group the dead", statement)
            .await?;
        rows.iter().map(dead_cause).collect()
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
    /// How a page finds what fits, and the smallest id that it looks at if there are others below it.
    async fn way(&self, filter: &Filter, below: i64) -> Result<(Way, Option<i64>)> {
        let (way, walk) = self.way_along(filter).await?;
        Ok((way, self.floor(walk, below).await?))
    }

    async fn way_along<'f>(&self, filter: &'f Filter) -> Result<(Way, Walk<'f>)> {
        let state = filter.wanted_state();
        if filter.key.is_some() {
            return Ok((way!("key"), Walk::None));
        }
        if let Some(id) = &filter.correlation_id {
            let walk = match (&filter.queue, state) {
                (None, None) => Walk::None,
                _ => Walk::Correlation(id),
            };
            return Ok((way!("correlation"), walk));
        }
        Ok(match state {
            None if filter.queue.is_none() => (way!("any"), Walk::None),
            None => (way!("any"), Walk::Messages),
            Some(StateKind::Waiting) => (way!("waiting"), Walk::None),
            Some(StateKind::Ready) if self.is_deep(filter).await? => {
                (way!("ready_deep"), Walk::Messages)
            }
            Some(StateKind::Ready) => (way!("ready"), Walk::None),
            Some(StateKind::Leased) => (way!("leased"), Walk::None),
            Some(StateKind::Held) => (way!("held"), Walk::None),
            Some(StateKind::Dead) if filter.code.is_some() => (way!("code"), Walk::None),
            Some(StateKind::Dead) => (way!("dead"), Walk::None),
            Some(StateKind::Discarded) => (way!("discarded"), Walk::None),
            Some(StateKind::Delivered) => (way!("delivered"), Walk::Attempts),
        })
    }

    /// What may match by its place, a part of a page's walk, and of that what does match by what no index
    /// has. With the smallest id that was looked at, if there are others below it.
    async fn narrowed(
        &self,
        filter: &Filter,
        below: i64,
        limit: u32,
    ) -> Result<(Vec<PgRow>, Option<i64>)> {
        let (since, until) = filter.span();
        let first = self.place(since).await?.unwrap_or(i64::MIN);
        let end = self.place(until).await?.unwrap_or(i64::MAX);
        let below = below.min(end);
        let most = i64::from(self.list_walk_max / 4).max(1);
        let (mut ids, floor) = match self.by_prefix(filter, most).await? {
            Some(ids) => (ids, None),
            None => {
                let (way, floor) = self.way(filter, below).await?;
                let least = floor.unwrap_or(i64::MIN).max(first);
                let statement = bound(sqlx::query(way.ids), filter, below, Some(least), most);
                let ids = ids(&self.read("list", statement).await?)?;
                let is_cut = ids.len() as i64 >= most;
                let floor = ids.last().copied().filter(|_| is_cut).or(floor);
                (ids, floor)
            }
        };
        ids.retain(|id| (first..below).contains(id));
        let (least, greatest) = (ids.iter().min().copied(), ids.iter().max().copied());
        // Those found by their prefix may be in another state: more than a page of them is looked at.
        let count = match filter.wanted_state() {
            Some(_) => i64::from(PAGE_ENTRIES_MAX),
            None => i64::from(limit) + 1,
        };
        let headers = serde_json::to_value(&filter.headers).expect("invariant: texts are JSON");
        let statement = sqlx::query(way!("narrow").page)
            .bind(ids)
            .bind(least)
            .bind(greatest)
            .bind(count)
            .bind(filter.queue.as_ref().map(QueueName::as_str))
            .bind(filter.key.as_deref())
            .bind(filter.key_prefix.as_deref())
            .bind(filter.group.as_deref())
            .bind(filter.correlation_id.as_deref())
            .bind((!filter.headers.is_empty()).then_some(headers))
            .bind(filter.since.map(time))
            .bind(filter.until.map(time));
        let rows = self.read("list", statement).await?;
        let floor = cut_at(&rows, count)?.or(floor);
        Ok((rows, floor.filter(|id| *id > first)))
    }

    /// The first id of the messages enqueued at a time or later.
    async fn place(&self, at: Option<Timestamp>) -> Result<Option<i64>> {
        let Some(at) = at else { return Ok(None) };
        let statement = sqlx::query(include_str!("../sql/list_place.sql")).bind(time(at));
        let rows = self.read("list", statement).await?;
        Ok(ids(&rows)?.first().copied())
    }

    /// All messages whose key has the prefix, unless they are more than `most`.
    async fn by_prefix(&self, filter: &Filter, most: i64) -> Result<Option<Vec<i64>>> {
        let prefix = filter.key_prefix.as_deref();
        let Some(prefix) = prefix.filter(|_| filter.key.is_none()) else {
            return Ok(None);
        };
        let statement = sqlx::query(include_str!("../sql/list_prefix.sql"))
            .bind(filter.queue.as_ref().map(QueueName::as_str))
            .bind(prefix.to_owned())
            .bind(prefix_end(prefix))
            .bind(most + 1);
        let ids = ids(&self.read("list", statement).await?)?;
        Ok((ids.len() as i64 <= most).then_some(ids))
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

impl PostgresStore {
    /// The first ready and waiting messages of a queue, by ascending id.
    pub(crate) async fn list_open(
        &self,
        queue: &QueueName,
        limit: u32,
    ) -> Result<Vec<MessageSummary>> {
        let statement = sqlx::query(way!("open").page)
            .bind(queue.as_str())
            .bind(i64::from(limit));
        let rows = self.read("list what a redrive would cancel", statement);
        rows.await?.iter().rev().map(listed).collect()
    }
}

/// Whether a text holds what no text in PostgreSQL can, so that nothing fits it; the server would
/// reject the query.
pub fn holds_nul(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| text.contains('\0'))
}

type Statement<'q> = Query<'q, sqlx::Postgres, PgArguments>;

/// A way with what it is given: which of the parameters it has depends on the filter.
fn bound<'q>(
    statement: Statement<'q>,
    filter: &'q Filter,
    below: i64,
    floor: Option<i64>,
    count: i64,
) -> Statement<'q> {
    let statement = statement
        .bind(filter.queue.as_ref().map(QueueName::as_str))
        .bind(below)
        .bind(floor.unwrap_or(i64::MIN))
        .bind(count);
    match (&filter.key, &filter.correlation_id) {
        (None, None) if filter.code.is_some() => statement.bind(filter.code.as_deref()),
        (None, None) => statement,
        _ => statement
            .bind(filter.code.as_deref())
            .bind(filter.key.as_deref())
            .bind(filter.wanted_state().map(StateKind::as_str))
            .bind(filter.correlation_id.as_deref()),
    }
}

/// A time to compare with. PostgreSQL has no years before 4713 BC, and no message is that old.
fn time(at: Timestamp) -> jiff_sqlx::Timestamp {
    at.max(Timestamp::UNIX_EPOCH).to_sqlx()
}

fn ids(rows: &[PgRow]) -> Result<Vec<i64>> {
    rows.iter().map(|row| rows::column(row, "id")).collect()
}

/// The last of as many rows as were asked for: there may be more below it.
fn cut_at(rows: &[PgRow], count: i64) -> Result<Option<i64>> {
    let last = rows.last().filter(|_| rows.len() as i64 == count);
    last.map(|row| rows::column(row, "id")).transpose()
}

fn dead_cause(row: &PgRow) -> Result<DeadCause> {
    Ok(DeadCause {
        queue: rows::queue_name(row, "queue")?,
        code: rows::column(row, "code")?,
        messages: rows::count(row, "messages")?,
        attempts_min: rows::number(row, "attempts_min")?,
        attempts_max: rows::number(row, "attempts_max")?,
        first_at: rows::time(row, "first_at")?,
        last_at: rows::time(row, "last_at")?,
        recent: rows::count(row, "recent")?,
        before: rows::count(row, "before")?,
        example: MessageId(rows::column(row, "example")?),
        detail: rows::column(row, "detail")?,
    })
}

fn listed(row: &PgRow) -> Result<MessageSummary> {
    Ok(MessageSummary {
        id: MessageId(rows::column(row, "id")?),
        queue: rows::queue_name(row, "queue")?,
        key: rows::column(row, "key")?,
        group: rows::column(row, "group")?,
        created_at: rows::time(row, "created_at")?,
        expires_at: rows::optional_time(row, "expires_at")?,
        state: rows::state(row)?,
        attempts: rows::number(row, "attempts")?,
        code: rows::column(row, "code")?,
        detail: rows::column(row, "detail")?,
        erased: rows::column(row, "erased")?,
    })
}
