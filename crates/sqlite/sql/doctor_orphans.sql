-- Attempts of messages that do not exist.
SELECT DISTINCT a.message_id FROM attempt AS a
WHERE NOT EXISTS (SELECT 1 FROM message WHERE id = a.message_id)
ORDER BY a.message_id LIMIT 1000
