-- Ordered queues: only the message whose turn it is may be ready or leased, everyone who waits waits
-- for a turn that somebody has or that is open, and no turn belongs to a finished message.
WITH ordered AS (SELECT name FROM consign.queue WHERE (policy->>'ordered')::boolean),
active AS (
    SELECT unnest(ids) AS id FROM consign.ready JOIN ordered ON queue = name
    UNION ALL SELECT unnest(ids) FROM consign.lease JOIN ordered ON queue = name)
SELECT 'out_of_turn' AS code, count(*) || ' message(s) may be delivered out of order: it is not their turn' AS what,
       'hold and unhold them: `consign hold`, `consign unhold`' AS remedy, (array_agg(m.id ORDER BY m.id))[: 20] AS ids
    FROM active a JOIN consign.message m ON m.id = a.id
    LEFT JOIN consign.turn t ON t.queue = m.queue AND t."group" = m."group"
    WHERE m."group" IS NOT NULL AND t.message_id IS DISTINCT FROM m.id
    HAVING count(*) > 0
UNION ALL
SELECT 'turn_missing', count(*) || ' message(s) wait for a turn that nobody has',
       'as owner: INSERT INTO consign.turn (queue, "group") for their groups; the next claim gives the turn away',
       (array_agg(w.message_id ORDER BY w.message_id))[: 20]
    FROM consign.waiting w
    WHERE NOT EXISTS (SELECT FROM consign.turn t WHERE t.queue = w.queue AND t."group" = w."group")
    HAVING count(*) > 0
UNION ALL
SELECT 'turn_stuck', count(*) || ' group(s) wait for a message that was delivered',
       'as owner: UPDATE consign.turn SET message_id = NULL for these messages; the next claim gives the turn away',
       (array_agg(t.message_id ORDER BY t.message_id))[: 20]
    FROM consign.turn t
    WHERE EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = t.message_id AND a.outcome = 'delivered')
    HAVING count(*) > 0
