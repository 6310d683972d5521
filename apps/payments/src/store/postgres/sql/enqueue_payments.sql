-- $1 instructions, $2 participants, $3 keys, $4 rails, $5 payloads, $6 tenants, $7 correlations, $8 holds, $9 headers.
SELECT outbox_id, sequence_id, created_at, state, duplicate, conflict
    FROM consign.enqueue_payments($1, $2, $3, $4, $5, $6, $7, $8, $9)
