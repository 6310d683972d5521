-- The newest sample, the first one of the 24 hours before it, and the first one of the 7 days before it; by hour.
WITH newest AS (SELECT max(hour) AS hour FROM consign.growth)
SELECT g.sample::text AS sample FROM consign.growth g
    WHERE g.hour IN (SELECT hour FROM newest
                     UNION SELECT (SELECT min(f.hour) FROM consign.growth f WHERE f.hour > n.hour - interval '24 hours') FROM newest n
                     UNION SELECT (SELECT min(f.hour) FROM consign.growth f WHERE f.hour > n.hour - interval '168 hours') FROM newest n)
    ORDER BY g.hour
