-- Attempts are numbered densely from 1, and nothing follows a delivered one.
SELECT 'attempts_gap' AS code, count(*) || ' message(s) have gaps in their attempts: history was removed' AS what,
       'restore consign.attempt from a backup; find out who could bypass the append-only trigger' AS remedy,
       (array_agg(message_id ORDER BY message_id))[: 20] AS ids
    FROM (SELECT message_id FROM consign.attempt
              GROUP BY message_id HAVING min(attempt_no) <> 1 OR max(attempt_no) <> count(*)) gap
    HAVING count(*) > 0
UNION ALL
SELECT 'attempt_after_delivered', count(*) || ' message(s) were tried after they had been delivered',
       'nothing to repair here, but the sink may have received them twice; report this as a defect',
       (array_agg(message_id ORDER BY message_id))[: 20]
    FROM (SELECT message_id FROM consign.attempt
              GROUP BY message_id HAVING min(attempt_no) FILTER (WHERE outcome = 'delivered') < max(attempt_no)) late
    HAVING count(*) > 0
UNION ALL
SELECT 'attempt_unknown', count(*) || ' attempt(s) name a message that does not exist',
       'restore consign.message from a backup', (array_agg(message_id ORDER BY message_id))[: 20]
    FROM consign.attempt a WHERE NOT EXISTS (SELECT FROM consign.message m WHERE m.id = a.message_id)
    HAVING count(*) > 0
