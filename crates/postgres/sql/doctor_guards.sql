-- The append-only triggers are in place and switched on, and the functions of hooks are there.
SELECT 'append_only_off' AS code, 'consign.' || guarded.name || ' is not protected against changes' AS what,
       'as owner: ALTER TABLE consign.' || guarded.name || ' ENABLE TRIGGER append_only (create it as in `consign migrate print` if missing)' AS remedy,
       '{}'::bigint[] AS ids
    FROM unnest(ARRAY['message', 'attempt', 'audit', 'late']) AS guarded (name)
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = ('consign.' || guarded.name)::regclass AND t.tgname = 'append_only' AND t.tgenabled IN ('O', 'A'))
UNION ALL
SELECT 'hook_broken', 'the hook `' || h.event || '` of queue ' || h.queue || ' cannot run: ' || h.function || ' is missing, or the queue does not know it',
       'as owner: create the function, then SELECT consign.set_hook(''' || h.queue || ''', ''' || h.event || ''', ''' || h.function || ''')', '{}'::bigint[]
    FROM consign.hook h LEFT JOIN consign.queue n ON n.name = h.queue
    WHERE to_regproc(h.function) IS NULL OR (n.name IS NOT NULL AND n.hooks->>h.event IS DISTINCT FROM h.function)
