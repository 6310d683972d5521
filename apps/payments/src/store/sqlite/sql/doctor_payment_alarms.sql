-- Payments that an operator must check, though nothing is damaged: in leases that expired long ago; with a
-- late success that no attempt confirms and no operator resolved since; failed although the rail may
-- have them. ?1 expiry limit.
SELECT 'payment_lease_expired', w.message_id FROM payment_undelivered AS w
WHERE w.message_state = 'leased' AND w.expires_at <= ?1
UNION ALL
SELECT DISTINCT 'payment_late_unconfirmed', p.message_id
FROM late AS l JOIN payment AS p ON p.message_id = l.message_id
WHERE l.outcome = 'delivered'
  AND NOT EXISTS (SELECT 1 FROM attempt AS a
                  WHERE a.message_id = l.message_id
                        AND (a.outcome = 'delivered'
                             AND a.result ->> '$.rail_reference' = l.result ->> '$.rail_reference'
                             OR a.code = 'resolved' AND a.finished_at >= l.at))
UNION ALL
SELECT 'payment_failed_in_doubt', w.message_id FROM payment_undelivered AS w
WHERE w.message_state = 'dead'
  AND (SELECT outcome FROM attempt
       WHERE message_id = w.message_id
             AND (outcome <> 'expired' OR result ->> '$.may_have_begun' = 1)
       ORDER BY attempt_no DESC LIMIT 1) IN ('uncertain', 'expired')
