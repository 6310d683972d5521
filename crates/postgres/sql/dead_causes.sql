-- The newest dead messages by queue and code, the largest group first: $1 queue, $2 code, $3 look at so many, $4 at
-- most this many groups.
SELECT c.queue, c.code, c.messages, c.attempts_min, c.attempts_max, c.first_at, c.last_at, c.recent, c.before, c.example,
       (SELECT e.detail FROM consign.dead e WHERE e.message_id = c.example) AS detail
    FROM (SELECT d.queue, d.code, count(*) AS messages, min(d.attempt_no) AS attempts_min, max(d.attempt_no) AS attempts_max,
                 min(d.at) AS first_at, max(d.at) AS last_at,
                 count(*) FILTER (WHERE d.at >= k.now - interval '15 minutes') AS recent,
                 count(*) FILTER (WHERE d.at >= k.now - interval '30 minutes' AND d.at < k.now - interval '15 minutes') AS before,
                 max(d.message_id) AS example
              FROM (SELECT message_id, queue, code, attempt_no, at FROM consign.dead
                        WHERE ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR code = $2)
                        ORDER BY message_id DESC LIMIT $3) d
                   CROSS JOIN (SELECT consign.clock() AS now OFFSET 0) k
              GROUP BY d.queue, d.code) c
    ORDER BY c.messages DESC, c.queue COLLATE "C", c.code COLLATE "C" LIMIT $4
