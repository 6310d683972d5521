-- Texts that hold no JSON although only JSON is written there: the message and the column's name.
SELECT id, 'payload' FROM message WHERE NOT json_valid(payload)
UNION ALL
SELECT id, 'headers' FROM message WHERE NOT json_valid(headers)
UNION ALL
SELECT message_id, 'result' FROM attempt WHERE NOT json_valid(result)
LIMIT 100
