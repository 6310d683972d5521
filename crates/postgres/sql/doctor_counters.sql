-- The attempt count that travels with a message equals its attempt rows.
WITH carried AS (
    SELECT e.id, e.attempts FROM consign.ready r, unnest(r.ids, r.attempts) AS e (id, attempts)
    UNION ALL SELECT e.id, e.attempts FROM consign.lease l, unnest(l.ids, l.attempts) AS e (id, attempts)
    UNION ALL SELECT message_id, attempts FROM consign.held
    UNION ALL SELECT message_id, attempts FROM consign.waiting
    UNION ALL SELECT message_id, attempts FROM consign.discarded
    UNION ALL SELECT message_id, attempt_no FROM consign.dead)
SELECT 'attempts_miscounted' AS code,
       count(*) || ' message(s) carry an attempt count other than their attempt rows: their next settle would fail' AS what,
       'as owner: hold them, set consign.held.attempts to the number of their attempt rows, unhold them' AS remedy,
       (array_agg(id ORDER BY id))[: 20] AS ids
    FROM carried c
    WHERE c.attempts <> (SELECT count(*) FROM consign.attempt a WHERE a.message_id = c.id)
    HAVING count(*) > 0
