-- One message ($1 bigint), its queue, and everything that says where it is, from one snapshot.
-- There is no index from message to batch: of a ready one, the batches due when it was enqueued or when its
-- last attempt said are looked at first, then all of its queue.
SELECT m.id, m.queue, m.key, m."group", m.payload, m.headers, m.created_at, m.expires_at,
       n.name, n.policy, n.paused_at, consign.clock() AS now,
       a.attempt_no, a.outcome::text AS outcome, a.owner AS attempt_owner, a.finished_at, a.code AS attempt_code, a.detail AS attempt_detail,
       CASE consign.state_of(m.id) WHEN 'ready' THEN coalesce(
           (SELECT r.due_at FROM consign.ready r
               WHERE r.queue = m.queue AND r.due_at = m.created_at AND r.ids @> ARRAY[m.id] LIMIT 1),
           (SELECT r.due_at FROM consign.ready r
               WHERE r.queue = m.queue AND r.due_at = a.next_due_at AND r.ids @> ARRAY[m.id] LIMIT 1),
           (SELECT r.due_at FROM consign.ready r WHERE r.queue = m.queue AND r.ids @> ARRAY[m.id] LIMIT 1)) END AS due_at,
       l.owner, l.fence, l.expires_at AS lease_ends_at, m.id = ANY (l.begun) AS begun,
       h.at AS held_at, h.reason, d.at AS dead_at, d.code, d.detail,
       x.at AS discarded_at, x.actor AS discarded_by, x.reason AS discarded_reason,
       w.message_id IS NOT NULL AS waiting, t.message_id AS behind,
       e.at AS erased_at, e.actor AS erased_by, e.reason AS erased_reason, encode(e.digest, 'hex') AS erased_digest
    FROM consign.message m
    JOIN consign.queue n ON n.name = m.queue
    LEFT JOIN LATERAL (SELECT attempt_no, outcome, owner, finished_at, code, detail, next_due_at
                           FROM consign.attempt WHERE message_id = m.id ORDER BY attempt_no DESC LIMIT 1) a ON true
    LEFT JOIN consign.lease l ON m.id = ANY (l.ids)
    LEFT JOIN consign.held h ON h.message_id = m.id
    LEFT JOIN consign.dead d ON d.message_id = m.id
    LEFT JOIN consign.discarded x ON x.message_id = m.id
    LEFT JOIN consign.waiting w ON w.message_id = m.id
    LEFT JOIN consign.erasure e ON e.message_id = m.id
    LEFT JOIN consign.group_head t ON t.queue = m.queue AND t."group" = m."group"
    WHERE m.id = $1
