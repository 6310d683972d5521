-- One message ($1 bigint), its lane, and everything that says where it is, from one snapshot.
-- Walks the ready runs of the lane: there is no index from message to run.
SELECT m.id, m.lane, m.key, m."group", m.payload, m.headers, m.created_at,
       n.name, n.policy, n.paused_at, consign.clock() AS now,
       (SELECT count(*) FROM consign.attempt WHERE message_id = m.id)::int AS attempts,
       (SELECT r.due_at FROM consign.ready r WHERE r.lane = m.lane AND r.ids @> ARRAY[m.id] LIMIT 1) AS due_at,
       l.owner, l.fence, l.expires_at, m.id = ANY (l.begun) AS begun,
       h.at AS held_at, h.reason, d.at AS dead_at, d.code, d.detail,
       w.message_id IS NOT NULL AS waiting, t.message_id AS behind,
       (SELECT finished_at FROM consign.attempt WHERE message_id = m.id AND outcome = 'delivered' LIMIT 1) AS delivered_at
    FROM consign.message m
    JOIN consign.lane n ON n.name = m.lane
    LEFT JOIN consign.lease l ON m.id = ANY (l.ids)
    LEFT JOIN consign.held h ON h.message_id = m.id
    LEFT JOIN consign.dead d ON d.message_id = m.id
    LEFT JOIN consign.waiting w ON w.message_id = m.id
    LEFT JOIN consign.turn t ON t.lane = m.lane AND t."group" = m."group"
    WHERE m.id = $1
