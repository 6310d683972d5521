//! Claiming, renewing, releasing, beginning.

use std::time::Duration;

use consign_kernel::{
    BeginAnswer, Claim, ClaimedMessage, Fence, Lease, Message, MessageId, ReleaseAnswer,
    RenewAnswer, Token,
};
use uuid::Uuid;

use crate::{
    error::{Failure, Result},
    groups::NewRun,
    lanes::unknown_lane,
    rows::{self, Arrays, Entry, LeaseColumns, LeaseRow, later},
    sql,
    writer::Work,
};

impl Work<'_> {
    /// `run_length` is the length of run to expect; it decides how many are read, never which.
    pub(crate) async fn claim(
        &mut self,
        claim: &Claim,
        run_length: usize,
    ) -> Result<Option<(Lease, usize)>> {
        claim.validate()?;
        let lane: Option<(String, bool, bool)> = sqlx::query_as(sql!("lane_for_claim"))
            .bind(claim.lane.as_str())
            .bind(rows::micros(self.now))
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some((policy, paused, has_ended_leases)) = lane else {
            return Err(unknown_lane(self.connection, &claim.lane).await);
        };
        if has_ended_leases {
            self.expire(u32::MAX, Some(&claim.lane)).await?;
        }
        if paused {
            return Ok(None);
        }
        let (entries, runs) = self.take_due(claim, run_length).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        let policy = rows::policy(claim.lane.as_str(), &policy)?;
        let ttl = claim.ttl.unwrap_or(policy.lease_ttl());
        let lease = self.lease(claim, ttl, &entries).await?;
        Ok(Some((lease, entries.len().div_ceil(runs))))
    }

    /// Writes the lease and reads its messages.
    async fn lease(&mut self, claim: &Claim, ttl: Duration, entries: &[Entry]) -> Result<Lease> {
        let token = Token(Uuid::new_v4());
        let expires_at = later(self.now, ttl);
        let arrays = Arrays::of(entries);
        let fence: i64 = sqlx::query_scalar(sql!("lease_append"))
            .bind(token.0)
            .bind(claim.lane.as_str())
            .bind(&claim.owner)
            .bind(rows::micros(self.now))
            .bind(rows::micros(expires_at))
            .bind(&arrays.ids)
            .bind(&arrays.tries)
            .bind(&arrays.attempts)
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(Lease {
            token,
            fence: Fence(fence),
            claimed_at: self.now,
            expires_at,
            messages: self.claimed(claim, entries, arrays.ids).await?,
        })
    }

    /// Takes the oldest due entries out of their runs: one `apart` run alone if it is the oldest,
    /// otherwise any others, the last one split to respect the limit. Answers also how many runs.
    async fn take_due(&mut self, claim: &Claim, run_length: usize) -> Result<(Vec<Entry>, usize)> {
        let limit = claim.limit as usize;
        let now = rows::micros(self.now);
        let wanted = |count: usize, length: usize| count.div_ceil(length.max(1)) as i64;
        let found: Vec<RunColumns> = sqlx::query_as(sql!("ready_first"))
            .bind(claim.lane.as_str())
            .bind(now)
            .bind(wanted(limit, run_length))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut runs = found
            .into_iter()
            .map(Run::new)
            .collect::<Result<Vec<Run>>>()?;
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
            let more: Vec<RunColumns> = sqlx::query_as(sql!("ready_next"))
                .bind(claim.lane.as_str())
                .bind(now)
                .bind(last.due_at)
                .bind(last.run)
                .bind(wanted(limit - count, last.entries.len()))
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
        self.take(runs, limit).await
    }

    /// Takes `limit` entries out of these runs.
    async fn take(&mut self, runs: Vec<Run>, limit: usize) -> Result<(Vec<Entry>, usize)> {
        let mut taken: Vec<Entry> = Vec::new();
        let mut emptied = Vec::new();
        let mut count = 0;
        for mut run in runs {
            let room = limit - taken.len();
            if room == 0 {
                break;
            }
            count += 1;
            if run.entries.len() <= room {
                taken.append(&mut run.entries);
                emptied.push(run.run);
            } else {
                taken.extend(run.entries.drain(..room));
                self.shrink_run(run.run, &run.entries).await?;
            }
        }
        if !emptied.is_empty() {
            self.remove_runs(&emptied).await?;
        }
        Ok((taken, count))
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

    async fn claimed(
        &mut self,
        claim: &Claim,
        entries: &[Entry],
        ids: String,
    ) -> Result<Vec<ClaimedMessage>> {
        let in_doubt = self.in_doubt(entries).await?;
        let found: Vec<MessageColumns> = sqlx::query_as(sql!("message_claimed"))
            .bind(ids)
            .fetch_all(&mut *self.connection)
            .await?;
        if found.len() != entries.len() {
            let lane = &claim.lane;
            return Err(Failure::corrupt(format!(
                "a ready run of lane {lane} names a message that does not exist"
            )));
        }
        let claimed = |((id, key, group, created_at, headers, payload), entry): (_, &Entry)| {
            let (headers, payload): (String, String) = (headers, payload);
            assert_eq!(id, entry.id.0, "messages come in the order of the run");
            Ok(ClaimedMessage {
                message: Message {
                    id: MessageId(id),
                    lane: claim.lane.clone(),
                    key,
                    group,
                    payload: rows::document(&payload)?,
                    headers: rows::document(&headers)?,
                    created_at: rows::timestamp(created_at)?,
                },
                attempt_no: entry.attempts + 1,
                tries: entry.tries,
                in_doubt: in_doubt.contains(&id),
            })
        };
        found.into_iter().zip(entries).map(claimed).collect()
    }

    /// Those messages whose last attempt that reached the sink ended uncertain.
    async fn in_doubt(&mut self, entries: &[Entry]) -> Result<Vec<i64>> {
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

    pub(crate) async fn renew(&mut self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
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
            lane: &lease.lane,
            due_at: self.now,
            entries: &fresh,
            apart: false,
        };
        self.make_ready(&[run]).await?;
        self.wake(&lease.lane, &lease.policy);
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

    /// The lease a token may speak for now.
    pub(crate) async fn live(&mut self, token: Token) -> Result<Option<LeaseRow>> {
        let found: Option<LeaseColumns> = sqlx::query_as(sql!("lease_by_token"))
            .bind(token.0)
            .fetch_optional(&mut *self.connection)
            .await?;
        let lease = found.map(LeaseRow::new).transpose()?;
        Ok(lease.filter(|lease| lease.expires_at > self.now))
    }
}

type RunColumns = (i64, i64, bool, String, String, String);
type MessageColumns = (i64, Option<String>, Option<String>, i64, String, String);

/// A ready run.
struct Run {
    run: i64,
    due_at: i64,
    apart: bool,
    entries: Vec<Entry>,
}

impl Run {
    fn new((run, due_at, apart, ids, tries, attempts): RunColumns) -> Result<Self> {
        let what = || format!("ready run {run}");
        Ok(Self {
            run,
            due_at,
            apart,
            entries: rows::entries(&what, &ids, &tries, &attempts)?,
        })
    }

    /// The order in which runs are claimed.
    fn key(&self) -> (i64, i64) {
        (self.due_at, self.run)
    }
}
