-- Ordered queues: only the head of a group may be ready or leased, every message that waits waits
-- behind a head or an open one, and no head is a finished message.
WITH ordered AS (SELECT name FROM consign.queue WHERE (policy->>'ordered')::boolean),
active AS (
    SELECT unnest(ids) AS id FROM consign.ready JOIN ordered ON queue = name
    UNION ALL SELECT unnest(ids) FROM consign.lease JOIN ordered ON queue = name)
SELECT 'not_group_head' AS code, count(*) || ' message(s) may be delivered out of order: another message is the head of their group' AS what,
       'hold and unhold them: `consign hold`, `consign unhold`' AS remedy, (array_agg(m.id ORDER BY m.id))[: 20] AS ids
    FROM active a JOIN consign.message m ON m.id = a.id
    LEFT JOIN consign.group_head t ON t.queue = m.queue AND t."group" = m."group"
    WHERE m."group" IS NOT NULL AND t.message_id IS DISTINCT FROM m.id
    HAVING count(*) > 0
UNION ALL
SELECT 'group_head_missing', count(*) || ' message(s) wait in a group without a head',
       'as owner: INSERT INTO consign.group_head (queue, "group") for their groups; the next claim promotes a message',
       (array_agg(w.message_id ORDER BY w.message_id))[: 20]
    FROM consign.waiting w
    WHERE NOT EXISTS (SELECT FROM consign.group_head t WHERE t.queue = w.queue AND t."group" = w."group")
    HAVING count(*) > 0
UNION ALL
SELECT 'group_head_stuck', count(*) || ' group(s) wait for a message that was delivered or discarded, or is dead and does not block',
       'as owner: UPDATE consign.group_head SET message_id = NULL for these messages; the next claim promotes a message',
       (array_agg(t.message_id ORDER BY t.message_id))[: 20]
    FROM consign.group_head t
    WHERE EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = t.message_id AND a.outcome = 'delivered')
        OR EXISTS (SELECT FROM consign.discarded x WHERE x.message_id = t.message_id)
        OR EXISTS (SELECT FROM consign.dead d JOIN consign.queue q ON q.name = d.queue
                       WHERE d.message_id = t.message_id AND q.policy->>'on_dead' = 'continue')
    HAVING count(*) > 0
