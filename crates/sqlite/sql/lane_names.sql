-- Every lane's name, for suggestions.
SELECT name FROM lane ORDER BY name
