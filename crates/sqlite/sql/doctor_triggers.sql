-- The names of all triggers.
SELECT name FROM sqlite_schema WHERE type = 'trigger'
