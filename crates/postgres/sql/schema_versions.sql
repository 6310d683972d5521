-- Applied migrations in order, each with the checksum of its text.
SELECT version, name, checksum FROM consign.schema_version ORDER BY version
