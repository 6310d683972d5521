-- Who comes next in groups whose message has finished, in the order given: the smallest id that
-- waits, unless a smaller one was held while it waited. A group whose head is not the finished
-- message is left alone. Uses the primary keys of group_head and waiting, and held_group.
-- ?1 queue, ?2 JSON array of [group, finished id].
SELECT t."group", w.message_id, w.due_at, w.tries, w.attempts,
       (SELECT min(message_id) FROM held
        WHERE queue = t.queue AND "group" = t."group" AND message_id < coalesce(w.message_id, 1 << 62))
FROM json_each(?2) AS finished
CROSS JOIN group_head AS t
    ON t.queue = ?1 AND t."group" = finished.value ->> 0 AND t.message_id = finished.value ->> 1
LEFT JOIN waiting AS w
    ON w.queue = t.queue AND w."group" = t."group"
   AND w.message_id = (SELECT min(message_id) FROM waiting
                       WHERE queue = t.queue AND "group" = t."group")
ORDER BY finished.key
