-- The append-only triggers are in place and switched on, on every range too: PostgreSQL does not pass them on.
SELECT 'append_only_off' AS code, 'consign.' || guarded.name || ' is not protected against changes' AS what,
       'as owner: ALTER TABLE consign.' || guarded.name || ' ENABLE TRIGGER ' || guarded.trigger || ' (create it as in `consign migrate print` if missing)' AS remedy,
       '{}'::bigint[] AS ids
    FROM (SELECT c.oid, c.relname AS name, 'append_only' AS trigger FROM pg_class c
              WHERE c.relnamespace = 'consign'::regnamespace AND c.relname IN ('message', 'attempt', 'audit', 'late', 'erasure')
          UNION ALL
          SELECT c.oid, c.relname, 'append_only' FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
              WHERE i.inhparent IN ('consign.message'::regclass, 'consign.attempt'::regclass, 'consign.late'::regclass,
                                    'consign.audit'::regclass)
          UNION ALL
          SELECT 'consign.audit_0'::regclass, 'audit_0', 'permanent') guarded
    WHERE NOT EXISTS (
        SELECT FROM pg_trigger t
            WHERE t.tgrelid = guarded.oid AND t.tgname = guarded.trigger AND t.tgenabled IN ('O', 'A'))
UNION ALL
-- Updates through the parents are left to a trigger of rows, which PostgreSQL passes on.
SELECT 'append_only_off', 'consign.' || c.relname || ' is not protected against updates',
       'as owner: ALTER TABLE consign.' || c.relname || ' ENABLE TRIGGER erase_only (create it as in `consign migrate print` if missing)',
       '{}'::bigint[]
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE coalesce(i.inhparent, c.oid) IN ('consign.message'::regclass, 'consign.attempt'::regclass, 'consign.late'::regclass)
        AND c.relkind IN ('r', 'p') AND NOT EXISTS (
            SELECT FROM pg_trigger t
                WHERE t.tgrelid = c.oid AND t.tgname = 'erase_only' AND t.tgenabled IN ('O', 'A'))
