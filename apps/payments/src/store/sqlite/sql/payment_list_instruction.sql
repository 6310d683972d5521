-- The same as payment_list for one instruction (?5). Uses payment_idempotency: an instruction has few.
SELECT p.message_id, p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id,
       p.sequence_id, p.rail_type, p.tenant_id, p.correlation_id, p.created_at,
       coalesce(w.message_state, 'delivered') AS message_state,
       (SELECT coalesce(max(attempt_no), 0) FROM attempt WHERE message_id = p.message_id) AS attempts,
       w.due_at, w.owner, w.expires_at, w.reason,
       (SELECT at FROM erasure WHERE message_id = p.message_id) AS erased_at
FROM payment AS p INDEXED BY payment_idempotency
LEFT JOIN payment_undelivered AS w ON w.message_id = p.message_id
WHERE p.instruction_id = ?5 AND p.message_id < ?1
  AND EXISTS (SELECT 1 FROM message AS m WHERE m.id = p.message_id)
  AND (?3 IS NULL OR p.tenant_id = ?3)
  AND (?4 IS NULL OR p.participant_id = ?4)
  AND (?6 IS NULL OR coalesce(w.message_state, 'delivered') IN (SELECT value FROM json_each(?6)))
ORDER BY p.message_id DESC LIMIT ?2
