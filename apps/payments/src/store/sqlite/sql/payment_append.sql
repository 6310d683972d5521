-- Writes payments. ?1 JSON array of [message_id, outbox_id, sequence_id, tenant, correlation,
-- instruction, key, participant, rail type], ?2 now.
INSERT INTO payment (message_id, outbox_id, sequence_id, created_at, tenant_id, correlation_id,
                     instruction_id, idempotency_key, participant_id, rail_type)
SELECT value ->> 0, value ->> 1, value ->> 2, ?2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8
FROM json_each(?1)
