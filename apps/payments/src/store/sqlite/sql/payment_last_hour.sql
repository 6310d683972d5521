-- Attempts since a time, by state. ?1 since, ?2 tenant or NULL.
SELECT state, count(*) FROM payment_outbox_attempts
WHERE completed_at > ?1 AND (?2 IS NULL OR tenant_id = ?2)
GROUP BY state
