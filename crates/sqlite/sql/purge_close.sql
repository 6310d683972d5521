-- Ends a purge.
DELETE FROM purging
