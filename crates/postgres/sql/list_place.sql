-- The first id of the messages enqueued at a time ($1) or later: halves the ids until one is left. Times grow
-- with ids but for a little, see Filter::since.
WITH RECURSIVE search (low, high) AS (
    SELECT coalesce((SELECT id FROM consign.message ORDER BY id LIMIT 1), 1),
           coalesce((SELECT id FROM consign.message ORDER BY id DESC LIMIT 1), 0) + 1
    UNION ALL
    SELECT CASE WHEN m.id < s.high AND m.created_at < $1 THEN m.id + 1 ELSE s.low END,
           CASE WHEN m.id < s.high AND m.created_at < $1 THEN s.high ELSE s.low + (s.high - s.low) / 2 END
        FROM search s
        LEFT JOIN LATERAL (SELECT id, created_at FROM consign.message
                               WHERE id >= s.low + (s.high - s.low) / 2 ORDER BY id LIMIT 1) m ON true
        WHERE s.low < s.high)
SELECT low AS id FROM search WHERE low >= high
