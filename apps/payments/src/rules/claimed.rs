//! Claimed payments as a worker sees them.

use std::time::Duration;

use consign_kernel::{Claim, Error, Fence, Lease, Payload, Result, Token};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{OutboxId, StoredPayment, queue};

/// Most payments of one claim.
const BATCH_MAX: u32 = 1_000;
/// Longest lease.
const LEASE_SECONDS_MAX: u64 = 3_600;

/// The result of a claim: one lease over all payments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimedPayments {
    /// Token that authorises changes to these payments.
    pub lease_token: Token,
    /// Fence of the lease.
    pub fence: Fence,
    /// When it expires unless renewed.
    pub lease_expires_at: Timestamp,
    /// The payments in the order in which they are due.
    pub payments: Vec<ClaimedPayment>,
}

/// A payment in a lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimedPayment {
    /// The payment: the reference at the rail.
    pub outbox_id: OutboxId,
    /// The instruction.
    pub instruction_id: String,
    /// Owner of the sequence.
    pub participant_id: String,
    /// Its number in the sequence.
    pub sequence_id: i64,
    /// The key.
    pub idempotency_key: String,
    /// Rail type.
    pub rail_type: String,
    /// Tenant.
    pub tenant_id: Option<Uuid>,
    /// The caller's object.
    pub payload: Payload,
    /// Attempts recorded so far.
    pub attempt_count: u32,
    /// Whether the rail may have it already: query by `outbox_id` before sending.
    pub in_doubt: bool,
}

impl ClaimedPayments {
    /// The view of a lease of the queue `payments`.
    pub fn of(lease: Lease) -> Result<Self> {
        let payment = |claimed: consign_kernel::ClaimedMessage| {
            let stored = StoredPayment::read(&claimed.message.payload).map_err(|error| {
                let id = claimed.message.id;
                let what = format!(
                    "message {id} of queue {} is not a payment: {error}",
                    queue()
                );
                Error::Corrupt { what }
            })?;
            Ok(ClaimedPayment {
                outbox_id: stored.outbox_id,
                instruction_id: stored.instruction_id,
                participant_id: stored.participant_id,
                sequence_id: stored.sequence_id,
                idempotency_key: stored.idempotency_key,
                rail_type: stored.rail_type,
                tenant_id: stored.tenant_id,
                payload: stored.payload,
                attempt_count: claimed.attempt_no - 1,
                in_doubt: claimed.in_doubt,
            })
        };
        let payments = lease.messages.into_iter().map(payment);
        Ok(Self {
            lease_token: lease.token,
            fence: lease.fence,
            lease_expires_at: lease.expires_at,
            payments: payments.collect::<Result<_>>()?,
        })
    }
}

/// The kernel's claim for payments; rejects values out of bounds. A fraction of a second is rounded
/// up, because a longer lease is harmless.
pub fn claim_of(limit: u32, worker: &str, lease: Duration) -> Result<Claim> {
    if !(1..=BATCH_MAX).contains(&limit) {
        let why = format!("must be 1 to {BATCH_MAX}");
        return Err(Error::out_of_bounds("batch_size", limit, why));
    }
    let seconds = lease.as_secs() + u64::from(lease.subsec_nanos() > 0);
    if !(1..=LEASE_SECONDS_MAX).contains(&seconds) {
        let why = format!("must be 1 to {LEASE_SECONDS_MAX}");
        return Err(Error::out_of_bounds("lease_seconds", seconds, why));
    }
    let claim = Claim::new(queue(), worker, limit).with_ttl(Duration::from_secs(seconds));
    claim.validate()?;
    Ok(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_claim_out_of_bounds() {
        let ms = Duration::from_millis;
        let table = [
            (1, "w", ms(1_000), Some(1)),
            (1_000, "w", ms(3_600_000), Some(3_600)),
            (1, "w", ms(1_001), Some(2)),
            (1, "w", ms(1), Some(1)),
            (0, "w", ms(1_000), None),
            (1_001, "w", ms(1_000), None),
            (1, "", ms(1_000), None),
            (1, "w", ms(0), None),
            (1, "w", ms(3_600_001), None),
        ];
        for (limit, worker, lease, seconds) in table {
            let claim = claim_of(limit, worker, lease).ok();
            let ttl = claim.and_then(|claim| claim.ttl);
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(ttl, expected, "{limit} {worker:?} {lease:?}");
        }
    }
}
