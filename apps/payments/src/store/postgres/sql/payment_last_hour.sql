-- Attempts of the last hour by state. $1 tenant or NULL.
SELECT state::text AS state, count FROM consign.outbox_attempts_since(consign.clock() - interval '1 hour', $1)
