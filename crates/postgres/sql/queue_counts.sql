-- One queue with its counts ($1 its name).
SELECT l.name, l.policy, l.paused_at,
       coalesce(r.ready, 0)::bigint AS ready, coalesce(r.scheduled, 0)::bigint AS scheduled, r.oldest_due_at,
       (SELECT coalesce(sum(cardinality(ids)), 0) FROM consign.lease WHERE queue = l.name)::bigint AS leased,
       (SELECT count(*) FROM consign.waiting WHERE queue = l.name) AS waiting,
       (SELECT count(*) FROM consign.held WHERE queue = l.name) AS held,
       (SELECT count(*) FROM consign.dead WHERE queue = l.name) AS dead
    FROM (SELECT * FROM consign.queue WHERE name = $1 AND policy IS NOT NULL) l
    CROSS JOIN (SELECT consign.clock() AS now OFFSET 0) clock
    CROSS JOIN LATERAL (
        SELECT sum(cardinality(ids)) FILTER (WHERE due_at <= clock.now) AS ready,
               sum(cardinality(ids)) FILTER (WHERE due_at > clock.now) AS scheduled,
               min(due_at) FILTER (WHERE due_at <= clock.now) AS oldest_due_at
            FROM consign.ready WHERE queue = l.name) r
