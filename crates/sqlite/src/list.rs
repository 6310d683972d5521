//! Lists of messages, newest first.
//!
//! Each filter begins where it finds messages soonest. Where that may be a long walk over others,
//! a page looks at a bounded number of them (`walk_max`) and returns where the next begins.

use async_trait::async_trait;
use consign_kernel::{
    Browse, Cursor, DEATHS_WINDOW, DeadCause, DeadLetter, Filter, MessageId, MessageSummary,
    PAGE_ENTRIES_MAX, Page, QueueName, StateKind, prefix_end,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    SqliteStore,
    error::Result,
    read::{LetterColumns, letter, state_kind},
    rows, sql,
    store::snapshot,
};

#[async_trait]
impl Browse for SqliteStore {
    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> consign_kernel::Result<Page<MessageSummary>> {
        let walk_max = i64::from(self.inner.list_walk_max);
        snapshot!(self, "list", |tx| list(
            &mut tx, walk_max, filter, before, limit
        ))
    }

    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> consign_kernel::Result<Page<DeadLetter>> {
        snapshot!(self, "list the dead", |tx| dead(
            &mut tx, filter, before, limit
        ))
    }

    async fn count_dead(&self, filter: &Filter, at_most: u64) -> consign_kernel::Result<u64> {
        snapshot!(self, "count the dead", |tx| count_dead(
            &mut tx, filter, at_most
        ))
    }

    async fn dead_causes(
        &self,
        filter: &Filter,
        at_most: u64,
    ) -> consign_kernel::Result<Vec<DeadCause>> {
        let now = self.now();
        snapshot!(self, "group the dead", |tx| dead_causes(
            &mut tx, now, filter, at_most
        ))
    }
}

pub(crate) async fn list(
    connection: &mut SqliteConnection,
    walk_max: i64,
    filter: &Filter,
    before: Option<Cursor>,
    limit: u32,
) -> Result<Page<MessageSummary>> {
    let limit = limit.min(PAGE_ENTRIES_MAX);
    if limit == 0 || filter.is_never() {
        let items = Vec::new();
        return Ok(Page { items, next: None });
    }
    let below = before.map_or(i64::MAX, |before| before.0);
    let found = if filter.is_narrow() {
        narrowed(connection, walk_max, filter, below, limit).await?
    } else {
        candidates(connection, walk_max, filter, below, i64::from(limit) + 1).await?
    };
    let (ids, floor) = found;
    let mut items = details(connection, filter, ids).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = match items.last() {
        Some(last) if more => Some(last.id),
        _ => floor.map(MessageId),
    };
    Ok(Page { items, next })
}

/// What may match by its place, a part of a page's walk, and of that what does match by what no index
/// has. With the smallest id that was looked at, if there are others below it.
async fn narrowed(
    connection: &mut SqliteConnection,
    walk_max: i64,
    filter: &Filter,
    below: i64,
    limit: u32,
) -> Result<(Vec<i64>, Option<i64>)> {
    let (since, until) = filter.span();
    let first = place(connection, since).await?.unwrap_or(i64::MIN);
    let end = place(connection, until).await?.unwrap_or(i64::MAX);
    let below = below.min(end);
    let most = (walk_max / 4).max(1);
    let (mut ids, floor) = match by_prefix(connection, filter, most).await? {
        Some(ids) => (ids, None),
        None => {
            let (ids, floor) = candidates(connection, walk_max, filter, below, most).await?;
            let is_cut = ids.len() as i64 >= most;
            let floor = ids.last().copied().filter(|_| is_cut).or(floor);
            (ids, floor)
        }
    };
    ids.retain(|id| (first..below).contains(id));
    // Those found by their prefix may be in another state: more than a page of them is looked at.
    let count = match filter.wanted_state() {
        Some(_) => i64::from(PAGE_ENTRIES_MAX),
        None => i64::from(limit) + 1,
    };
    let headers = serde_json::to_string(&filter.headers).expect("invariant: texts are JSON");
    let found: Vec<i64> = sqlx::query_scalar(sql!("list_narrow"))
        .bind(rows::array(ids.into_iter()))
        .bind(filter.queue.as_ref().map(QueueName::as_str))
        .bind(&filter.key)
        .bind(&filter.key_prefix)
        .bind(&filter.group)
        .bind(&filter.correlation_id)
        .bind((!filter.headers.is_empty()).then_some(headers))
        .bind(filter.since.map(rows::micros))
        .bind(filter.until.map(rows::micros))
        .bind(count)
        .fetch_all(connection)
        .await?;
    let is_cut = found.len() as i64 == count;
    let floor = found.last().copied().filter(|_| is_cut).or(floor);
    Ok((found, floor.filter(|id| *id > first)))
}

