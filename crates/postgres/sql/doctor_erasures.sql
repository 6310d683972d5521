-- An erased message is final, and its content is gone; an app may keep a part of results. The erasures are few: each is looked up by primary keys.
SELECT 'erasure' AS code, 'message ' || m.id || ' was erased, but has content or is not final' AS what,
       'find out what wrote it; then as owner: UPDATE consign.message SET payload = ''null'', headers = ''{}'' WHERE id = ' || m.id
           || ', and SET detail = NULL, result = NULL in consign.attempt and consign.late' AS remedy,
       ARRAY[m.id] AS ids
    FROM consign.erasure e JOIN consign.message m ON m.id = e.message_id JOIN consign.queue q ON q.name = m.queue
    WHERE m.payload <> 'null' OR m.headers <> '{}'
        OR EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = e.message_id
                       AND (a.detail IS NOT NULL OR a.result IS NOT NULL AND NOT q.hooks ? 'keeps'))
        OR EXISTS (SELECT FROM consign.late l WHERE l.message_id = e.message_id
                       AND (l.detail IS NOT NULL OR l.result IS NOT NULL AND NOT q.hooks ? 'keeps'))
        OR NOT EXISTS (SELECT FROM consign.dead d WHERE d.message_id = e.message_id AND d.erased AND d.detail IS NULL)
            AND NOT EXISTS (SELECT FROM consign.discarded x WHERE x.message_id = e.message_id)
            AND NOT EXISTS (SELECT FROM consign.attempt a WHERE a.message_id = e.message_id AND a.outcome = 'delivered')
    ORDER BY m.id LIMIT 100
