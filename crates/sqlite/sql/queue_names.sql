-- Names of queues, for suggestions.
SELECT name FROM queue ORDER BY name LIMIT 1000
