-- Rows of one status, newest first. Uses idempo_ledger_status. ?1 client or null, ?2 status,
-- ?3 first_seen_at, ?4 client and ?5 key of the row to go on from, ?6 at most this many.
SELECT l.rowid AS ledger_row, l.client, l.idempotency_key, l.request_digest, l.result_digest,
       l.status, l.first_seen_at, l.last_seen_at, l.expires_at, l.order_expires_at, l.give_up_at,
       l.response_payload_json, l.http_status, l.outbox_id, coalesce(c.conflicts, 0) AS conflicts,
       CASE WHEN l.status = 'accepted'
            THEN coalesce(l.direct_order, (SELECT facts FROM order_message WHERE id = l.outbox_id))
       END AS sent
FROM idempo_ledger AS l
LEFT JOIN idempo_conflict AS c
    ON c.client = l.client AND c.idempotency_key = l.idempotency_key
WHERE (?1 IS NULL OR l.client = ?1) AND l.status = ?2
  AND (l.first_seen_at, l.client, l.idempotency_key) < (?3, ?4, ?5)
ORDER BY l.first_seen_at DESC, l.client DESC, l.idempotency_key DESC LIMIT ?6
