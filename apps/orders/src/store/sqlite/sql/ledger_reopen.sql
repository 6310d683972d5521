-- Accepts the orders of requeued messages again, with the times to live they had first. 253402207200000000 is the
-- calendar's end. Uses idempo_ledger_outbox; the plus is there as in `ledger_end_delivered`.
-- ?1 JSON array of ids, ?2 now.
UPDATE idempo_ledger
SET status = 'accepted', http_status = 201, result_digest = NULL, response_payload_json = NULL,
    requeued_at = ?2,
    expires_at = min(?2 + expires_at - coalesce(requeued_at, first_seen_at), 253402207200000000),
    order_expires_at = min(?2 + order_expires_at - coalesce(requeued_at, first_seen_at),
                           253402207200000000)
FROM json_each(?1) AS requeued
WHERE outbox_id = requeued.value AND +status = 'failed'
  AND request_digest = (SELECT request_digest FROM order_message WHERE id = outbox_id)
