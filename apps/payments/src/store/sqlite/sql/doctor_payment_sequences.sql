-- Participants whose payments are not numbered without gaps from dense_from up to the next number.
SELECT s.participant_id, count(p.message_id), coalesce(max(p.sequence_id), 0), s.next_sequence_id
FROM participant_outbox_sequences AS s
LEFT JOIN payment AS p ON p.participant_id = s.participant_id AND p.sequence_id >= s.dense_from
GROUP BY s.participant_id
HAVING count(p.message_id) <> s.next_sequence_id - s.dense_from
    OR coalesce(max(p.sequence_id), s.dense_from - 1) <> s.next_sequence_id - 1
UNION ALL
SELECT p.participant_id, count(*), max(p.sequence_id), 0
FROM payment AS p
WHERE p.participant_id NOT IN (SELECT participant_id FROM participant_outbox_sequences)
GROUP BY p.participant_id
