-- The memory's message that was sent. Uses message_key and attempt's key. ?1 key.
SELECT m.id, CASE WHEN json_valid(a.result) THEN a.result ->> '$.memory_id' END
FROM message AS m JOIN attempt AS a ON a.message_id = m.id AND a.outcome = 'delivered'
WHERE m.lane = 'memory' AND m.key = ?1
ORDER BY a.attempt_no DESC LIMIT 1
