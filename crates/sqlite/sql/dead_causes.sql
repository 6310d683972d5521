-- The newest dead messages by queue and code, the largest group first, along the primary key.
-- ?1 queue or null, ?2 code or null, ?3 look at so many, ?4 at most this many groups. ?5, ?6: since when deaths
-- are recent, and since when they are of the time before.
SELECT c.queue, c.code, c.messages, c.attempts_min, c.attempts_max, c.first_at, c.last_at, c.recent, c.before, c.example,
       (SELECT detail FROM dead WHERE message_id = c.example)
FROM (SELECT queue, code, count(*) AS messages, min(attempt_no) AS attempts_min, max(attempt_no) AS attempts_max,
             min(at) AS first_at, max(at) AS last_at, count(*) FILTER (WHERE at >= ?5) AS recent,
             count(*) FILTER (WHERE at >= ?6 AND at < ?5) AS before, max(message_id) AS example
      FROM (SELECT queue, code, attempt_no, at, message_id FROM dead
            WHERE (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR code = ?2)
            ORDER BY message_id DESC LIMIT ?3)
      GROUP BY queue, code) AS c
ORDER BY c.messages DESC, c.queue, c.code LIMIT ?4
