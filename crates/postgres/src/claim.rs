//! Waiting for work, claiming, renewing, releasing, beginning, expiring.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use consign_kernel::{
    BeginAnswer, Claim, Claims, Expiry, Fence, Lease, MessageId, QueueName, ReleaseAnswer,
    RenewAnswer, Result, SendSlots, Settle as _, Token,
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{
    PostgresStore, claimed,
    error::{Refusal, refusal, store_error},
    pools::Use,
    rows,
};

#[async_trait]
impl Claims for PostgresStore {
    async fn may_work(&self, name: &QueueName) -> Result<bool> {
        let statement = sqlx::query("SELECT consign.may_work($1) AS may_work").bind(name.as_str());
        let rows = self.read("read the grants of a queue", statement).await?;
        rows::column(rows::only(&rows)?, "may_work")
    }

    async fn wait(&self, queue: &QueueName, limit: Duration) -> Result<bool> {
        let id = self.wakes.take_id(queue);
        let found = self.wait_as(id, queue, limit).await?;
        self.wakes.free_id(queue, id);
        Ok(found)
    }

    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>> {
        claim.validate()?;
        loop {
            match self.claim_once(claim).await? {
                // Nothing in it could be read; all of it is dead by now.
                Some(lease) if lease.messages.is_empty() => {}
                answer => return Ok(answer),
            }
        }
    }

    async fn reserve_slots(&self, queue: &QueueName, count: u32) -> Result<Option<SendSlots>> {
        SendSlots::validate_count(count)?;
        let statement = sqlx::query(include_str!("../sql/reserve_slots.sql"))
            .bind(queue.as_str())
            .bind(i32::try_from(count).expect("invariant: validated"));
        let rows = self
            .fetch_as(Use::Claim, "reserve send slots", statement)
            .await?;
        let row = rows::only(&rows)?;
        let Some(first_at) = rows::optional_time(row, "first_at")? else {
            return Ok(None);
        };
        Ok(Some(SendSlots {
            now: rows::time(row, "now")?,
            first_at,
            apart_us: rows::count(row, "apart_us")?,
            count: rows::number(row, "slots")?,
        }))
    }

    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        let statement = sqlx::query("SELECT consign.renew($1, $2) AS expires_at")
            .bind(token.0)
            .bind(rows::interval(ttl));
        match self.rows(Use::Lease, statement).await {
            Ok(rows) => Ok(RenewAnswer::Renewed {
                expires_at: rows::time(&rows[0], "expires_at")?,
            }),
            Err(error) => match refusal(&error) {
                Some(_) => Ok(RenewAnswer::LeaseLost),
                None => Err(store_error("renew", error)),
            },
        }
    }

    async fn release(&self, token: Token) -> Result<ReleaseAnswer> {
        let statement = sqlx::query("SELECT consign.release($1) AS ids").bind(token.0);
        match self.rows(Use::Lease, statement).await {
            Ok(rows) => {
                let ids = rows::column(&rows[0], "ids")?;
                Ok(ReleaseAnswer::Released(rows::message_ids(ids)))
            }
            Err(error) => match refusal(&error) {
                Some(_) => Ok(ReleaseAnswer::LeaseLost),
                None => Err(store_error("release", error)),
            },
        }
    }

    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        let statement = sqlx::query("SELECT consign.begin($1, $2)")
            .bind(token.0)
            .bind(rows::ids(ids));
        match self.rows(Use::Lease, statement).await {
            Ok(_) => Ok(BeginAnswer::Begun),
            Err(error) => match refusal(&error) {
                Some(Refusal::LeaseLost) => Ok(BeginAnswer::LeaseLost),
                Some(Refusal::NotInLease(ids)) => Ok(BeginAnswer::NotInLease(ids)),
                None => Err(store_error("begin", error)),
            },
        }
    }

    async fn expire(&self, limit: u32) -> Result<Expiry> {
        let statement = sqlx::query("SELECT leases, messages FROM consign.expire($1)")
            .bind(i32::try_from(limit).unwrap_or(i32::MAX));
        let rows = self.fetch_as(Use::Claim, "expire", statement).await?;
        Ok(Expiry {
            leases: rows::count(&rows[0], "leases")?,
            messages: rows::count(&rows[0], "messages")?,
        })
    }
}

impl PostgresStore {
    async fn claim_once(&self, claim: &Claim) -> Result<Option<Lease>> {
        if let Some(from) = self.low_water.start(&claim.queue) {
            if let Some(row) = self.claim_from(claim, Some(from)).await? {
                return self.lease(claim, &row, None).await.map(Some);
            }
            self.low_water.forget(&claim.queue);
        }
        let started = Instant::now();
        match self.claim_from(claim, None).await? {
            Some(row) => self
                .lease(claim, &row, Some(started.elapsed()))
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    /// The lease as one row, if anything was claimed.
    async fn claim_from(&self, claim: &Claim, from: Option<Timestamp>) -> Result<Option<PgRow>> {
        loop {
            let row = self.claim_row(claim, from).await?;
            let token: Option<Uuid> = rows::column(&row, "token")?;
            if token.is_some() {
                return Ok(Some(row));
            }
            // With a place to scan from: it settled so many whose time had passed that another call is to go on.
            if rows::optional_time(&row, "scan_from")?.is_none() {
                return Ok(None);
            }
        }
    }

    async fn claim_row(&self, claim: &Claim, from: Option<Timestamp>) -> Result<PgRow> {
        let bytes_max = claim
            .bytes_max
            .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let statement = sqlx::query(include_str!("../sql/claim.sql"))
            .bind(claim.queue.as_str())
            .bind(&claim.owner)
            .bind(i32::try_from(claim.limit).expect("invariant: validated"))
            .bind(claim.ttl.map(rows::interval))
            .bind(from.unwrap_or(Timestamp::UNIX_EPOCH).to_sqlx())
            .bind(bytes_max);
        let rows = match self.rows(Use::Claim, statement).await {
            Ok(rows) => rows,
            Err(error) => return Err(self.advised(store_error("claim", error)).await),
        };
        rows.into_iter()
            .next()
            .ok_or_else(|| rows::corrupt("claim answered nothing"))
    }

    async fn lease(
        &self,
        claim: &Claim,
        row: &PgRow,
        full_scan: Option<Duration>,
    ) -> Result<Lease> {
        self.low_water
            .found(&claim.queue, rows::time(row, "scan_from")?, full_scan);
        self.wakes.found(&claim.queue);
        let token = Token(rows::column(row, "token")?);
        let contents = claimed::contents(row, &claim.queue)?;
        // SQL callers can enqueue headers that JSON parsers here refuse, such as 1e400. Left in the
        // lease it would fail every claim that meets it and take its neighbours along.
        if !contents.unreadable.is_empty() {
            self.settle(token, &contents.unreadable).await?;
        }
        Ok(Lease {
            token,
            fence: Fence(rows::column(row, "fence")?),
            claimed_at: rows::time(row, "claimed_at")?,
            expires_at: rows::time(row, "expires_at")?,
            messages: contents.messages,
        })
    }
}
