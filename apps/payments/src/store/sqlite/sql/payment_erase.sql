-- Keeps of payments that are erased what is compared with the books of the rail. ?1 JSON array of messages.
INSERT INTO payment_erased (message_id, amount_minor, currency_code)
SELECT id,
       CASE WHEN json_type(payload, '$.payload.amount_minor') IN ('integer', 'real')
            THEN payload -> '$.payload.amount_minor' END,
       CASE WHEN coalesce(payload ->> '$.payload.currency_code', payload ->> '$.payload.currency') GLOB '[A-Z][A-Z][A-Z]'
            THEN coalesce(payload ->> '$.payload.currency_code', payload ->> '$.payload.currency') END
FROM message WHERE id IN (SELECT value FROM json_each(?1))