/// The first id of the messages enqueued at a time or later.
async fn place(connection: &mut SqliteConnection, at: Option<Timestamp>) -> Result<Option<i64>> {
    let Some(at) = at else { return Ok(None) };
    let found = sqlx::query_scalar(sql!("list_place")).bind(rows::micros(at));
    Ok(Some(found.fetch_one(connection).await?))
}

/// All messages whose key has the prefix, unless they are more than `most`.
async fn by_prefix(
    connection: &mut SqliteConnection,
    filter: &Filter,
    most: i64,
) -> Result<Option<Vec<i64>>> {
    let Some(prefix) = filter.key_prefix.as_ref().filter(|_| filter.key.is_none()) else {
        return Ok(None);
    };
    let ids: Vec<i64> = sqlx::query_scalar(sql!("list_prefix"))
        .bind(filter.queue.as_ref().map(QueueName::as_str))
        .bind(prefix)
        .bind(prefix_end(prefix))
        .bind(most + 1)
        .fetch_all(connection)
        .await?;
    Ok((ids.len() as i64 <= most).then_some(ids))
}

/// What a list shows of these messages, as far as they fit.
pub(crate) async fn details(
    connection: &mut SqliteConnection,
    filter: &Filter,
    ids: Vec<i64>,
) -> Result<Vec<MessageSummary>> {
    let found: Vec<ListedColumns> = sqlx::query_as(sql!("list_details"))
        .bind(rows::array(ids.into_iter()))
        .fetch_all(connection)
        .await?;
    let mut items = Vec::with_capacity(found.len());
    for columns in found {
        let (id, queue, key, group, created_at, expires_at, state, attempts, code, detail, erased) =
            columns;
        let state = state_kind(&state)?;
        let wanted = filter.state.is_none_or(|wanted| wanted == state)
            && filter
                .code
                .as_ref()
                .is_none_or(|wanted| Some(wanted) == code.as_ref());
        if wanted {
            items.push(MessageSummary {
                id: MessageId(id),
                queue: rows::queue_name(&queue)?,
                key,
                group,
                created_at: rows::timestamp(created_at)?,
                expires_at: expires_at.map(rows::timestamp).transpose()?,
                state,
                attempts: rows::count(attempts)?,
                code,
                detail,
                erased,
            });
        }
    }
    Ok(items)
}

type ListedColumns = (
    i64,
    String,
    Option<String>,
    Option<String>,
    i64,
    Option<i64>,
    String,
    i64,
    Option<String>,
    Option<String>,
    bool,
);

/// At most so many ids, from where the filter finds them soonest, and the smallest id that was looked
/// at if there are others below it.
///
/// A key names at most one message of each queue, so the rest of the filter is checked
/// afterwards.
async fn candidates(
    connection: &mut SqliteConnection,
    walk_max: i64,
    filter: &Filter,
    below: i64,
    count: i64,
) -> Result<(Vec<i64>, Option<i64>)> {
    let state = filter.wanted_state();
    let queue = filter.queue.as_ref().map(QueueName::as_str);
    if let Some(key) = &filter.key {
        let query = sqlx::query_scalar(sql!("list_key")).bind(queue).bind(below);
        let query = query.bind(-1).bind(key).bind(&filter.correlation_id);
        return Ok((query.fetch_all(connection).await?, None));
    }
    if let Some(id) = &filter.correlation_id {
        let floor = match (queue, state) {
            (None, None) => None,
            _ => {
                floor(
                    connection,
                    sql!("floor_correlation"),
                    below,
                    walk_max,
                    Some(id),
                )
                .await?
            }
        };
        let query = sqlx::query_scalar(sql!("list_correlation"))
            .bind(queue)
            .bind(below)
            .bind(count)
            .bind(id)
            .bind(floor.unwrap_or(i64::MIN))
            .bind(state.map(StateKind::as_str))
            .bind(&filter.code);
        return Ok((query.fetch_all(connection).await?, floor));
    }
    let (statement, floor) = match (state, queue) {
        (Some(StateKind::Dead), _) => {
            let before = Some(MessageId(below));
            let letters = dead_letters(connection, filter, before, count).await?;
            let ids = letters.iter().map(|letter| letter.message_id.0).collect();
            return Ok((ids, None));
        }
        (None, None) => (sql!("list_any"), None),
        (None, Some(_)) => (sql!("list_queue"), None),
        (Some(StateKind::Waiting), _) => (sql!("list_waiting"), None),
        (Some(StateKind::Held), _) => (sql!("list_held"), None),
        (Some(StateKind::Discarded), _) => (sql!("list_discarded"), None),
        (Some(StateKind::Leased), _) => (sql!("list_leased"), None),
        (Some(StateKind::Delivered), _) => {
            let floor = floor(connection, sql!("floor_attempt"), below, walk_max, None).await?;
            (sql!("list_delivered"), floor)
        }
        (Some(StateKind::Ready), _) if is_deep(connection, queue).await? => {
            let floor = floor(connection, sql!("floor_message"), below, walk_max, None).await?;
            (sql!("list_ready_deep"), floor)
        }
        (Some(StateKind::Ready), _) => (sql!("list_ready"), None),
    };
    let query = sqlx::query_scalar(statement)
        .bind(queue)
        .bind(below)
        .bind(count);
    let query = match state {
        Some(StateKind::Delivered | StateKind::Ready) => query.bind(floor.unwrap_or(i64::MIN)),
        _ => query,
    };
    Ok((query.fetch_all(connection).await?, floor))
}

