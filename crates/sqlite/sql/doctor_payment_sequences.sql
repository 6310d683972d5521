-- Participants whose payments are not numbered 1, 2, 3 and so on up to what comes next.
SELECT p.participant_id, count(*), max(p.sequence_id), coalesce(s.next_sequence_id, 0)
FROM payment AS p LEFT JOIN participant_outbox_sequences AS s USING (participant_id)
GROUP BY p.participant_id
HAVING count(*) <> max(p.sequence_id) OR s.next_sequence_id IS NOT max(p.sequence_id) + 1
