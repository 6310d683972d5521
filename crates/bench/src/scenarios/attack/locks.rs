//! A producer that leaves its transaction open, and clients that wait for what it holds.

use anyhow::Result;
use async_trait::async_trait;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::{Attack, Target};

const CLIENTS: usize = 12;

/// Enqueues of a key that an open transaction has enqueued.
pub(super) struct LockedKey;

/// Payments of a participant that an open transaction gives numbers to.
pub(super) struct LockedParticipant;

#[async_trait]
impl Attack for LockedKey {
    fn name(&self) -> &'static str {
        "locked-key"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let _producer = holding(target, include_str!("../../../sql/attack_key.sql")).await?;
        let body = json!({"payload": 1, "key": "same"}).to_string();
        target
            .flood(CLIENTS, "/v1/queues/attacked/messages", &body)
            .await;
        Ok(())
    }
}

#[async_trait]
impl Attack for LockedParticipant {
    fn name(&self) -> &'static str {
        "locked-participant"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let sql = include_str!("../../../sql/attack_participant.sql");
        let _producer = holding(target, sql).await?;
        let body = json!({
            "instruction_id": "0190f3a2-7b1c-7000-8000-000000000001", "idempotency_key": "attack",
            "tenant_id": "0190f3a2-7b1c-7000-8000-00000000000a", "participant_id": "bank-a",
            "rail_type": "PAYMENT", "amount_minor": 1, "currency_code": "ZMW",
            "beneficiary_ref_hash": "9f2c", "submitted_at_utc": "2026-11-16T03:00:00Z",
        });
        target
            .flood(CLIENTS, "/v1/payments", &body.to_string())
            .await;
        Ok(())
    }
}

/// A connection whose transaction stays open until it is dropped.
async fn holding(target: &Target, sql: &'static str) -> Result<PgConnection> {
    let mut producer = PgConnection::connect(&target.database).await?;
    sqlx::raw_sql(sql).execute(&mut producer).await?;
    Ok(producer)
}
