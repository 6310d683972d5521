-- Keeps late results about messages that this token held and lost: its expired attempt says so, or
-- the ended lease still lists them. The first one stands. Of an erased message no detail, and of the
-- result what its app keeps. Uses attempt's key and lease_token.
-- ?1 JSON array of [message_id, outcome, code, detail, result as text], ?2 token, ?3 now,
-- ?4 JSON array of [queue, member of results].
INSERT INTO late (message_id, token, fence, owner, outcome, at, code, detail, result)
SELECT report.value ->> 0, ?2, held.fence, held.owner, report.value ->> 1, ?3,
       report.value ->> 2,
       CASE WHEN erasure.message_id IS NULL THEN report.value ->> 3 END,
       CASE WHEN erasure.message_id IS NULL THEN report.value ->> 4 ELSE (
           SELECT nullif(json_group_object(member.key, (report.value ->> 4) -> member.fullkey), '{}')
           FROM json_each(report.value ->> 4) AS member
           WHERE (erasure.queue, member.key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?4))) END
FROM json_each(?1) AS report
JOIN (SELECT message_id, fence, owner FROM attempt
      WHERE message_id IN (SELECT value ->> 0 FROM json_each(?1))
            AND token = ?2 AND code = 'lease_expired'
      UNION
      SELECT entry.value, lease.fence, lease.owner FROM lease, json_each(lease.ids) AS entry
      WHERE lease.token = ?2 AND lease.expires_at <= ?3) AS held
  ON held.message_id = report.value ->> 0
LEFT JOIN erasure ON erasure.message_id = report.value ->> 0
WHERE NOT EXISTS (SELECT 1 FROM late
                  WHERE late.message_id = report.value ->> 0 AND late.token = ?2)
