-- $1 token, $2 worker, $3 payments, $4 states, $5 references, $6 rail codes, $7 error codes, $8 error messages, $9 latencies,
-- $10 delays, $11 doubts. A success without a reference is held.
SELECT outbox_id, attempt_no, effective_state::text AS state, message_state
    FROM consign.complete_payments($1, $2, $3, $4::text[]::consign.outbox_attempt_state[], $5, $6, $7, $8, $9, $10, $11, true)
