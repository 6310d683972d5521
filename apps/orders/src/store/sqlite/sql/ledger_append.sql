-- Writes accepted orders. ?1 JSON array of [client, idempotency_key, request_digest, outbox_id,
-- expires_at, order_expires_at, give_up_at, the subject of a direct order as text], ?2 now.
INSERT INTO idempo_ledger (client, idempotency_key, request_digest, status, http_status, outbox_id,
                           first_seen_at, last_seen_at, expires_at, order_expires_at,
                           give_up_at, direct_order)
SELECT value ->> 0, value ->> 1, value ->> 2, 'accepted', 201, value ->> 3, ?2, ?2,
       value ->> 4, value ->> 5, value ->> 6, value ->> 7
FROM json_each(?1)
