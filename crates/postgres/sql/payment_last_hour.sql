-- Attempts of the last hour by state. $1 tenant or NULL.
SELECT state::text AS state, count(*) AS count FROM consign.payment_outbox_attempts
    WHERE completed_at > consign.clock() - interval '1 hour' AND ($1::uuid IS NULL OR tenant_id = $1)
    GROUP BY state
