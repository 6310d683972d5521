-- Expired rows whose message is finished, oldest first. Where the queue's policy has a time for finished messages, they leave
-- by that and not by a purge. Uses
-- idempo_ledger_expires and the primary keys of attempt, dead and message. ?1 now, ?2 at most this
-- many.
SELECT l.rowid AS ledger_row, l.client, l.idempotency_key, l.outbox_id,
       l.status = 'succeeded' AS has_succeeded, coalesce(c.conflicts, 0) AS conflicts
FROM idempo_ledger AS l
LEFT JOIN idempo_conflict AS c
    ON c.client = l.client AND c.idempotency_key = l.idempotency_key
WHERE l.expires_at <= ?1
  AND CASE WHEN l.outbox_id IS NULL THEN l.status <> 'accepted' OR l.give_up_at <= ?1
           ELSE (SELECT outcome FROM attempt WHERE message_id = l.outbox_id
                 ORDER BY attempt_no DESC LIMIT 1) IS 'delivered'
                AND (SELECT policy ->> '$.keep_ms' FROM queue WHERE name = 'orders') IS NULL
                OR EXISTS (SELECT 1 FROM dead WHERE message_id = l.outbox_id)
                AND (SELECT policy ->> '$.keep_dead_ms' FROM queue WHERE name = 'orders') IS NULL
                OR NOT EXISTS (SELECT 1 FROM message WHERE id = l.outbox_id)
      END
ORDER BY l.expires_at LIMIT ?2
