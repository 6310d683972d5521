-- Messages of orders whose ledger row is missing or has another status than expected
-- by id. Rows about another request than their message are excluded, and so are dead
-- messages without a row. Uses message_queue, idempo_ledger_outbox and the primary keys of
-- attempt and dead.
SELECT * FROM (
    SELECT m.id, l.status AS status,
           CASE WHEN (SELECT outcome FROM attempt WHERE message_id = m.id
                      ORDER BY attempt_no DESC LIMIT 1) = 'delivered' THEN 'succeeded'
                WHEN d.message_id IS NOT NULL THEN 'failed'
                ELSE 'accepted'
           END AS expected
    FROM message AS m
    LEFT JOIN idempo_ledger AS l ON l.outbox_id = m.id
    LEFT JOIN dead AS d ON d.message_id = m.id
    WHERE m.queue = 'orders'
      AND (l.outbox_id IS NULL
           OR l.request_digest IS CASE WHEN json_valid(m.payload)
                                       THEN m.payload ->> '$.request_digest' END)
      AND d.code IS NOT 'IDEMPOTENCY_CONFLICT'
)
WHERE status IS NOT expected AND NOT (status IS NULL AND expected = 'failed')
ORDER BY id
