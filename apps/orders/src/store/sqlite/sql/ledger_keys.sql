-- The rows of these keys, by primary key. ?1 JSON array of [client, idempotency_key].
SELECT l.rowid AS ledger_row, l.client, l.idempotency_key, l.request_digest, l.result_digest,
       l.status, l.first_seen_at, l.last_seen_at, l.expires_at, l.order_expires_at, l.give_up_at,
       l.response_payload_json, l.http_status, l.outbox_id, coalesce(c.conflicts, 0) AS conflicts,
       CASE WHEN l.status = 'accepted'
            THEN coalesce(l.direct_order, (SELECT facts FROM order_message WHERE id = l.outbox_id))
       END AS sent
FROM json_each(?1) AS wanted
CROSS JOIN idempo_ledger AS l
    ON l.client = wanted.value ->> 0 AND l.idempotency_key = wanted.value ->> 1
LEFT JOIN idempo_conflict AS c
    ON c.client = l.client AND c.idempotency_key = l.idempotency_key
