-- Makes room for the counts of queues. ?1 JSON array of [queue, messages, dead, revived, discarded].
INSERT INTO departed (queue, messages)
SELECT value ->> 0, 0 FROM json_each(?1)
WHERE NOT EXISTS (SELECT 1 FROM departed WHERE queue = value ->> 0)
