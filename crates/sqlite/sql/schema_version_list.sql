-- The migrations applied, first to last.
SELECT version, name, checksum, applied_at FROM schema_version ORDER BY version
