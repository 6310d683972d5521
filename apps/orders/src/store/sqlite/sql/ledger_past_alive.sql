-- Number of expired rows whose message is not finished. Uses the same keys as
-- `ledger_past`. ?1 now.
SELECT count(*) FROM idempo_ledger AS l
WHERE l.expires_at <= ?1 AND l.outbox_id IS NOT NULL
  AND (SELECT outcome FROM attempt WHERE message_id = l.outbox_id
       ORDER BY attempt_no DESC LIMIT 1) IS NOT 'delivered'
  AND NOT EXISTS (SELECT 1 FROM dead WHERE message_id = l.outbox_id)
  AND EXISTS (SELECT 1 FROM message WHERE id = l.outbox_id)
