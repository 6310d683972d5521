-- A page of a list, newest first: the end of a statement that begins with the ids it found, `found`. Primary keys
-- only, those of the ranges concerned, and leases unnested once; what is in no other place is ready, as in
-- consign.state_of().
SELECT m.id, m.queue, m.key, m."group", m.created_at, m.expires_at,
       CASE
           WHEN dead.message_id IS NOT NULL THEN 'dead'
           WHEN EXISTS (SELECT FROM consign.held h WHERE h.message_id = m.id) THEN 'held'
           WHEN EXISTS (SELECT FROM consign.waiting w WHERE w.message_id = m.id) THEN 'waiting'
           WHEN EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = m.id AND a.outcome = 'delivered') THEN 'delivered'
           WHEN EXISTS (SELECT FROM consign.discarded x WHERE x.message_id = m.id) THEN 'discarded'
           WHEN m.id IN (SELECT unnest(l.ids) FROM consign.lease l) THEN 'leased'
           ELSE 'ready'
       END AS state,
       (SELECT count(*) FROM consign.attempt a WHERE a.message_id = m.id)::int AS attempts,
       dead.code, dead.detail,
       EXISTS (SELECT FROM consign.erasure e WHERE e.message_id = m.id) AS erased
    FROM consign.message m LEFT JOIN consign.dead ON dead.message_id = m.id
    WHERE m.id = ANY (ARRAY(SELECT id FROM found))
        AND m.id BETWEEN (SELECT min(id) FROM found) AND (SELECT max(id) FROM found)
    ORDER BY m.id DESC
