-- The payments that keys name, with their messages' payloads. ?1 JSON array of [instruction, key, tenant or null].
SELECT wanted.key, p.message_id, p.outbox_id, p.sequence_id, p.created_at, m.payload
FROM json_each(?1) AS wanted
CROSS JOIN payment AS p
    ON p.instruction_id = wanted.value ->> 0 AND p.idempotency_key = wanted.value ->> 1
    AND p.tenant_id IS (wanted.value ->> 2)
JOIN message AS m ON m.id = p.message_id
