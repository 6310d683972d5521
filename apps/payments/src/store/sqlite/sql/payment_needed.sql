-- Messages of payments that still have to be compared with the books of the rail: a late success that no attempt confirms,
-- a failure in doubt, a dispatch without a reference. ?1 first id, ?2 last id.
SELECT l.message_id FROM late AS l
WHERE l.message_id >= ?1 AND l.message_id <= ?2 AND l.outcome = 'delivered'
  AND NOT EXISTS (SELECT 1 FROM attempt AS a
                  WHERE a.message_id = l.message_id
                        AND (a.outcome = 'delivered'
                             AND a.result ->> '$.rail_reference' = l.result ->> '$.rail_reference'
                             OR a.code = 'resolved' AND a.finished_at >= l.at))
UNION ALL
SELECT d.message_id FROM dead AS d
WHERE d.message_id >= ?1 AND d.message_id <= ?2 AND d.queue = 'payments'
  AND (SELECT outcome FROM attempt
       WHERE message_id = d.message_id
             AND (outcome <> 'expired' OR result ->> '$.may_have_begun' = 1)
       ORDER BY attempt_no DESC LIMIT 1) IN ('uncertain', 'expired')
UNION ALL
SELECT a.message_id FROM attempt AS a JOIN payment AS p ON p.message_id = a.message_id
WHERE a.message_id >= ?1 AND a.message_id <= ?2
  AND a.outcome = 'delivered' AND a.code IS NOT 'resolved'
  AND (a.result IS NULL OR trim(coalesce(a.result ->> '$.rail_reference', '')) = '')
