-- One payment. The state of its message is read separately. ?1 outbox id.
SELECT message_id, outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type,
       tenant_id, correlation_id, created_at, 'ready' AS message_state, 0 AS attempts, NULL AS due_at,
       NULL AS owner, NULL AS expires_at, NULL AS reason, NULL AS erased_at
FROM payment WHERE outbox_id = ?1
