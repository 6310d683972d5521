-- Rail references shared by several payments of a participant. ?1 how many.
SELECT p.participant_id, p.rail_type, a.result ->> '$.rail_reference' AS reference,
       json_group_array(p.outbox_id ORDER BY p.message_id),
       json_group_array(p.message_id ORDER BY p.message_id)
FROM attempt AS a JOIN payment AS p ON p.message_id = a.message_id
WHERE a.outcome = 'delivered' AND a.result IS NOT NULL
  AND a.result ->> '$.rail_reference' IS NOT NULL
GROUP BY reference, p.participant_id, p.rail_type HAVING count(*) > 1
ORDER BY min(p.message_id) LIMIT ?1
