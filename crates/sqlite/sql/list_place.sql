-- The first id of the messages enqueued at a time (?1) or later: halves the ids until one is left. Times
-- grow with ids but for a little, see Filter::since.
WITH RECURSIVE search (low, high) AS (
    -- Apart from each other: together they would read every id.
    SELECT coalesce((SELECT min(id) FROM message), 1), coalesce((SELECT max(id) FROM message), 0) + 1
    UNION ALL
    SELECT iif(m.id < s.high AND m.created_at < ?1, m.id + 1, s.low),
           iif(m.id < s.high AND m.created_at < ?1, s.high, s.low + (s.high - s.low) / 2)
    FROM search AS s
    LEFT JOIN message AS m ON m.id = (SELECT min(id) FROM message WHERE id >= s.low + (s.high - s.low) / 2)
    WHERE s.low < s.high)
SELECT low FROM search WHERE low >= high LIMIT 1
