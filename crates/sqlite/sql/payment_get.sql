-- One payment and where it is. ?1 outbox id.
SELECT p.message_id, p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id,
       p.sequence_id, p.rail_type, p.tenant_id, p.correlation_id, p.created_at,
       coalesce(w.place, 'delivered') AS place,
       (SELECT coalesce(max(attempt_no), 0) FROM attempt WHERE message_id = p.message_id) AS attempts,
       w.due_at, w.owner, w.expires_at, w.reason
FROM payment AS p LEFT JOIN payment_place AS w ON w.message_id = p.message_id
WHERE p.outbox_id = ?1
