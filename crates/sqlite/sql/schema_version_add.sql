-- Remembers an applied migration. ?1 version, ?2 name, ?3 checksum, ?4 applied_at.
INSERT INTO schema_version (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)
