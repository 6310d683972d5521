-- The next number of each participant that has one. ?1 JSON array of participants.
SELECT participant_id, next_sequence_id FROM participant_outbox_sequences
WHERE participant_id IN (SELECT value FROM json_each(?1))
