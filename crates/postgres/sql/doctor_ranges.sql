-- The ranges are what the catalog has: four partitions each, with the range's bounds, on which only the owner has rights.
WITH parent AS (SELECT c.oid, c.relname, c.relowner FROM pg_class c
                    WHERE c.relnamespace = 'consign'::regnamespace AND c.relname IN ('message', 'attempt', 'late', 'audit') AND c.relkind = 'p'),
expected AS (
    SELECT p.oid AS parent, format('%s_%s', p.relname, r.number) AS name,
           format('FOR VALUES FROM (%L) TO (%L)', CASE p.relname WHEN 'audit' THEN greatest(r.first, 1) ELSE r.first END, r.until) AS bounds
        FROM parent p CROSS JOIN consign.range r
    UNION ALL
    SELECT p.oid, 'audit_0', 'FOR VALUES FROM (MINVALUE) TO (''1'')' FROM parent p WHERE p.relname = 'audit'),
child AS (
    SELECT c.oid, c.relname AS name, i.inhparent AS parent, pg_get_expr(c.relpartbound, c.oid) AS bounds, c.relacl, c.relowner
        FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE c.relnamespace = 'consign'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^(message|attempt|late|audit)_[0-9]+$')
SELECT 'range_differs' AS code,
       'consign.' || coalesce(e.name, c.name) || CASE
           WHEN c.name IS NULL THEN ' is missing: its range has no such partition'
           WHEN e.name IS NULL THEN ' is a partition of no range'
           ELSE ' is not attached with the bounds of its range: ' || coalesce(c.bounds, 'detached') || ' instead of ' || e.bounds END AS what,
       'stop the maintenance; find out what changed the tables of schema consign, and restore them from a backup' AS remedy,
       '{}'::bigint[] AS ids
    FROM expected e FULL JOIN (SELECT * FROM child WHERE parent IS NOT NULL) c ON c.parent = e.parent AND c.name = e.name
    WHERE c.bounds IS DISTINCT FROM e.bounds
UNION ALL
-- A departure under way has the new tables until they take their place, and then the old ones until they are dropped.
SELECT 'range_left_over', 'consign.' || c.name || ' belongs to no range and no departure under way',
       'look at its rows; then as owner: DROP TABLE consign.' || c.name, '{}'::bigint[]
    FROM child c
    WHERE c.parent IS NULL
        AND NOT EXISTS (SELECT FROM expected e WHERE e.name = c.name)
        AND NOT EXISTS (SELECT FROM consign.departure d
                            WHERE d.state <> 'over' AND substring(c.name FROM '[0-9]+$')::bigint = ANY (d.detached || d.number))
UNION ALL
SELECT 'range_rights', 'roles other than the owner have rights on consign.' || c.name || ': they pass by the rights on its parent',
       'as owner: REVOKE ALL ON consign.' || c.name || ' FROM ' || string_agg(DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, ', '),
       '{}'::bigint[]
    FROM child c CROSS JOIN aclexplode(c.relacl) a
    WHERE a.grantee <> c.relowner
    GROUP BY c.name
UNION ALL
SELECT 'range_last_in_use', 'messages from ' || r.first || ' on are in the last range: no maintenance has made others for them, and they cannot leave',
       'run the maintenance: consign serve or consign work with a login that has consign_operator, or consign retention run',
       '{}'::bigint[]
    FROM consign.range r
    WHERE r.until = 9223372036854775807 AND EXISTS (SELECT FROM consign.message m WHERE m.id >= r.first)
        AND EXISTS (SELECT FROM consign.queue q WHERE num_nonnulls(q.policy->>'keep_ms', q.policy->>'keep_dead_ms') > 0)
