-- Whether one of these messages is in a queue of an app that this process does not have. By primary key.
-- ?1 JSON array of ids, ?2 JSON array of the apps of this process.
SELECT EXISTS (
    SELECT 1 FROM json_each(?1) AS wanted
    CROSS JOIN message AS m ON m.id = wanted.value
    CROSS JOIN queue AS q ON q.name = m.queue
    WHERE q.app IS NOT NULL AND q.app NOT IN (SELECT value FROM json_each(?2)))
