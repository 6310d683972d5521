-- Applied migrations in order, each with whether its text is still the one in $1 (text[], by version).
SELECT version, name, checksum = md5(($1::text[])[version]) AS unchanged
    FROM consign.schema_version ORDER BY version
