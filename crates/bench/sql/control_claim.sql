-- $1 queue, $2 owner, $3 how many. Index job_ready, then the primary key.
WITH picked AS MATERIALIZED (
    SELECT id FROM consign_control.job
        WHERE queue = $1 AND status = 'ready' AND run_at <= now()
        ORDER BY run_at LIMIT $3
        FOR UPDATE SKIP LOCKED)
UPDATE consign_control.job j
    SET status = 'running', attempts = j.attempts + 1, locked_by = $2, locked_until = now() + interval '15 seconds'
    FROM picked WHERE j.id = picked.id
    RETURNING j.id, j.key, j.payload, j.headers, j.created_at, j.attempts
