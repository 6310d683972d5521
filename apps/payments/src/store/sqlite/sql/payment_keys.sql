-- The payments of these keys, with their messages' payloads. Of those whose message was erased or has left: the document
-- without the caller's payload, the digest of the whole one, and whether one that has left had failed.
-- ?1 JSON array of [instruction, key, tenant or null].
SELECT wanted.key, p.message_id, p.created_at,
       coalesce(nullif(m.payload, 'null'), json_object(
           'outbox_id', p.outbox_id, 'instruction_id', p.instruction_id, 'idempotency_key', p.idempotency_key,
           'participant_id', p.participant_id, 'sequence_id', p.sequence_id, 'rail_type', p.rail_type,
           'tenant_id', p.tenant_id, 'correlation_id', p.correlation_id, 'payload', json('{}'))),
       CASE WHEN m.id IS NULL THEN f.digest ELSE (SELECT digest FROM erasure WHERE message_id = m.id) END, f.died
FROM json_each(?1) AS wanted
CROSS JOIN payment AS p
    ON p.instruction_id = wanted.value ->> 0 AND p.idempotency_key = wanted.value ->> 1
    AND p.tenant_id IS (wanted.value ->> 2)
LEFT JOIN message AS m ON m.id = p.message_id
LEFT JOIN former_key AS f ON f.queue = 'payments' AND f.key = p.outbox_id
WHERE m.id IS NOT NULL OR f.key IS NOT NULL
