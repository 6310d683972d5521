//! Claiming, renewing, releasing, beginning.

use std::{borrow::Cow, time::Duration};

use consign_kernel::{
    BeginAnswer, Claim, ClaimedMessage, Fence, Lease, Message, MessageId, ReleaseAnswer,
    RenewAnswer, Token,
};
use serde_json::value::RawValue;
use sqlx::{FromRow, Row, sqlite::SqliteRow};
use uuid::Uuid;

use crate::{
    error::{Failure, Result},
    groups::NewRun,
    job::{Work, arguments},
    queues::unknown_queue,
    rows::{self, Arrays, Entry, LeaseColumns, LeaseRow, later},
    sql,
};

impl Work<'_> {
    /// `presumed_begun`: the sink may be called from now on without a word. `run_length` is the
    /// length of run to expect; it decides how many are read, never which.
    pub async fn claim(
        &mut self,
        claim: &Claim,
        presumed_begun: bool,
        run_length: usize,
    ) -> Result<Option<(Lease, usize)>> {
        claim.validate()?;
        let arguments = arguments!(
            claim.queue.as_str(),
            runs_wanted(claim.limit, run_length),
            claim.limit
        )?;
        let first = [
            sql!("begin", "queue_for_claim", "ready_first"),
            sql!("queue_for_claim", "ready_first"),
        ];
        let mut answers = self.open_with(first, arguments).await?.into_iter();
        let queue = answers.next().and_then(|rows| rows.into_iter().next());
        let mut runs = answers.next().unwrap_or_default();
        let Some(queue) = queue else {
            return Err(unknown_queue(self.connection, &claim.queue).await);
        };
        let (policy, paused, first_ends_at, app) =
            <(String, bool, Option<i64>, Option<String>)>::from_row(&queue)?;
        self.components
            .check_app(claim.queue.as_str(), app.as_deref())?;
        let policy = rows::policy(claim.queue.as_str(), &policy)?;
        if let Some(ttl) = claim.ttl {
            policy.check_ttl(&claim.queue, ttl)?;
        }
        if first_ends_at.is_some_and(|ends_at| ends_at <= rows::micros(self.now)) {
            self.expire(u32::MAX, Some(&claim.queue), Duration::ZERO)
                .await?;
            runs = sqlx::query(sql!("ready_first"))
                .bind(claim.queue.as_str())
                .bind(runs_wanted(claim.limit, run_length))
                .bind(claim.limit)
                .fetch_all(&mut *self.connection)
                .await?;
        }
        if paused {
            return Ok(None);
        }
        let bytes_max = claim.bytes_allowed(&policy);
        let taken = self.take_due(claim, bytes_max, runs).await?;
        if taken.entries.is_empty() {
            return Ok(None);
        }
        let ttl = claim.ttl.unwrap_or(policy.lease_ttl());
        let run_length = taken.entries.len().div_ceil(taken.runs);
        let lease = self.lease(claim, presumed_begun, ttl, taken).await?;
        Ok(Some((lease, run_length)))
    }

    /// Removes the emptied runs, writes the lease and reads its messages.
    async fn lease(
        &mut self,
        claim: &Claim,
        presumed_begun: bool,
        ttl: Duration,
        taken: Taken,
    ) -> Result<Lease> {
        let token = Token(Uuid::new_v4());
        let expires_at = later(self.now, ttl);
        let in_doubt = self.in_doubt(&taken.entries).await?;
        let arrays = Arrays::of(&taken.entries);
        let arguments = arguments!(
            rows::array(taken.emptied.iter().copied()),
            arrays.ids,
            arrays.tries,
            arrays.attempts,
            token.0,
            claim.queue.as_str(),
            claim.owner.as_str(),
            rows::micros(self.now),
            rows::micros(expires_at),
            presumed_begun
        )?;
        let statements = sql!("ready_remove", "lease_append", "message_claimed");
        let (fence, messages) = together(&self.rows_of(statements, arguments).await?)?;
        Ok(Lease {
            token,
            fence,
            claimed_at: self.now,
            expires_at,
            messages: claimed(claim, &taken.entries, &in_doubt, messages)?,
        })
    }

    /// Takes the oldest due entries out of their runs: one `apart` run alone if it is the oldest,
    /// otherwise any others, the last one split to respect the limit. `first` are the first runs.
    async fn take_due(
        &mut self,
        claim: &Claim,
        bytes_max: u64,
        first: Vec<SqliteRow>,
    ) -> Result<Taken> {
        let limit = claim.limit as usize;
        let now = rows::micros(self.now);
        let mut runs = Vec::with_capacity(first.len());
        for row in &first {
            runs.push(Run::new(RunColumns::from_row(row)?)?);
        }
        runs.retain(|run| run.due_at <= now);
        if let [apart, others @ ..] = &runs[..]
            && apart.apart
        {
            let is_oldest = others.first().is_none_or(|run| apart.key() < run.key());
            match is_oldest {
                true => runs.truncate(1),
                false => drop(runs.remove(0)),
            }
        }
        let is_apart = runs.first().is_some_and(|run| run.apart);
        let mut count: usize = runs.iter().map(|run| run.entries.len()).sum();
        while let Some(last) = runs.last()
            && count < limit
            && !is_apart
        {
            let missing = u32::try_from(limit - count).unwrap_or(u32::MAX);
            let more: Vec<RunColumns> = sqlx::query_as(sql!("ready_next"))
                .bind(claim.queue.as_str())
                .bind(now)
                .bind(last.due_at)
                .bind(last.run)
                .bind(runs_wanted(missing, last.entries.len()))
                .bind(claim.limit)
                .fetch_all(&mut *self.connection)
                .await?;
            if more.is_empty() {
                break;
            }
            for columns in more {
                let run = Run::new(columns)?;
                count += run.entries.len();
                runs.push(run);
            }
        }
        self.take(runs, limit, bytes_max).await
    }

    /// Takes `limit` entries of `bytes_max` out of these runs, but one at least; those it empties are
    /// left to be removed.
    async fn take(&mut self, runs: Vec<Run>, limit: usize, bytes_max: u64) -> Result<Taken> {
        let mut taken = Taken::default();
        let mut bytes_left = bytes_max;
        for mut run in runs {
            let room = run.entries.len().min(limit - taken.entries.len());
            if room == 0 {
                break;
            }
            let fits = if run.bytes <= bytes_left {
                bytes_left -= run.bytes;
                room
            } else {
                let is_first = taken.entries.is_empty();
                let fits = self.fitting(&run.entries[..room], bytes_left).await?;
                bytes_left = 0;
                fits.max(usize::from(is_first))
            };
            if fits == 0 {
                break;
            }
            taken.runs += 1;
            if fits == run.entries.len() {
                taken.entries.append(&mut run.entries);
                taken.emptied.push(run.run);
            } else {
                taken.entries.extend(run.entries.drain(..fits));
                self.shrink_run(run.run, &run.entries).await?;
                break;
            }
        }
        Ok(taken)
    }

    /// How many of the first of these messages have no more than `bytes_max` together.
    async fn fitting(&mut self, entries: &[Entry], bytes_max: u64) -> Result<usize> {
        let bytes: Vec<i64> = sqlx::query_scalar(sql!("message_bytes"))
            .bind(rows::array(entries.iter().map(|entry| entry.id.0)))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut left = bytes_max;
        let fits = bytes.into_iter().take_while(|bytes| {
            let rest = left.checked_sub(bytes.unsigned_abs());
            left = rest.unwrap_or(left);
            rest.is_some()
        });
        Ok(fits.count())
    }

    pub(crate) async fn remove_runs(&mut self, runs: &[i64]) -> Result<()> {
        sqlx::query(sql!("ready_remove"))
            .bind(rows::array(runs.iter().copied()))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    pub(crate) async fn shrink_run(&mut self, run: i64, rest: &[Entry]) -> Result<()> {
        let arrays = Arrays::of(rest);
        sqlx::query(sql!("ready_shrink"))
            .bind(run)
            .bind(arrays.ids)
            .bind(arrays.tries)
            .bind(arrays.attempts)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Those messages that may have been delivered before.
    pub async fn in_doubt(&mut self, entries: &[Entry]) -> Result<Vec<i64>> {
        let tried = entries.iter().filter(|entry| entry.attempts > 0);
        let tried: Vec<i64> = tried.map(|entry| entry.id.0).collect();
        if tried.is_empty() {
            return Ok(Vec::new());
        }
        let found = sqlx::query_scalar(sql!("attempt_in_doubt"))
            .bind(rows::array(tried.into_iter()))
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(found)
    }

    /// Lets a live lease end later.
    pub async fn renew(&mut self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        let Some(lease) = self.live(token).await? else {
            return Ok(RenewAnswer::LeaseLost);
        };
        lease.policy.check_ttl(&lease.queue, ttl)?;
        let expires_at: Option<i64> = sqlx::query_scalar(sql!("lease_renew"))
            .bind(token.0)
            .bind(rows::micros(self.now))
            .bind(rows::micros(later(self.now, ttl)))
            .fetch_optional(&mut *self.connection)
            .await?;
        Ok(match expires_at {
            Some(expires_at) => RenewAnswer::Renewed {
                expires_at: rows::timestamp(expires_at)?,
            },
            None => RenewAnswer::LeaseLost,
        })
    }

    pub(crate) async fn release(&mut self, token: Token) -> Result<ReleaseAnswer> {
        let Some(lease) = self.live(token).await? else {
            return Ok(ReleaseAnswer::LeaseLost);
        };
        let (begun, fresh): (Vec<Entry>, Vec<Entry>) = lease
            .entries
            .iter()
            .partition(|entry| lease.begun.contains(&entry.id));
        let run = NewRun {
            queue: &lease.queue,
            due_at: self.now,
            entries: &fresh,
            apart: false,
        };
        self.make_ready(&[run]).await?;
        self.wake(&lease.queue, &lease.policy);
        let released = fresh.iter().map(|entry| entry.id).collect();
        self.keep_in_lease(LeaseRow {
            entries: begun,
            ..lease
        })
        .await?;
        Ok(ReleaseAnswer::Released(released))
    }

    pub(crate) async fn begin(&mut self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        let Some(mut lease) = self.live(token).await? else {
            return Ok(BeginAnswer::LeaseLost);
        };
        let strangers = lease.strangers(ids.iter().copied());
        if !strangers.is_empty() {
            return Ok(BeginAnswer::NotInLease(strangers));
        }
        lease.begun.extend(ids);
        self.keep_in_lease(lease).await?;
        Ok(BeginAnswer::Begun)
    }

    /// Writes what a lease still holds, or ends it if that is nothing.
    pub(crate) async fn keep_in_lease(&mut self, lease: LeaseRow) -> Result<()> {
        if lease.entries.is_empty() {
            sqlx::query(sql!("lease_remove"))
                .bind(lease.fence.0)
                .execute(&mut *self.connection)
                .await?;
            return Ok(());
        }
        let arrays = Arrays::of(&lease.entries);
        sqlx::query(sql!("lease_shrink"))
            .bind(lease.fence.0)
            .bind(arrays.ids)
            .bind(arrays.tries)
            .bind(arrays.attempts)
            .bind(rows::id_array(&lease.begun))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// A row of `lease` with its queue's policy and app. Refuses those of apps that the store was opened
    /// without.
    pub(crate) fn lease_row(&self, row: &SqliteRow) -> Result<LeaseRow> {
        let lease = LeaseRow::new(LeaseColumns::from_row(row)?)?;
        let app: Option<String> = row.try_get("app")?;
        self.components
            .check_app(lease.queue.as_str(), app.as_deref())?;
        Ok(lease)
    }

    /// The lease a token may speak for now.
    pub async fn live(&mut self, token: Token) -> Result<Option<LeaseRow>> {
        let found = sqlx::query(sql!("lease_by_token"))
            .bind(token.0)
            .fetch_optional(&mut *self.connection)
            .await?;
        let lease = found.as_ref().map(|row| self.lease_row(row)).transpose()?;
        Ok(lease.filter(|lease| lease.expires_at > self.now))
    }
}

/// The new lease's fence and messages, from the answers to the statements that made it.
fn together(answers: &[Vec<SqliteRow>]) -> Result<(Fence, Vec<Message>)> {
    let [_, fence, messages, ..] = answers else {
        return Err(Failure::corrupt("three statements gave fewer answers"));
    };
    let (Some(fence), Some(messages)) = (fence.first(), messages.first()) else {
        return Err(Failure::corrupt("a new lease has no fence"));
    };
    let text: Option<&str> = messages.try_get(0)?;
    let text = format!("[{}]", text.unwrap_or_default());
    let columns: Vec<ClaimedColumns<'_>> = serde_json::from_str(&text)
        .map_err(|error| Failure::corrupt(format!("a stored document is {error}")))?;
    let message = |(id, queue, key, group, created_at, headers, payload): ClaimedColumns<'_>| {
        Ok(Message {
            id: MessageId(id),
            queue: rows::queue_name(&queue)?,
            key,
            group,
            payload: rows::payload(payload.get())?,
            headers: rows::document(headers.get())?,
            created_at: rows::timestamp(created_at)?,
        })
    };
    let messages: Result<Vec<Message>> = columns.into_iter().map(message).collect();
    Ok((Fence(fence.try_get(0)?), messages?))
}

/// The messages of a lease as its owner gets to see them.
fn claimed(
    claim: &Claim,
    entries: &[Entry],
    in_doubt: &[i64],
    messages: Vec<Message>,
) -> Result<Vec<ClaimedMessage>> {
    if messages.len() != entries.len() {
        let queue = &claim.queue;
        return Err(Failure::corrupt(format!(
            "a ready run of queue {queue} names a message that does not exist"
        )));
    }
    let claimed = |(message, entry): (Message, &Entry)| {
        assert_eq!(
            message.id, entry.id,
            "messages come in the order of the run"
        );
        ClaimedMessage {
            in_doubt: in_doubt.contains(&entry.id.0),
            message,
            attempt_no: entry.attempts + 1,
            tries: entry.tries,
        }
    };
    Ok(messages.into_iter().zip(entries).map(claimed).collect())
}

/// How many runs hold this many messages, if they are this long.
fn runs_wanted(messages: u32, run_length: usize) -> i64 {
    let run_length = u32::try_from(run_length).unwrap_or(u32::MAX);
    i64::from(messages.div_ceil(run_length.max(1)))
}

/// What a claim took out of ready.
#[derive(Default)]
struct Taken {
    entries: Vec<Entry>,
    /// Runs it looked into.
    runs: usize,
    /// Those of them that are to be removed.
    emptied: Vec<i64>,
}

type RunColumns = (i64, i64, bool, String, String, String, i64);
/// A message as `message_claimed` writes it. The documents are taken apart one by one, so that
/// their nesting counts from where they begin.
type ClaimedColumns<'t> = (
    i64,
    Cow<'t, str>,
    Option<String>,
    Option<String>,
    i64,
    &'t RawValue,
    &'t RawValue,
);

/// A ready run.
struct Run {
    run: i64,
    due_at: i64,
    apart: bool,
    entries: Vec<Entry>,
    /// Of its first messages, as many as the claim wants.
    bytes: u64,
}

impl Run {
    fn new((run, due_at, apart, ids, tries, attempts, bytes): RunColumns) -> Result<Self> {
        let what = || format!("ready run {run}");
        Ok(Self {
            run,
            due_at,
            apart,
            entries: rows::entries(&what, &ids, &tries, &attempts)?,
            bytes: bytes.unsigned_abs(),
        })
    }

    /// The order in which runs are claimed.
    fn key(&self) -> (i64, i64) {
        (self.due_at, self.run)
    }
}
