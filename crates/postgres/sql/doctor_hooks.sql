-- The functions of hooks exist.
SELECT 'hook_broken' AS code, 'the hook `' || h.event || '` of queue ' || q.name || ' cannot run: ' || h.function || ' is missing' AS what,
       'as owner: create the function, or remove the hook: SELECT consign.set_hook(''' || q.name || ''', ''' || h.event || ''', NULL)' AS remedy,
       '{}'::bigint[] AS ids
    FROM consign.queue q, jsonb_each_text(q.hooks) AS h (event, function)
    WHERE NOT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace WHERE format('%I.%I', s.nspname, p.proname) = h.function)
