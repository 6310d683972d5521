-- Fails orders that were sent within a request and have no recorded result. ?1 now, ?2 JSON
-- array of rowids.
UPDATE idempo_ledger
SET status = 'failed', http_status = 504, give_up_at = NULL,
    response_payload_json = json_object(
        'status', 'error',
        'error', 'BROKER_TIMEOUT',
        'message', 'no result was recorded in time: whether the order was executed is unknown',
        'order_id', direct_order ->> '$.order_id',
        'instrument', direct_order ->> '$.instrument',
        'side', direct_order ->> '$.side',
        'requested_at', direct_order ->> '$.requested_at',
        'completed_at', strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000000, 'unixepoch')
                        || printf('.%06dZ', ?1 % 1000000),
        'trace_id', direct_order ->> '$.trace_id',
        'idempotency_key', idempotency_key,
        'fills', json('[]'),
        'executed_qty', 0,
        'avg_price', NULL,
        'broker', json_object('name', 'unknown', 'order_ref', NULL),
        'latency_ms', json_object('queue', 0, 'broker_rtt', 0, 'total', 0),
        'reason_code', 'BROKER_TIMEOUT',
        'warnings', json('[]'))
WHERE rowid IN (SELECT value FROM json_each(?2)) AND status = 'accepted' AND give_up_at <= ?1
