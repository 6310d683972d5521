-- Ends the orders of delivered messages. Only the order sink and resolutions set a code: an order that was settled
-- without one is reported by `doctor`. Without a result it counts as executed to an unknown extent.
-- Uses idempo_ledger_outbox and the primary keys of attempt and message.
-- The plus keeps the planner off idempo_ledger_status, along which it would walk every accepted order.
-- ?1 JSON array of [message id, attempt number].
UPDATE idempo_ledger
SET status = 'succeeded',
    (http_status, result_digest, response_payload_json) = (
        SELECT http_status, result_digest, exec_result FROM (
            SELECT 1 AS choice, http_status, result_digest, exec_result FROM order_ended
            WHERE message_id = a.message_id AND attempt_no = a.attempt_no
            UNION ALL
            SELECT 2, 200, NULL, json_object(
                'status', 'ok',
                'order_id', facts ->> '$.order_id',
                'instrument', facts ->> '$.instrument',
                'side', facts ->> '$.side',
                'requested_at', facts ->> '$.requested_at',
                'completed_at', strftime('%Y-%m-%dT%H:%M:%S', a.finished_at / 1000000, 'unixepoch')
                                || printf('.%06dZ', a.finished_at % 1000000),
                'trace_id', facts ->> '$.trace_id',
                'idempotency_key', idempotency_key,
                'qty_sent', json(qty_sent),
                'price_sent', json(price_sent),
                'fills', json('[]'),
                'executed_qty', 0,
                'avg_price', NULL,
                'broker', json_object('name', 'unknown', 'order_ref', NULL),
                'latency_ms', json_object('queue', 0, 'broker_rtt', 0, 'total', 0),
                'reason_code', NULL,
                'warnings', json_insert(json(warnings), '$[#]', 'the order ended without a result from its broker'))
            FROM order_message WHERE id = a.message_id
        ) ORDER BY choice LIMIT 1
    )
FROM json_each(?1) AS settled
CROSS JOIN attempt AS a ON a.message_id = settled.value ->> 0 AND a.attempt_no = settled.value ->> 1
WHERE a.outcome = 'delivered' AND a.code IS NOT NULL
  AND outbox_id = a.message_id AND +status = 'accepted'
  AND request_digest = (SELECT request_digest FROM order_message WHERE id = a.message_id)
