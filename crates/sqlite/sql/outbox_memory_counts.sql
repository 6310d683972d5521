-- How many memories wait or are under way, were sent, are dead; and pending audits. Walks the lane's
-- indexes, not its messages.
WITH open (count) AS (
    SELECT coalesce((SELECT sum(json_array_length(ids)) FROM ready WHERE lane = 'memory'), 0)
         + coalesce((SELECT sum(json_array_length(ids)) FROM lease WHERE lane = 'memory'), 0)
         + (SELECT count(*) FROM held WHERE lane = 'memory')
         + (SELECT count(*) FROM waiting WHERE lane = 'memory')
),
gone (count) AS (SELECT count(*) FROM dead WHERE lane = 'memory')
SELECT open.count, (SELECT count(*) FROM message WHERE lane = 'memory') - open.count - gone.count,
       gone.count, (SELECT count(*) FROM write_audit WHERE status = 'pending')
FROM open, gone
