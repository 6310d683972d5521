-- All watermarks of synchronisations.
SELECT key, value_json, updated_at FROM kv WHERE namespace = 'scm.sync'
