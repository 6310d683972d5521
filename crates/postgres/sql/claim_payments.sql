-- $1 batch size, $2 worker, $3 lease in seconds, $4 whether the rail may be called from now on.
SELECT c.outbox_id, c.instruction_id, c.participant_id, c.sequence_id, c.idempotency_key, c.rail_type, c.payload, c.attempt_count,
       c.lease_token, c.lease_expires_at, c.in_doubt, c.fence, p.tenant_id
    FROM consign.claim_outbox_batch($1, $2, $3, $4) WITH ORDINALITY AS c
    JOIN consign.payment p ON p.outbox_id = c.outbox_id ORDER BY c.ordinality
