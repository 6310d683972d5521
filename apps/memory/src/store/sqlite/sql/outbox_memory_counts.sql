-- How many memories wait or are under way, were sent, are dead; and pending audits. Walks the queue's
-- indexes, not its messages.
WITH open (count) AS (
    SELECT coalesce((SELECT sum(json_array_length(ids)) FROM ready WHERE queue = 'memory'), 0)
         + coalesce((SELECT sum(json_array_length(ids)) FROM lease WHERE queue = 'memory'), 0)
         + (SELECT count(*) FROM held WHERE queue = 'memory')
         + (SELECT count(*) FROM waiting WHERE queue = 'memory')
),
gone (count) AS (SELECT count(*) FROM dead WHERE queue = 'memory')
SELECT open.count, (SELECT count(*) FROM message WHERE queue = 'memory') - open.count - gone.count,
       gone.count, (SELECT count(*) FROM write_audit WHERE status = 'pending')
FROM open, gone
