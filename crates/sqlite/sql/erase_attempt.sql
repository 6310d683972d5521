-- Removes what attempts say of the content, but for what apps keep of results; by primary keys. ?1 JSON array of ids, ?2 JSON
-- array of [queue, member of results].
UPDATE attempt SET detail = NULL, result = (
    SELECT nullif(json_group_object(member.key, attempt.result -> member.fullkey), '{}')
    FROM erasure, json_each(CASE WHEN json_valid(attempt.result) THEN attempt.result ELSE '{}' END) AS member
    WHERE erasure.message_id = attempt.message_id
      AND (erasure.queue, member.key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2)))
WHERE message_id IN (SELECT value FROM json_each(?1)) AND (detail IS NOT NULL OR result IS NOT NULL)
