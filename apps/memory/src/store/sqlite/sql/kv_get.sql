-- A value. ?1 namespace, ?2 key.
SELECT value_json FROM kv WHERE namespace = ?1 AND key = ?2
