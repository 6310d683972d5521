-- Messages of orders whose row in the ledger is not there or says something else than became of
-- them, by id. Rows about another request than their message are not its own, and what is dead
-- without a row has been seen to. Uses message_queue, idempo_ledger_outbox and the primary keys of
-- attempt and dead.
SELECT * FROM (
    SELECT m.id, l.status AS says,
           CASE WHEN (SELECT outcome FROM attempt WHERE message_id = m.id
                      ORDER BY attempt_no DESC LIMIT 1) = 'delivered' THEN 'succeeded'
                WHEN d.message_id IS NOT NULL THEN 'failed'
                ELSE 'accepted'
           END AS is_so
    FROM message AS m
    LEFT JOIN idempo_ledger AS l ON l.outbox_id = m.id
    LEFT JOIN dead AS d ON d.message_id = m.id
    WHERE m.queue = 'orders'
      AND (l.outbox_id IS NULL
           OR l.request_digest IS CASE WHEN json_valid(m.payload)
                                       THEN m.payload ->> '$.request_digest' END)
      AND d.code IS NOT 'IDEMPOTENCY_CONFLICT'
)
WHERE says IS NOT is_so AND NOT (says IS NULL AND is_so = 'failed')
ORDER BY id
