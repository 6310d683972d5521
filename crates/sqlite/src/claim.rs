//! Waiting for work, claiming, renewing, releasing, beginning, expiring.

use std::{borrow::Cow, sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    BeginAnswer, Claim, ClaimedMessage, Claims, Expiry, Fence, Lease, Message, MessageId,
    QueueName, QueuePolicy, ReleaseAnswer, RenewAnswer, Report, SendSlots, Token,
    plan::{EXPIRED_ROUNDS_MAX, Room, Share, claimable, not_in_lease, split_expired},
    validate_ttl,
};
use serde_json::value::RawValue;
use sqlx::{FromRow, Row, sqlite::SqliteRow};
use uuid::Uuid;

use crate::{
    SqliteStore,
    error::{Failure, Result},
    groups::NewBatch,
    job::{Work, arguments},
    queues::unknown_queue,
    rows::{self, Arrays, Entry, LeaseColumns, LeaseRow, later},
    sql,
    store::{Inner, write, write_unopened},
};

#[async_trait]
impl Claims for SqliteStore {
    async fn wait(&self, queue: &QueueName, timeout: Duration) -> consign_kernel::Result<bool> {
        let Inner {
            waiters,
            readers,
            clock,
            ..
        } = &*self.inner;
        let woken = waiters.wait(readers, clock, queue, timeout).await;
        woken.map_err(|failure| failure.during("wait"))
    }

    async fn claim(&self, claim: &Claim) -> consign_kernel::Result<Option<Lease>> {
        self.take(claim, false).await
    }

    async fn reserve_slots(
        &self,
        queue: &QueueName,
        count: u32,
    ) -> consign_kernel::Result<Option<SendSlots>> {
        SendSlots::validate_count(count)?;
        write!(self, "reserve send slots", (queue), |work| work
            .reserve_slots(&queue, count))
    }

    async fn renew(&self, token: Token, ttl: Duration) -> consign_kernel::Result<RenewAnswer> {
        validate_ttl("ttl", ttl)?;
        write!(self, "renew", (), |work| work.renew(token, ttl))
    }

    async fn release(&self, token: Token) -> consign_kernel::Result<ReleaseAnswer> {
        write!(self, "release", (), |work| work.release(token))
    }

    async fn begin(&self, token: Token, ids: &[MessageId]) -> consign_kernel::Result<BeginAnswer> {
        write!(self, "begin", (ids), |work| work.begin(token, &ids))
    }

    async fn expire(&self, limit: u32) -> consign_kernel::Result<Expiry> {
        write!(self, "expire", (), |work| work.expire(
            limit,
            None,
            Duration::ZERO
        ))
    }
}

impl SqliteStore {
    /// The kernel's claim; `presumed_begun`: the sink may be called from now on without a recorded start.
    pub async fn take(
        &self,
        claim: &Claim,
        presumed_begun: bool,
    ) -> consign_kernel::Result<Option<Lease>> {
        loop {
            let batch_length = self.inner.batch_length.load(Ordering::Relaxed);
            let claimed = write_unopened!(self, "claim", (claim), |work| work.claim(
                &claim,
                presumed_begun,
                batch_length
            ))?;
            let Some((lease, batch_length)) = claimed else {
                return Ok(None);
            };
            self.inner
                .batch_length
                .store(batch_length, Ordering::Relaxed);
            kill_at("claim_committed");
            // The time of all it had has passed.
            if !lease.messages.is_empty() {
                return Ok(Some(lease));
            }
        }
    }
}

