-- Which roles of consign and its apps (groups without a login, members of nothing) may use a schema, table, view or
-- function of this name ($1 text), and that the current login is not a member of: the least powerful first.
SELECT r.rolname::text AS role, quote_ident(current_user) AS login
    FROM pg_catalog.pg_roles r
    WHERE NOT r.rolcanlogin AND NOT r.rolsuper AND r.rolname !~ '^pg_'
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members m WHERE m.member = r.oid)
        AND NOT pg_catalog.pg_has_role(current_user, r.oid, 'USAGE')
        AND EXISTS (
            WITH ours AS (
                SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n
                    WHERE n.nspowner = (SELECT c.nspowner FROM pg_catalog.pg_namespace c WHERE c.nspname = 'consign')
                        AND n.nspname !~ '^(pg_|information_schema$)'
            )
            SELECT FROM ours WHERE nspname = $1 AND has_schema_privilege(r.oid, oid, 'USAGE')
            UNION ALL
            SELECT FROM pg_catalog.pg_class c JOIN ours ON ours.oid = c.relnamespace
                WHERE c.relname = $1 AND has_any_column_privilege(r.oid, c.oid, 'SELECT')
            UNION ALL
            SELECT FROM pg_catalog.pg_proc p JOIN ours ON ours.oid = p.pronamespace
                WHERE p.proname = $1 AND has_function_privilege(r.oid, p.oid, 'EXECUTE'))
    ORDER BY array_position(ARRAY['consign_auditor', 'consign_producer', 'consign_worker', 'consign_operator'], r.rolname::text), role
