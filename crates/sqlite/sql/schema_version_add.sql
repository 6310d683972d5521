-- Records an applied migration. ?1 component, ?2 version, ?3 name, ?4 checksum, ?5 applied_at.
INSERT INTO schema_version (component, version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4, ?5)
