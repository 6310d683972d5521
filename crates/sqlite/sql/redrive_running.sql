-- Running redrives, the one that waited longest first. Uses redrive_running.
SELECT id, action, queue, code, rate_per_second, at_most, state, total, moved, skipped, cursor, actor, reason,
       started_at, updated_at, finished_at, paced_at
FROM redrive WHERE state = 'running' ORDER BY updated_at, id
