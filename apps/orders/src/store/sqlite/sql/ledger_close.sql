-- Ends an order that was sent within its request. ?1 client, ?2 idempotency_key, ?3 request_digest,
-- ?4 status, ?5 http_status, ?6 result_digest, ?7 response.
UPDATE idempo_ledger
SET status = ?4, http_status = ?5, result_digest = ?6, response_payload_json = ?7,
    give_up_at = NULL
WHERE client = ?1 AND idempotency_key = ?2 AND request_digest = ?3
  AND status = 'accepted' AND outbox_id IS NULL
