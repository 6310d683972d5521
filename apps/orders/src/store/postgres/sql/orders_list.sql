-- Rows of the ledger, newest first: $1 client, $2 status, $3 $4 $5 below this (first_seen_at, client, key)
-- or NULL from the start, $6 how many. Walks idempo_ledger_first_seen backwards.
SELECT l.client, l.idempotency_key, l.request_digest, l.result_digest, l.status, l.first_seen_at, l.last_seen_at, l.expires_at,
       l.order_expires_at, l.response_payload_json::text AS response, l.http_status, l.outbox_id,
       coalesce(c.conflicts, 0) AS conflicts,
       CASE WHEN l.status = 'accepted' THEN coalesce(
           l.direct_order, (SELECT m.payload->'order' FROM consign.message m WHERE m.id = l.outbox_id))::text END AS sent
    FROM consign.idempo_ledger l
    LEFT JOIN consign.idempo_conflict c ON c.client = l.client AND c.idempotency_key = l.idempotency_key
    WHERE ($1::text IS NULL OR l.client = $1) AND ($2::text IS NULL OR l.status = $2)
        AND ($3::timestamptz IS NULL
             OR (l.first_seen_at <= $3 AND (l.first_seen_at, l.client, l.idempotency_key) < ($3, $4::text, $5::text)))
    ORDER BY l.first_seen_at DESC, l.client DESC, l.idempotency_key DESC LIMIT $6
