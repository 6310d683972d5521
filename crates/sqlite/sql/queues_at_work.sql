-- The queues of no app and of these, with their policies. ?1 JSON array of apps.
SELECT name, policy FROM queue WHERE app IS NULL OR app IN (SELECT value FROM json_each(?1))
