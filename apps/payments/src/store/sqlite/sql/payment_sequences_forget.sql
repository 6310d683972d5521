-- The numbers of payments that are forgotten stay used: those from dense_from on have no gaps. ?1 JSON array of messages.
UPDATE participant_outbox_sequences AS s SET dense_from = f.last + 1
FROM (SELECT participant_id, max(sequence_id) AS last FROM payment
      WHERE message_id IN (SELECT value FROM json_each(?1)) GROUP BY participant_id) AS f
WHERE s.participant_id = f.participant_id AND s.dense_from <= f.last
