-- Stores the next number of each participant. ?1 JSON array of [participant, next].
INSERT INTO participant_outbox_sequences (participant_id, next_sequence_id)
SELECT value ->> 0, value ->> 1 FROM json_each(?1) WHERE true
ON CONFLICT (participant_id) DO UPDATE SET next_sequence_id = excluded.next_sequence_id
