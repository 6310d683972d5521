//! Payments as a component of the store.

use async_trait::async_trait;
use consign_kernel::{
    self as kernel, Error, Message, MessageId, Migration, NewMessage, OnUncertain, QueuePolicy,
    Resolution, migrations,
};
use consign_sqlite::{
    Component, Hook,
    extension::{Findings, Result, Work, rows},
};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::{doctor, sql};
use crate::{MISSING_RAIL_REFERENCE, QUEUE};

const MIGRATIONS: &[Migration] = migrations!["payments";
    (1, "tables", "migrations/0001_tables.sql"),
];

/// The component `payments`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaymentsComponent;

#[async_trait]
impl Component for PaymentsComponent {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    fn hook(&self) -> Option<&dyn Hook> {
        Some(self)
    }

    async fn examine(
        &self,
        connection: &mut SqliteConnection,
        now: Timestamp,
        report: &mut Findings,
    ) -> Result<()> {
        doctor::examine(connection, now, report).await
    }
}

#[async_trait]
impl Hook for PaymentsComponent {
    fn queue(&self) -> &'static str {
        QUEUE
    }

    fn check(&self, _messages: &[&NewMessage]) -> consign_kernel::Result<()> {
        let why = "takes payments only. Use POST /v1/payments";
        Err(Error::invalid(format!("queue {QUEUE}"), why))
    }

    /// A payment in doubt is probed or held, never resent automatically.
    fn policy(&self, policy: &mut QueuePolicy) -> consign_kernel::Result<()> {
        if policy.on_uncertain == OnUncertain::Resend {
            let why = "must be probe or hold in queue payments";
            return Err(Error::invalid("policy.on_uncertain", why));
        }
        policy.presume_begun = true;
        let missing = MISSING_RAIL_REFERENCE.to_owned();
        if !policy.hold_codes.contains(&missing) {
            policy.hold_codes.push(missing);
        }
        Ok(())
    }

    fn check_reports(&self, reports: &[&kernel::Report]) -> consign_kernel::Result<()> {
        crate::require_references(reports.iter().copied())
    }

    fn resolve(
        &self,
        _message: &Message,
        resolution: &Resolution,
    ) -> consign_kernel::Result<Option<Value>> {
        crate::resolved(resolution)
    }

    /// A payment stays while it must be compared with the rail's records.
    async fn needed(
        &self,
        connection: &mut SqliteConnection,
        (first, last): (MessageId, MessageId),
        _at: Timestamp,
    ) -> Result<Vec<MessageId>> {
        let needed: Vec<i64> = sqlx::query_scalar(sql!("payment_needed"))
            .bind(first.0)
            .bind(last.0)
            .fetch_all(connection)
            .await?;
        Ok(needed.into_iter().map(MessageId).collect())
    }

    fn can_erase(&self) -> bool {
        true
    }

    /// Those that are compared with the rail's records.
    fn keeps(&self) -> &'static [&'static str] {
        &[
            "rail_reference",
            "rail_code",
            "latency_ms",
            "may_have_begun",
        ]
    }

    async fn erased(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        sqlx::query(sql!("payment_erase"))
            .bind(rows::id_array(ids))
            .execute(&mut *work.connection)
            .await?;
        Ok(())
    }

    /// The row of a payment is the record of its key; both go together.
    async fn forgotten(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        for statement in [
            sql!("payment_sequences_forget"),
            sql!("payment_erased_forget"),
            sql!("payment_forget"),
        ] {
            sqlx::query(statement)
                .bind(rows::id_array(ids))
                .execute(&mut *work.connection)
                .await?;
        }
        Ok(())
    }
}
