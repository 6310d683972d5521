-- Stores the rail's answers for payments that a worker had under a token and has no more: an attempt
-- records the end of its lease, or the expired lease still lists them. The first one is kept, except that
-- a success is always stored. Uses attempt's key and lease_token.
-- ?1 JSON array of [message_id, outcome, code, detail, result as text], ?2 token, ?3 now, ?4 worker.
INSERT INTO late (message_id, token, fence, owner, outcome, at, code, detail, result, after_all)
SELECT report.value ->> 0, ?2, held.fence, held.owner, report.value ->> 1, ?3,
       report.value ->> 2,
       CASE WHEN NOT EXISTS (SELECT 1 FROM erasure WHERE message_id = report.value ->> 0) THEN report.value ->> 3 END,
       report.value ->> 4,
       EXISTS (SELECT 1 FROM late WHERE late.message_id = report.value ->> 0 AND late.token = ?2)
FROM json_each(?1) AS report
JOIN (SELECT message_id, fence, owner FROM attempt
      WHERE message_id IN (SELECT value ->> 0 FROM json_each(?1)) AND token = ?2 AND owner = ?4
      UNION
      SELECT entry.value, lease.fence, lease.owner FROM lease, json_each(lease.ids) AS entry
      WHERE lease.token = ?2 AND lease.owner = ?4 AND lease.expires_at <= ?3) AS held
  ON held.message_id = report.value ->> 0
WHERE NOT EXISTS (SELECT 1 FROM late
                  WHERE late.message_id = report.value ->> 0 AND late.token = ?2
                        AND (late.outcome = 'delivered' OR report.value ->> 1 <> 'delivered'))
