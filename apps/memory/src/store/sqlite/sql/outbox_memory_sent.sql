-- Under what a memory was sent. Uses attempt's key. ?1 message.
SELECT CASE WHEN json_valid(result) THEN result ->> '$.memory_id' END
FROM attempt WHERE message_id = ?1 AND outcome = 'delivered'
ORDER BY attempt_no DESC LIMIT 1
