-- The functions of hooks are there, and every queue knows its hooks.
SELECT 'hook_broken' AS code, 'the hook `' || h.event || '` of queue ' || h.queue || ' cannot run: ' || h.function || ' is missing, or the queue does not know it' AS what,
       'as owner: create the function, then SELECT consign.set_hook(''' || h.queue || ''', ''' || h.event || ''', ''' || h.function || ''')' AS remedy, '{}'::bigint[] AS ids
    FROM consign.hook h LEFT JOIN consign.queue n ON n.name = h.queue
    WHERE NOT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace WHERE format('%I.%I', s.nspname, p.proname) = h.function)
        OR (n.name IS NOT NULL AND n.hooks->>h.event IS DISTINCT FROM h.function)
