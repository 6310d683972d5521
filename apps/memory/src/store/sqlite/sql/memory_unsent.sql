-- Whether an outbox row for a backend is pending or dead. Uses message_key and attempt's key.
-- ?1 key, ?2 backend, or null for any.
WITH RECURSIVE own (n, id, headers) AS (
    SELECT 1, id, headers FROM message WHERE queue = 'memory' AND key = ?1
    UNION ALL
    SELECT own.n + 1, m.id, m.headers
    FROM own JOIN message AS m ON m.queue = 'memory' AND m.key = ?1 || '#' || (own.n + 1)
)
SELECT EXISTS (
    SELECT 1 FROM own
    WHERE coalesce(own.headers ->> '$.backend' = ?2, 1)
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE message_id = own.id AND outcome = 'delivered'))
