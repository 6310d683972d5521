-- Participants whose payments are not numbered 1, 2, 3 and so on up to what comes next.
SELECT s.participant_id, count(p.message_id), coalesce(max(p.sequence_id), 0), s.next_sequence_id
FROM participant_outbox_sequences AS s LEFT JOIN payment AS p USING (participant_id)
GROUP BY s.participant_id
HAVING count(p.message_id) <> s.next_sequence_id - 1
    OR coalesce(max(p.sequence_id), 0) <> s.next_sequence_id - 1
UNION ALL
SELECT p.participant_id, count(*), max(p.sequence_id), 0
FROM payment AS p
WHERE p.participant_id NOT IN (SELECT participant_id FROM participant_outbox_sequences)
GROUP BY p.participant_id
