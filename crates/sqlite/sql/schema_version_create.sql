-- Creates the table that records which migrations were applied.
CREATE TABLE IF NOT EXISTS schema_version (
    component  TEXT NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    PRIMARY KEY (component, version)
) STRICT, WITHOUT ROWID
