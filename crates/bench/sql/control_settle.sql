-- $1 ids, $2 owner. One statement: the status of each job in place, and an attempt row for each.
WITH done AS (
    UPDATE consign_control.job SET status = 'done', locked_by = NULL, locked_until = NULL
        WHERE id = ANY ($1) AND status = 'running' AND locked_by = $2
        RETURNING id, attempts)
INSERT INTO consign_control.attempt (job_id, attempt_no, outcome, owner, finished_at)
    SELECT id, attempts, 'delivered', $2, clock_timestamp() FROM done
