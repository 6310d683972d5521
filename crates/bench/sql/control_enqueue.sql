-- $1 queue, $2 payloads (jsonb[]). Answers with the ids, as consign does.
INSERT INTO consign_control.job (queue, payload)
    SELECT $1, p FROM unnest($2::jsonb[]) p
    RETURNING id
