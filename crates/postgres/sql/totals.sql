-- What is in all queues together.
SELECT (SELECT count(*) FROM consign.queue WHERE policy IS NOT NULL) AS queues,
       coalesce(r.ready, 0)::bigint AS ready, coalesce(r.scheduled, 0)::bigint AS scheduled, r.oldest_due_at,
       (SELECT coalesce(sum(cardinality(ids)), 0) FROM consign.lease)::bigint AS leased,
       (SELECT count(*) FROM consign.waiting) AS waiting,
       (SELECT count(*) FROM consign.held) AS held,
       (SELECT count(*) FROM consign.dead) AS dead
    FROM (SELECT sum(cardinality(ids)) FILTER (WHERE due_at <= clock.now) AS ready,
                 sum(cardinality(ids)) FILTER (WHERE due_at > clock.now) AS scheduled,
                 min(due_at) FILTER (WHERE due_at <= clock.now) AS oldest_due_at
              FROM consign.ready, (SELECT consign.clock() AS now OFFSET 0) clock) r
