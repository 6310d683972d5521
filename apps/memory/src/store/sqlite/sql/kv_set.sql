-- Sets a value. ?1 namespace, ?2 key, ?3 value, ?4 now.
INSERT INTO kv (namespace, key, value_json, updated_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (namespace, key) DO UPDATE
SET value_json = excluded.value_json, updated_at = excluded.updated_at
