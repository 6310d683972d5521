-- $1 batch size, $2 worker, $3 lease in seconds, $4 whether the rail may be called without a begin.
SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, tenant_id, payload, attempt_count,
       lease_token, lease_expires_at, in_doubt, fence
    FROM consign.claim_outbox_batch($1, $2, $3, $4)
