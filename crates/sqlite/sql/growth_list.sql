-- The newest sample, the first one of the 24 hours before it, and the first one of the 7 days before it; by hour. By
-- primary key. A sample may be any of them.
WITH newest AS (SELECT max(hour) AS hour FROM growth)
SELECT sample FROM growth
WHERE hour IN (SELECT hour FROM newest
               UNION SELECT (SELECT min(hour) FROM growth WHERE hour > newest.hour - 86400000000) FROM newest
               UNION SELECT (SELECT min(hour) FROM growth WHERE hour > newest.hour - 604800000000) FROM newest)
ORDER BY hour