impl Work<'_> {
    /// `presumed_begun`: the sink may be called from now on without a recorded start. `batch_length` is the
    /// length of batch to expect; it decides how many are read, never which.
    pub async fn claim(
        &mut self,
        claim: &Claim,
        presumed_begun: bool,
        batch_length: usize,
    ) -> Result<Option<(Lease, usize)>> {
        claim.validate()?;
        let arguments = arguments!(
            claim.queue.as_str(),
            batches_wanted(claim.limit, batch_length),
            claim.limit
        )?;
        let first = [
            sql!("begin", "queue_for_claim", "ready_first"),
            sql!("queue_for_claim", "ready_first"),
        ];
        let mut answers = self.open_with(first, arguments).await?.into_iter();
        let queue = answers.next().and_then(|rows| rows.into_iter().next());
        let mut batches = answers.next().unwrap_or_default();
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
            batches = self.first_batches(claim, batch_length).await?;
        }
        if paused {
            return Ok(None);
        }
        self.claim_due(claim, &policy, presumed_begun, batches)
            .await
    }

    /// The first batches of a queue, of which a claim of this size needs so many.
    async fn first_batches(
        &mut self,
        claim: &Claim,
        batch_length: usize,
    ) -> Result<Vec<SqliteRow>> {
        let batches = sqlx::query(sql!("ready_first"))
            .bind(claim.queue.as_str())
            .bind(batches_wanted(claim.limit, batch_length))
            .bind(claim.limit);
        Ok(batches.fetch_all(&mut *self.connection).await?)
    }

    /// Leases what is due, from the first batches on. Messages whose time has passed are settled under
    /// the lease; one without messages has ended, and more may be due.
    async fn claim_due(
        &mut self,
        claim: &Claim,
        policy: &QueuePolicy,
        presumed_begun: bool,
        mut batches: Vec<SqliteRow>,
    ) -> Result<Option<(Lease, usize)>> {
        let limit = match policy.total_concurrency {
            None => claim.limit,
            Some(_) => policy.claimable(claim.limit, self.leased(&claim.queue).await?),
        };
        let ttl = claim.ttl.unwrap_or(policy.lease_ttl());
        let mut rounds = 0..EXPIRED_ROUNDS_MAX;
        loop {
            let room = Room::new(limit, claim.bytes_allowed(policy));
            let taken = self.take_due(claim, limit, room, batches).await?;
            if taken.entries.is_empty() {
                return Ok(None);
            }
            let batch_length = taken.entries.len().div_ceil(taken.batches);
            let lease = self.lease(claim, presumed_begun, ttl, taken).await?;
            let (messages, expired) = split_expired(lease.messages, self.now);
            if !expired.is_empty() {
                self.settle_expired(lease.token, &expired).await?;
            }
            rounds.next();
            if !messages.is_empty() || rounds.is_empty() {
                return Ok(Some((Lease { messages, ..lease }, batch_length)));
            }
            batches = self.first_batches(claim, batch_length).await?;
        }
    }

    /// Settles messages under a lease that was just taken.
    async fn settle_expired(&mut self, token: Token, expired: &[Report]) -> Result<()> {
        let lease = self.live(token).await?;
        let lease = lease.ok_or_else(|| Failure::corrupt("a new lease cannot be found"))?;
        let reports: Vec<&Report> = expired.iter().collect();
        // No retry, so no chance is needed.
        self.record(lease, &reports, 0.0).await?;
        Ok(())
    }

    /// Removes the emptied batches, writes the lease and reads its messages.
    async fn lease(
        &mut self,
        claim: &Claim,
        presumed_begun: bool,
        ttl: Duration,
        taken: ClaimedEntries,
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

    /// Takes the oldest due entries out of their batches, the last one split to respect the limits.
    /// `first` are the first batches.
    async fn take_due(
        &mut self,
        claim: &Claim,
        limit: u32,
        room: Room,
        first: Vec<SqliteRow>,
    ) -> Result<ClaimedEntries> {
        let limit = limit as usize;
        let now = rows::micros(self.now);
        let mut batches = Vec::with_capacity(first.len());
        for row in &first {
            batches.push(Batch::new(BatchColumns::from_row(row)?)?);
        }
        batches.retain(|batch| batch.due_at <= now);
        batches.sort_by_key(Batch::key);
        let mut batches = claimable(batches, |batch| batch.isolated);
        let is_isolated = batches.first().is_some_and(|batch| batch.isolated);
        let mut count: usize = batches.iter().map(|batch| batch.entries.len()).sum();
        while let Some(last) = batches.last()
            && count < limit
            && !is_isolated
        {
            let missing = u32::try_from(limit - count).unwrap_or(u32::MAX);
            let more: Vec<BatchColumns> = sqlx::query_as(sql!("ready_next"))
                .bind(claim.queue.as_str())
                .bind(now)
                .bind(last.due_at)
                .bind(last.batch)
                .bind(batches_wanted(missing, last.entries.len()))
                .bind(claim.limit)
                .fetch_all(&mut *self.connection)
                .await?;
            if more.is_empty() {
                break;
            }
            for columns in more {
                let batch = Batch::new(columns)?;
                count += batch.entries.len();
                batches.push(batch);
            }
        }
        self.take(batches, room).await
    }

    /// Takes entries out of these batches while there is room; those it empties are left to be removed.
    /// Sizes of messages are read only where a batch as a whole does not fit.
    async fn take(&mut self, batches: Vec<Batch>, mut room: Room) -> Result<ClaimedEntries> {
        let mut taken = ClaimedEntries::default();
        for mut batch in batches {
            let length = batch.entries.len();
            let share = match room.take_by_total(length, batch.bytes) {
                Some(share) => share,
                None => {
                    let sizes = self.sizes(&batch.entries[..room.at_most(length)]).await?;
                    room.take_by_sizes(length, sizes)
                }
            };
            match share {
                Share::Whole => {
                    taken.batches += 1;
                    taken.entries.append(&mut batch.entries);
                    taken.emptied.push(batch.batch);
                }
                Share::Part(count) => {
                    taken.batches += 1;
                    taken.entries.extend(batch.entries.drain(..count));
                    self.shrink_batch(batch.batch, &batch.entries).await?;
                    break;
                }
                Share::Nothing => break,
            }
        }
        Ok(taken)
    }

    /// How many bytes each of these messages has.
    async fn sizes(&mut self, entries: &[Entry]) -> Result<Vec<u64>> {
        let sizes: Vec<i64> = sqlx::query_scalar(sql!("message_bytes"))
            .bind(rows::array(entries.iter().map(|entry| entry.id.0)))
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(sizes.into_iter().map(i64::unsigned_abs).collect())
    }

    pub(crate) async fn remove_batches(&mut self, batches: &[i64]) -> Result<()> {
        sqlx::query(sql!("ready_remove"))
            .bind(rows::array(batches.iter().copied()))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    pub(crate) async fn shrink_batch(&mut self, batch: i64, rest: &[Entry]) -> Result<()> {
        let arrays = Arrays::of(rest);
        sqlx::query(sql!("ready_shrink"))
            .bind(batch)
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
        let batch = NewBatch {
            queue: &lease.queue,
            due_at: self.now,
            entries: &fresh,
            isolated: false,
        };
        self.make_ready(&[batch]).await?;
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
        let strangers = not_in_lease(&lease.entries, ids.iter().copied());
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

    /// A row of `lease` with its queue's policy and app. Rejects those of apps that the store was opened
    /// without.
    pub(crate) fn lease_row(&self, row: &SqliteRow) -> Result<LeaseRow> {
        let lease = LeaseRow::new(LeaseColumns::from_row(row)?)?;
        let app: Option<String> = row.try_get("app")?;
        self.components
            .check_app(lease.queue.as_str(), app.as_deref())?;
        Ok(lease)
    }

    /// The live lease of a token.
    pub async fn live(&mut self, token: Token) -> Result<Option<LeaseRow>> {
        let lease = self.lease_by_token(token).await?;
        Ok(lease.filter(|lease| lease.expires_at > self.now))
    }

    /// The lease of a token, which may have expired.
    pub async fn lease_by_token(&mut self, token: Token) -> Result<Option<LeaseRow>> {
        let found = sqlx::query(sql!("lease_by_token"))
            .bind(token.0)
            .fetch_optional(&mut *self.connection)
            .await?;
        found.as_ref().map(|row| self.lease_row(row)).transpose()
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
    let message = |columns: ClaimedColumns<'_>| {
        let (id, queue, key, group, created_at, expires_at, headers, payload) = columns;
        Ok(Message {
            id: MessageId(id),
            queue: rows::queue_name(&queue)?,
            key,
            group,
            payload: rows::payload(payload.get())?,
            headers: rows::document(headers.get())?,
            created_at: rows::timestamp(created_at)?,
            expires_at: expires_at.map(rows::timestamp).transpose()?,
        })
    };
    let messages: Result<Vec<Message>> = columns.into_iter().map(message).collect();
    Ok((Fence(fence.try_get(0)?), messages?))
}

/// The messages of a lease, as claimed.
fn claimed(
    claim: &Claim,
    entries: &[Entry],
    in_doubt: &[i64],
    messages: Vec<Message>,
) -> Result<Vec<ClaimedMessage>> {
    if messages.len() != entries.len() {
        let queue = &claim.queue;
        return Err(Failure::corrupt(format!(
            "a ready batch of queue {queue} names a message that does not exist"
        )));
    }
    let claimed = |(message, entry): (Message, &Entry)| {
        assert_eq!(
            message.id, entry.id,
            "messages come in the order of the batch"
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

/// How many batches hold this many messages, if they are this long.
fn batches_wanted(messages: u32, batch_length: usize) -> i64 {
    let batch_length = u32::try_from(batch_length).unwrap_or(u32::MAX);
    i64::from(messages.div_ceil(batch_length.max(1)))
}

/// What a claim took out of ready.
#[derive(Default)]
struct ClaimedEntries {
    entries: Vec<Entry>,
    /// Batches it looked into.
    batches: usize,
    /// Those of them to remove.
    emptied: Vec<i64>,
}

type BatchColumns = (i64, i64, bool, String, String, String, i64);
/// A message as `message_claimed` writes it. The documents are parsed one by one, so that
/// their nesting counts from where they begin.
type ClaimedColumns<'t> = (
    i64,
    Cow<'t, str>,
    Option<String>,
    Option<String>,
    i64,
    Option<i64>,
    &'t RawValue,
    &'t RawValue,
);

/// A ready batch.
struct Batch {
    batch: i64,
    due_at: i64,
    isolated: bool,
    entries: Vec<Entry>,
    /// Of its first messages, as many as the claim takes.
    bytes: u64,
}

impl Batch {
    fn new((batch, due_at, isolated, ids, tries, attempts, bytes): BatchColumns) -> Result<Self> {
        let what = || format!("ready batch {batch}");
        Ok(Self {
            batch,
            due_at,
            isolated,
            entries: rows::entries(&what, &ids, &tries, &attempts)?,
            bytes: bytes.unsigned_abs(),
        })
    }

    /// The order in which batches are claimed.
    fn key(&self) -> (i64, i64) {
        (self.due_at, self.batch)
    }
}
