-- Erases the responses of orders: what a repeated request gets from then on. Its code stays, like those of attempts.
-- Uses idempo_ledger_outbox. ?1 JSON array of ids.
UPDATE idempo_ledger
SET response_payload_json = json_patch('{}', json_object(
    'status', CASE status WHEN 'succeeded' THEN 'ok' ELSE 'error' END,
    'error', CASE WHEN response_payload_json ->> '$.reason_code' NOT GLOB '*[^A-Z_]*'
                  THEN response_payload_json ->> '$.reason_code' END,
    'reason_code', CASE WHEN response_payload_json ->> '$.reason_code' NOT GLOB '*[^A-Z_]*'
                        THEN response_payload_json ->> '$.reason_code' END,
    'message', 'the result of this order was erased',
    'idempotency_key', idempotency_key,
    'erased', json('true')))
WHERE outbox_id IN (SELECT value FROM json_each(?1)) AND response_payload_json IS NOT NULL
