-- The migrations applied, by component, first to last.
SELECT component, version, name, checksum, applied_at FROM consign.schema_version ORDER BY component, version