async fn is_deep(connection: &mut SqliteConnection, queue: Option<&str>) -> Result<bool> {
    Ok(sqlx::query_scalar(sql!("ready_is_deep"))
        .bind(queue)
        .fetch_one(connection)
        .await?)
}

/// The smallest id that a page beginning below `below` looks at, if there are others below it.
async fn floor(
    connection: &mut SqliteConnection,
    statement: &'static str,
    below: i64,
    walk_max: i64,
    correlation_id: Option<&String>,
) -> Result<Option<i64>> {
    let query = sqlx::query_scalar(statement).bind(below).bind(walk_max);
    let query = match correlation_id {
        Some(id) => query.bind(id),
        None => query,
    };
    let beyond: Option<i64> = query.fetch_optional(connection).await?;
    // A message with more attempts than a page looks at is looked at whole: pages go on.
    Ok(beyond.map(|id| (id + 1).min(below - 1)))
}

pub(crate) async fn dead(
    connection: &mut SqliteConnection,
    filter: &Filter,
    before: Option<Cursor>,
    limit: u32,
) -> Result<Page<DeadLetter>> {
    let limit = limit.min(PAGE_ENTRIES_MAX);
    let letters = dead_letters(connection, filter, before, i64::from(limit) + 1).await?;
    Ok(page(letters, limit, |letter| letter.message_id))
}

pub(crate) async fn dead_letters(
    connection: &mut SqliteConnection,
    filter: &Filter,
    before: Option<Cursor>,
    count: i64,
) -> Result<Vec<DeadLetter>> {
    let statement = match filter.code {
        Some(_) => sql!("dead_list_code"),
        None => sql!("dead_list"),
    };
    let found: Vec<LetterColumns> = sqlx::query_as(statement)
        .bind(filter.queue.as_ref().map(QueueName::as_str))
        .bind(&filter.code)
        .bind(before.map_or(i64::MAX, |before| before.0))
        .bind(count)
        .fetch_all(connection)
        .await?;
    found.into_iter().map(letter).collect()
}

pub(crate) async fn count_dead(
    connection: &mut SqliteConnection,
    filter: &Filter,
    at_most: u64,
) -> Result<u64> {
    let count: i64 = sqlx::query_scalar(sql!("dead_count"))
        .bind(filter.queue.as_ref().map(QueueName::as_str))
        .bind(&filter.code)
        .bind(i64::try_from(at_most).unwrap_or(i64::MAX))
        .fetch_one(connection)
        .await?;
    Ok(count.unsigned_abs())
}

pub(crate) async fn dead_causes(
    connection: &mut SqliteConnection,
    now: Timestamp,
    filter: &Filter,
    at_most: u64,
) -> Result<Vec<DeadCause>> {
    type Columns = (
        String,
        String,
        i64,
        i64,
        i64,
        i64,
        i64,
        i64,
        i64,
        i64,
        Option<String>,
    );
    let window = DEATHS_WINDOW.as_micros() as i64;
    let found: Vec<Columns> = sqlx::query_as(sql!("dead_causes"))
        .bind(filter.queue.as_ref().map(QueueName::as_str))
        .bind(&filter.code)
        .bind(i64::try_from(at_most).unwrap_or(i64::MAX))
        .bind(PAGE_ENTRIES_MAX)
        .bind(rows::micros(now) - window)
        .bind(rows::micros(now) - 2 * window)
        .fetch_all(connection)
        .await?;
    let cause = |it: Columns| {
        Ok(DeadCause {
            queue: rows::queue_name(&it.0)?,
            code: it.1,
            messages: it.2.unsigned_abs(),
            attempts_min: rows::count(it.3)?,
            attempts_max: rows::count(it.4)?,
            first_at: rows::timestamp(it.5)?,
            last_at: rows::timestamp(it.6)?,
            recent: it.7.unsigned_abs(),
            before: it.8.unsigned_abs(),
            example: MessageId(it.9),
            detail: it.10,
        })
    };
    found.into_iter().map(cause).collect()
}

/// The first `limit` of the items, and where the next page begins if there are more.
fn page<T>(mut items: Vec<T>, limit: u32, id: impl Fn(&T) -> MessageId) -> Page<T> {
    let limit = limit as usize;
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(id);
    Page { items, next }
}
