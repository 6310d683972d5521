-- Payments and where they are, newest first. ?1 below this message, ?2 how many, ?3 tenant,
-- ?4 participant, ?6 JSON array of places, each NULL for any; ?5 unused (see payment_list_instruction).
SELECT p.message_id, p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id,
       p.sequence_id, p.rail_type, p.tenant_id, p.correlation_id, p.created_at,
       coalesce(w.message_state, 'delivered') AS message_state,
       (SELECT coalesce(max(attempt_no), 0) FROM attempt WHERE message_id = p.message_id) AS attempts,
       w.due_at, w.owner, w.expires_at, w.reason,
       (SELECT at FROM erasure WHERE message_id = p.message_id) AS erased_at
FROM payment AS p LEFT JOIN payment_undelivered AS w ON w.message_id = p.message_id
WHERE p.message_id < ?1
  AND EXISTS (SELECT 1 FROM message AS m WHERE m.id = p.message_id)
  AND (?3 IS NULL OR p.tenant_id = ?3)
  AND (?4 IS NULL OR p.participant_id = ?4)
  AND ?5 IS NULL
  AND (?6 IS NULL OR coalesce(w.message_state, 'delivered') IN (SELECT value FROM json_each(?6)))
ORDER BY p.message_id DESC LIMIT ?2
