-- Names of lanes, for suggestions.
SELECT name FROM lane ORDER BY name LIMIT 1000
