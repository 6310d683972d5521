-- $1 token, $2 worker, $3 payments, $4 states, $5 references, $6 rail codes, $7 error codes, $8 error messages, $9 latencies.
-- Returns the payments whose evidence is stored, in order.
SELECT w.id AS outbox_id
    FROM unnest(consign.record_late_payments($1, $2, $3, $4::text[]::consign.outbox_attempt_state[], $5, $6, $7, $8, $9))
        WITH ORDINALITY AS w (id, ord) ORDER BY w.ord
