-- Payments that failed or are held though the rail may have them. ?1 how many.
SELECT p.message_id, p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id,
       p.sequence_id, p.rail_type, p.tenant_id, p.correlation_id, p.created_at, w.message_state,
       w.attempts, w.due_at, w.owner, w.expires_at, w.reason, NULL AS erased_at
FROM payment_undelivered AS w JOIN payment AS p ON p.message_id = w.message_id
WHERE w.message_state IN ('held', 'dead')
  AND (SELECT outcome FROM attempt
       WHERE message_id = p.message_id
             AND (outcome <> 'expired' OR result ->> '$.may_have_begun' = 1)
       ORDER BY attempt_no DESC LIMIT 1) IN ('uncertain', 'expired')
ORDER BY p.message_id LIMIT ?1
