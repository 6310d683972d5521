-- The conservation law: every message is in exactly one state, and no table holds an unknown id.
WITH entry AS (
    SELECT unnest(ids) AS id, 'ready' AS name FROM consign.ready
    UNION ALL SELECT unnest(ids), 'leased' FROM consign.lease
    UNION ALL SELECT message_id, 'held' FROM consign.held
    UNION ALL SELECT message_id, 'dead' FROM consign.dead
    UNION ALL SELECT message_id, 'discarded' FROM consign.discarded
    UNION ALL SELECT message_id, 'waiting' FROM consign.waiting
    UNION ALL SELECT message_id, 'delivered' FROM consign.attempt WHERE outcome = 'delivered'),
found AS (
    SELECT m.id, array_agg(p.name ORDER BY p.name) FILTER (WHERE p.name IS NOT NULL) AS names
        FROM consign.message m LEFT JOIN entry p ON p.id = m.id
        GROUP BY m.id HAVING count(p.name) <> 1)
SELECT 'message_lost' AS code, count(*) || ' message(s) have no state: they would never be delivered' AS what,
       'as owner: INSERT INTO consign.held (message_id, queue, at, reason, tries, attempts) for each, then `consign unhold`' AS remedy,
       (array_agg(id ORDER BY id))[: 20] AS ids
    FROM found WHERE names IS NULL HAVING count(*) > 0
UNION ALL
SELECT 'message_doubled', count(*) || ' message(s) are in ' || array_to_string(names, ' and ') || ' at once',
       CASE WHEN 'delivered' = ANY (names)
            THEN 'delivered is final: as owner, remove them from every table but consign.attempt'
            ELSE 'as owner, remove them from one of these; keep leased over ready' END,
       (array_agg(id ORDER BY id))[: 20]
    FROM found WHERE names IS NOT NULL GROUP BY names
UNION ALL
SELECT 'message_unknown', count(*) || ' entr(ies) in ' || p.name || ' name a message that does not exist',
       'as owner, remove these ids from consign.' || CASE p.name WHEN 'leased' THEN 'lease' ELSE p.name END,
       (array_agg(p.id ORDER BY p.id))[: 20]
    FROM entry p WHERE NOT EXISTS (SELECT FROM consign.message m WHERE m.id = p.id) GROUP BY p.name
