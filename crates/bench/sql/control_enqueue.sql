-- $1 lane, $2 payloads (jsonb[]). Answers with the ids, as consign does.
INSERT INTO consign_control.job (lane, payload)
    SELECT $1, p FROM unnest($2::jsonb[]) p
    RETURNING id
