-- The append-only triggers are in place and switched on.
SELECT 'append_only_off' AS code, 'consign.' || guarded.name || ' is not protected against changes' AS what,
       'as owner: ALTER TABLE consign.' || guarded.name || ' ENABLE TRIGGER append_only (create it as in `consign migrate print` if missing)' AS remedy,
       '{}'::bigint[] AS ids
    FROM unnest(ARRAY['message', 'attempt', 'audit', 'late']) AS guarded (name)
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = ('consign.' || guarded.name)::regclass AND t.tgname = 'append_only' AND t.tgenabled IN ('O', 'A'))
