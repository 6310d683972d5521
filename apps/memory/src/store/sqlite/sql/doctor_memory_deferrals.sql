-- Deferred memories of requests without an audit of the deferral. Walks the queue by
-- message_queue; uses write_audit_outbox.
SELECT m.id, m.headers ->> '$.correlation_id' AS correlation_id
FROM message AS m
WHERE m.queue = 'memory' AND m.headers ->> '$.correlation_id' IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM write_audit
                  WHERE outbox_id = m.id AND reason GLOB 'openmemory_write_failed:*')
ORDER BY m.id
