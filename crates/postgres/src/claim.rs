//! Claiming, renewing, releasing, beginning, expiring.

use std::time::{Duration, Instant};

use consign_kernel::{
    BeginAnswer, Claim, ClaimedMessage, Expired, Fence, Lease, MessageId, Outcome, ReleaseAnswer,
    RenewAnswer, Report, Result, Token, codes,
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::postgres::PgRow;

use crate::{
    PostgresStore,
    error::{Refusal, refusal, store_error},
    rows,
};

impl PostgresStore {
    pub(crate) async fn claim_impl(&self, claim: &Claim) -> Result<Option<Lease>> {
        claim.validate()?;
        loop {
            match self.claim_once(claim).await? {
                // Nothing in it could be read; all of it is dead by now.
                Some(lease) if lease.messages.is_empty() => {}
                answer => return Ok(answer),
            }
        }
    }

    async fn claim_once(&self, claim: &Claim) -> Result<Option<Lease>> {
        if let Some(from) = self.low_water.start(&claim.lane) {
            let rows = self.claim_from(claim, Some(from)).await?;
            if !rows.is_empty() {
                return self.lease(claim, &rows, None).await.map(Some);
            }
            self.low_water.forget(&claim.lane);
        }
        let started = Instant::now();
        let rows = self.claim_from(claim, None).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        self.lease(claim, &rows, Some(started.elapsed()))
            .await
            .map(Some)
    }

    async fn claim_from(&self, claim: &Claim, from: Option<Timestamp>) -> Result<Vec<PgRow>> {
        let statement = match from {
            None => sqlx::query("SELECT * FROM consign.claim($1, $2, $3, $4)"),
            Some(_) => sqlx::query("SELECT * FROM consign.claim($1, $2, $3, $4, $5)"),
        };
        let statement = statement
            .bind(claim.lane.as_str())
            .bind(&claim.owner)
            .bind(i32::try_from(claim.limit).expect("invariant: validated"))
            .bind(claim.ttl.map(rows::interval));
        let statement = match from {
            None => statement,
            Some(from) => statement.bind(from.to_sqlx()),
        };
        self.fetch("claim", statement).await
    }

    async fn lease(
        &self,
        claim: &Claim,
        rows: &[PgRow],
        full_scan: Option<Duration>,
    ) -> Result<Lease> {
        let first = &rows[0];
        self.low_water
            .found(&claim.lane, rows::time(first, "scan_from")?, full_scan);
        let token = Token(rows::column(first, "token")?);
        let mut messages = Vec::with_capacity(rows.len());
        let mut unreadable = Vec::new();
        for row in rows {
            match claimed(row, claim) {
                Ok(message) => messages.push(message),
                Err(error) => unreadable.push(Report {
                    code: Some(codes::UNREADABLE.to_owned()),
                    detail: Some(error.to_string()),
                    ..Report::new(MessageId(rows::column(row, "id")?), Outcome::Dead)
                }),
            }
        }
        // SQL callers can enqueue what JSON parsers here refuse, such as 1e400. Left in the lease it
        // would fail every claim that meets it and take its neighbours along.
        if !unreadable.is_empty() {
            self.settle_impl(token, &unreadable).await?;
        }
        Ok(Lease {
            token,
            fence: Fence(rows::column(first, "fence")?),
            claimed_at: rows::time(first, "claimed_at")?,
            expires_at: rows::time(first, "expires_at")?,
            messages,
        })
    }

    pub(crate) async fn renew_impl(&self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        let statement = sqlx::query("SELECT consign.renew($1, $2) AS expires_at")
            .bind(token.0)
            .bind(rows::interval(ttl));
        match self.rows(statement).await {
            Ok(rows) => Ok(RenewAnswer::Renewed {
                expires_at: rows::time(&rows[0], "expires_at")?,
            }),
            Err(error) => match refusal(&error) {
                Some(_) => Ok(RenewAnswer::LeaseLost),
                None => Err(store_error("renew", error)),
            },
        }
    }

    pub(crate) async fn release_impl(&self, token: Token) -> Result<ReleaseAnswer> {
        let statement = sqlx::query("SELECT consign.release($1) AS ids").bind(token.0);
        match self.rows(statement).await {
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

    pub(crate) async fn begin_impl(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        let statement = sqlx::query("SELECT consign.begin($1, $2)")
            .bind(token.0)
            .bind(rows::ids(ids));
        match self.rows(statement).await {
            Ok(_) => Ok(BeginAnswer::Begun),
            Err(error) => match refusal(&error) {
                Some(Refusal::LeaseLost) => Ok(BeginAnswer::LeaseLost),
                Some(Refusal::NotInLease(ids)) => Ok(BeginAnswer::NotInLease(ids)),
                None => Err(store_error("begin", error)),
            },
        }
    }

    pub(crate) async fn expire_impl(&self, limit: u32) -> Result<Expired> {
        let statement = sqlx::query("SELECT leases, messages FROM consign.expire($1)")
            .bind(i32::try_from(limit).unwrap_or(i32::MAX));
        let rows = self.fetch("expire", statement).await?;
        Ok(Expired {
            leases: rows::count(&rows[0], "leases")?,
            messages: rows::count(&rows[0], "messages")?,
        })
    }
}

fn claimed(row: &PgRow, claim: &Claim) -> Result<ClaimedMessage> {
    Ok(ClaimedMessage {
        message: rows::message(row, claim.lane.clone())?,
        attempt_no: rows::number(row, "attempt_no")?,
        tries: rows::number(row, "tries")?,
        in_doubt: rows::column(row, "in_doubt")?,
    })
}
