-- The same along the messages of one case: ?3 correlation id.
SELECT id FROM message
WHERE instr(headers, '"correlation_id"') > 0 AND headers ->> '$.correlation_id' = ?3 AND id < ?1
ORDER BY id DESC LIMIT 1 OFFSET ?2
