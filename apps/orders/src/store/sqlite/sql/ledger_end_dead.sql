-- Fails the orders of dead messages. A conflict does not affect the order that holds the key. An uncertain
-- outcome takes precedence over the last failure. Uses idempo_ledger_outbox and the primary keys of dead, attempt and
-- message; the plus is there as in `ledger_end_delivered`. ?1 JSON array of ids.
UPDATE idempo_ledger
SET status = 'failed',
    (http_status, result_digest, response_payload_json) = (
        SELECT http_status, result_digest, exec_result FROM (
            SELECT 1 AS choice, http_status, result_digest, exec_result FROM order_ended
            WHERE message_id = d.message_id AND attempt_no = d.attempt_no
              AND (http_status = 504
                   OR d.message_id NOT IN (SELECT message_id FROM order_dead_in_doubt
                                             WHERE message_id = d.message_id))
            UNION ALL
            SELECT 2, http_status, NULL, json_object(
                'status', 'error',
                'error', reason,
                'message', why,
                'order_id', facts ->> '$.order_id',
                'instrument', facts ->> '$.instrument',
                'side', facts ->> '$.side',
                'requested_at', facts ->> '$.requested_at',
                'completed_at', strftime('%Y-%m-%dT%H:%M:%S', d.at / 1000000, 'unixepoch')
                                || printf('.%06dZ', d.at % 1000000),
                'trace_id', facts ->> '$.trace_id',
                'idempotency_key', idempotency_key,
                'qty_sent', json(qty_sent),
                'price_sent', json(price_sent),
                'fills', json('[]'),
                'executed_qty', 0,
                'avg_price', NULL,
                'broker', json_object('name', 'unknown', 'order_ref', NULL),
                'latency_ms', json_object('queue', 0, 'broker_rtt', 0, 'total', 0),
                'reason_code', reason,
                'warnings', json(warnings))
            FROM order_message, (
                SELECT 2 AS choice, 504 AS http_status, 'BROKER_TIMEOUT' AS reason,
                       'the order may have been executed: the outcome of its last send is unknown' AS why
                FROM order_dead_in_doubt WHERE message_id = d.message_id
                UNION ALL
                SELECT 3, 400, 'BROKER_REJECTED',
                       'the order was not executed: an operator found out after its outcome had been in doubt'
                WHERE d.code = 'resolved'
                UNION ALL
                SELECT 4, 500, 'INTERNAL_ERROR', 'the order ended without a result from its broker'
                ORDER BY choice LIMIT 1)
            WHERE id = d.message_id
        ) ORDER BY choice LIMIT 1
    )
FROM json_each(?1) AS died
CROSS JOIN dead AS d ON d.message_id = died.value
WHERE d.code <> 'IDEMPOTENCY_CONFLICT'
  AND outbox_id = d.message_id AND +status = 'accepted'
  AND request_digest = (SELECT request_digest FROM order_message WHERE id = d.message_id)
