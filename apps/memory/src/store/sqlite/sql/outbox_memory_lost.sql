-- The last lease that a worker had of a row, if it ended without a word. ?1 message, ?2 worker.
SELECT held.token
FROM (SELECT token, fence FROM lease
      WHERE queue = 'memory' AND owner = ?2 AND ?1 IN (SELECT value FROM json_each(lease.ids))
      UNION ALL
      SELECT a.token, a.fence
      FROM attempt AS a JOIN message AS m ON m.id = a.message_id AND m.queue = 'memory'
      WHERE a.message_id = ?1 AND a.owner = ?2 AND a.code = 'lease_expired') AS held
WHERE NOT EXISTS (SELECT 1 FROM attempt
                  WHERE message_id = ?1 AND owner = ?2 AND fence > held.fence
                    AND code IS NOT 'lease_expired')
ORDER BY held.fence DESC LIMIT 1
