-- What needs an operator and shows in no count, and what is acknowledged: $1 entries of each at most, $2 acknowledgements.
WITH clock AS MATERIALIZED (SELECT consign.clock() AS now)
SELECT jsonb_build_object(
    'now', (SELECT now FROM clock),
    'blocked', (SELECT coalesce(jsonb_agg(to_jsonb(b) ORDER BY b.queue COLLATE "C"), '[]') FROM (
        SELECT d.queue, count(*) AS groups, min(d.at) AS since
            FROM consign.queue q JOIN consign.dead d ON d.queue = q.name
                JOIN consign.group_head h ON h.queue = d.queue AND h.message_id = d.message_id
            WHERE (q.policy->>'ordered')::boolean
            GROUP BY d.queue ORDER BY d.queue COLLATE "C" LIMIT $1) b),
    'alerts', (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.queue COLLATE "C", a.reason, a.code COLLATE "C"), '[]') FROM (
        SELECT queue, reason, code, pending, first_at AS since, failure FROM consign.alert WHERE failure IS NOT NULL
            ORDER BY queue COLLATE "C", reason, code COLLATE "C" LIMIT $1) a),
    'overdue', (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.due_at, s.name), '[]') FROM (
        SELECT name, queue, next_at AS due_at FROM consign.schedule, clock
            WHERE paused_at IS NULL AND next_at < clock.now - interval '1 minute' ORDER BY next_at, name LIMIT $1) s),
    'acknowledgements', (SELECT coalesce(jsonb_agg(to_jsonb(k) ORDER BY k.problem), '[]') FROM (
        SELECT problem, severity, at, until, actor, reason FROM consign.acknowledgement, clock
            WHERE until > clock.now ORDER BY problem LIMIT $2) k)
) AS attention
